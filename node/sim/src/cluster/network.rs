//! The network between the nodes: each direction of each pair can be cut; messages are late, lost, repeated,
//! and overtake each other.

use super::event::{Ix, Ms};
use crate::rng::Rng;

/// Links and their troubles.
#[derive(Debug)]
pub struct Network {
    cut: Vec<Vec<bool>>,
    /// In percent.
    pub loss: u64,
    pub repeat: u64,
    /// The longest a message usually takes.
    pub delay: Ms,
}

impl Network {
    /// Every link whole.
    pub fn new(nodes: usize) -> Self {
        Self { cut: vec![vec![false; nodes]; nodes], loss: 0, repeat: 0, delay: 5 }
    }

    /// Nothing passes from `from` to `to` any more.
    pub fn cut(&mut self, from: Ix, to: Ix) {
        self.cut[from][to] = true;
    }

    /// All is well.
    pub fn heal(&mut self) {
        *self = Self::new(self.cut.len());
    }

    /// Only the cuts are mended.
    pub fn mend(&mut self) {
        for row in &mut self.cut {
            row.fill(false);
        }
    }

    /// Whether both can hear each other.
    pub fn joined(&self, a: Ix, b: Ix) -> bool {
        !self.cut[a][b] && !self.cut[b][a]
    }

    /// When a message sent now arrives, as often as it does.
    pub fn arrivals(&self, from: Ix, to: Ix, now: Ms, rng: &mut Rng) -> Vec<Ms> {
        if self.cut[from][to] || from != to && rng.percent(self.loss) {
            return Vec::new();
        }
        let mut delay = || {
            let usual = if from == to { 0 } else { 1 + rng.below(self.delay) };
            if from != to && rng.percent(1) { usual + rng.below(20 * self.delay) } else { usual }
        };
        let mut arrivals = vec![now + delay()];
        if self.repeat > 0 {
            let again = now + delay() + self.delay;
            if rng.percent(self.repeat) {
                arrivals.push(again);
            }
        }
        arrivals
    }
}
