//! The lengths of the model's time, in ticks. They are small, because the search is through their
//! combinations; what matters is their order: kill ≤ margin, ttl and margin positive.

use super::rule::{Rule, Rules};

/// Lengths of time.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long a lease lasts from the sending of its heartbeat.
    pub ttl: u8,
    /// What the leader waits beyond that.
    pub margin: u8,
    /// The most that passes between the end of a lease and the death of the VMM: drift of the clocks,
    /// wake-up, and the time a VMM takes to die.
    pub kill: u8,
    /// How long a cold node waits for a quorum.
    pub autostart_wait: u8,
    /// How long a freeze lasts.
    pub freeze: u8,
    /// Ages and remaining times end here.
    pub cap: u8,
}

impl Timing {
    /// The lengths for a set of rules: without rule 9 a VMM may die later than the margin.
    pub fn of(rules: Rules) -> Self {
        let kill = if rules.on(Rule::MarginCoversKill) { 1 } else { 4 };
        Self { ttl: 3, margin: 2, kill, autostart_wait: 3, freeze: 5, cap: 16 }
    }

    /// `age` one tick later.
    pub fn older(&self, age: u8) -> u8 {
        self.cap.min(age + 1)
    }
}
