//! What a leader's death alone costs a lease (rule 9): the longest time a node goes between the sending of
//! two heartbeats that are both granted, over every phase of the death and every length of the elections.
//! A lease whose ttl is longer than that never lapses because a leader died.

/// The times that matter, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Between two heartbeats.
    pub heartbeat: u64,
    /// How long an answer is waited for, and how many heartbeats wait at once.
    pub patience: u64,
    pub in_flight: usize,
    /// From a heartbeat to its grant while a leader serves, the round included.
    pub answer: u64,
    pub election: (u64, u64),
    /// Elections that come to nothing before one succeeds.
    pub split: u64,
    /// From the election to the moment its BeginLeadership is applied.
    pub begin: u64,
}

impl Times {
    /// The defaults of the product.
    pub const PRODUCT: Self = Self {
        heartbeat: 1_000,
        patience: 2_000,
        in_flight: 2,
        answer: 100,
        election: (500, 900),
        split: 1,
        begin: 100,
    };

    /// Rule 9's least ttl.
    pub fn least_ttl(&self) -> u64 {
        3 * (2 * self.election.1 + 1_000)
    }

    /// The ttl that a leader's death at its worst moment needs.
    pub fn longest_gap(&self) -> u64 {
        let phases = (0..self.heartbeat + self.patience).step_by(STEP as usize);
        let elections = (self.election.0..=self.election.1).step_by(100);
        phases
            .flat_map(|phase| elections.clone().map(move |election| (phase, election)))
            .map(|(phase, election)| self.gap(phase, election * (1 + self.split)))
            .max()
            .unwrap_or(0)
    }

    /// The longest gap where the leader dies `phase` after the node's clock struck, and the next one serves
    /// `leaderless` and its beginning later.
    fn gap(&self, phase: u64, leaderless: u64) -> u64 {
        let dies = 10 * self.heartbeat + phase;
        let serves = dies + leaderless + self.begin;
        let mut waiting: Vec<Beat> = Vec::new();
        let (mut granted, mut longest) = (0, 0);
        for now in (0..serves + 10 * self.heartbeat).step_by(STEP as usize) {
            for beat in waiting.iter().filter(|beat| beat.granted && beat.until <= now) {
                granted = granted.max(beat.sent);
            }
            waiting.retain(|beat| beat.until > now);
            if now % self.heartbeat == 0 && waiting.len() < self.in_flight {
                // A heartbeat to a leader that dies before it has answered is lost, and waited for.
                let heard = now + self.answer <= dies || now >= serves;
                let until = now + if heard { self.answer } else { self.patience };
                waiting.push(Beat { sent: now, until, granted: heard });
            }
            longest = longest.max(now - granted);
        }
        longest
    }
}

/// The grain of time.
const STEP: u64 = 50;

struct Beat {
    sent: u64,
    until: u64,
    granted: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_ttl_outlasts_a_leaders_death_at_any_moment() {
        let times = Times::PRODUCT;
        let gap = times.longest_gap();
        assert_eq!((times.least_ttl(), gap), (8_400, 3_050));
    }

    #[test]
    fn it_outlasts_two_elections_that_come_to_nothing_as_well() {
        let times = Times { split: 2, ..Times::PRODUCT };
        assert!(times.longest_gap() < times.least_ttl(), "{}", times.longest_gap());
    }

    #[test]
    fn a_ttl_of_a_single_election_and_a_second_would_not() {
        let times = Times::PRODUCT;
        assert!(times.longest_gap() > times.least_ttl() / 3);
    }
}
