//! Raw weights of the hosts that passed, of one weigher. Most weighers tell few hosts apart, and many none: one number
//! then stands for all, until one differs.

use crate::weigher::Range;

/// See the module.
#[derive(Debug)]
pub enum Weights {
    Same { weight: i64, hosts: usize },
    Each(Vec<i64>),
}

impl Weights {
    pub const EMPTY: Self = Self::Same { weight: 0, hosts: 0 };

    pub fn get(&self, at: usize) -> i64 {
        match self {
            Self::Same { weight, .. } => *weight,
            Self::Each(each) => each[at],
        }
    }

    pub fn range(&self) -> Range {
        match self {
            Self::Same { hosts: 0, .. } => Range::EMPTY,
            Self::Same { weight, .. } => Range::of(&[*weight]),
            Self::Each(each) => Range::of(each),
        }
    }

    /// Those of the next hosts, of `most` in all.
    pub fn extend(&mut self, next: &[i64], most: usize) {
        let Some(first) = next.first() else { return };
        if let Self::Same { weight, hosts } = self {
            if *hosts == 0 {
                *weight = *first;
            }
            if next.iter().all(|next| next == weight) {
                *hosts += next.len();
                return;
            }
        }
        self.each(most).extend(next);
    }

    /// Another weight of one host.
    pub fn set(&mut self, at: usize, to: i64) {
        if self.get(at) != to {
            self.each(0)[at] = to;
        }
    }

    /// A host between the others.
    pub fn insert(&mut self, at: usize, new: i64) {
        match self {
            Self::Same { weight, hosts } if *hosts == 0 || *weight == new => {
                (*weight, *hosts) = (new, *hosts + 1);
            }
            _ => self.each(0).insert(at, new),
        }
    }

    pub fn remove(&mut self, at: usize) {
        match self {
            Self::Same { hosts, .. } => *hosts -= 1,
            Self::Each(each) => _ = each.remove(at),
        }
    }

    /// One by one from now on, with memory for `most`.
    fn each(&mut self, most: usize) -> &mut Vec<i64> {
        if let Self::Same { weight, hosts } = *self {
            let mut each = Vec::with_capacity(most.max(hosts + 1));
            each.resize(hosts, weight);
            *self = Self::Each(each);
        }
        match self {
            Self::Each(each) => each,
            Self::Same { .. } => unreachable!("it was just made"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same steps on plain numbers.
    #[test]
    fn one_number_for_all_is_as_good_as_each() {
        let mut seed = 1u64;
        let mut roll = move |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        for most in 1..40u64 {
            let (mut weights, mut plain) = (Weights::EMPTY, Vec::new());
            for _ in 0..200 {
                let weight = roll(most % 3 + 1) as i64;
                let at = roll(plain.len() as u64 + 1) as usize;
                match roll(4) {
                    0 => {
                        weights.extend(&[weight; 2], 10);
                        plain.extend([weight; 2]);
                    }
                    1 => {
                        weights.insert(at, weight);
                        plain.insert(at, weight);
                    }
                    2 if at < plain.len() => {
                        weights.remove(at);
                        plain.remove(at);
                    }
                    _ if at < plain.len() => {
                        weights.set(at, weight);
                        plain[at] = weight;
                    }
                    _ => {}
                }
                let told: Vec<i64> = (0..plain.len()).map(|at| weights.get(at)).collect();
                assert_eq!(told, plain);
                assert_eq!(weights.range().is_flat(), Range::of(&plain).is_flat());
            }
        }
    }
}
