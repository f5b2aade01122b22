//! Seeded choices: every client and the nemesis draws from a stream of its own, so that one that is slow
//! does not shift what the others do. A seed fixes the choices, not the interleaving of real processes.

use rand::SeedableRng;
use rand::rngs::StdRng;

/// The stream of `who`, the `index`th of its kind, in the run of `seed`.
pub fn stream(seed: u64, who: &str, index: u64) -> StdRng {
    // FNV-1a: fixed for ever, unlike the hashers of the standard library.
    let mut mixed = 0xcbf2_9ce4_8422_2325_u64;
    for byte in who.bytes().chain(seed.to_be_bytes()).chain(index.to_be_bytes()) {
        mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    StdRng::seed_from_u64(mixed)
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_choices_and_another_stream_gives_others() {
        let draw = |seed, who, index| stream(seed, who, index).random::<u64>();
        assert_eq!(draw(7, "client", 1), draw(7, "client", 1));
        assert_ne!(draw(7, "client", 1), draw(7, "client", 2));
        assert_ne!(draw(7, "client", 1), draw(7, "nemesis", 1));
        assert_ne!(draw(7, "client", 1), draw(8, "client", 1));
    }
}
