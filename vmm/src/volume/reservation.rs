//! Who may write to a disk, as the disk itself knows it: a persistent reservation of the type Write Exclusive,
//! whose key is the epoch of the VM's claim.
//!
//! ```text
//!             read keys and reservation
//!   ┌──────────────────►│
//!   │                   ├─ a newer epoch, or a key that is not Holm's ──► refused, nothing changed
//!   │                   ├─ not registered in this take ─────► register ─┐
//!   │ something changed ├─ no reservation ──────────────────► reserve  ─┤ conflict: somebody was faster
//!   └───────────────────┤  an older epoch holds it ─────────► preempt  ─┤
//!                       ├─ older epochs are registered ─────► preempt  ─┘
//!                       └─ ours, and nobody else is there ──► taken
//! ```
//!
//! Only the *holder* may write, not every registrant (type 1, not 5): any host can register at any time, also one
//! that has slept since it looked, and with "registrants only" that alone would let it write. To become the holder
//! it must name the key of the holder it saw, and the disk compares and swaps: a holder that came in between has
//! another key. Preempting also aborts what the old holder has under way, so when a take returns nothing of it is
//! still on its way to the platter. Reads are not reserved: they do no harm to the data, what is read is never
//! old (there is no page cache in between), and a disk that nobody may read makes every other host stumble over
//! it when it looks for partitions.

use holm_model::{Epoch, VolumeId};

/// How often somebody else may be faster before it is called hopeless.
const ROUNDS_MAX: u32 = 64;
/// `H`: whoever lists the keys of a disk sees whose they are.
const MARK: u64 = 0x48 << 56;
/// Bits of the epoch.
const EPOCH: u64 = (1 << 40) - 1;

/// What an epoch is to a disk: the mark, 16 bits of the volume's id, the epoch. So a key of other software, of another
/// cluster, or of a second volume that leads to the same disk by another path, is never taken for an older epoch.
/// Never 0, which is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub u64);

impl Key {
    /// The key of a volume under an epoch; epochs count applied commands, and stay far below 2^40.
    pub fn of(volume: VolumeId, epoch: Epoch) -> Self {
        // The end of an id is its random part.
        let volume = volume.0.as_u128() as u64 & 0xffff;
        Self(MARK | volume << 40 | (epoch.0.0 & EPOCH))
    }

    fn epoch(self) -> u64 {
        self.0 & EPOCH
    }

    fn is_of_the_volume_of(self, other: Self) -> bool {
        self.0 & !EPOCH == other.0 & !EPOCH
    }
}

/// Who is registered with a disk, and who holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    pub registered: Vec<Key>,
    pub holder: Option<Key>,
}

/// What came of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The disk is not as the caller believed; nothing changed.
    Conflict,
}

/// A disk that knows persistent reservations, through one path to it.
pub trait Unit {
    fn read(&self) -> Result<Reservation, Error>;
    /// Registers this path under `key`, whatever it was registered under before.
    fn register(&self, key: Key) -> Result<Outcome, Error>;
    /// Makes this path the holder, if nobody is, or if it is already.
    fn reserve(&self, key: Key) -> Result<Outcome, Error>;
    /// Throws out every registration under `old`, aborts what they have under way, and makes this path the holder
    /// if one of them was.
    fn preempt(&self, old: Key, key: Key) -> Result<Outcome, Error>;
    /// Takes back this path's registration, and with it the reservation, if it is under `key`.
    fn unregister(&self, key: Key) -> Result<Outcome, Error>;
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("epoch {newer} has it, and epoch {mine} is older: another node runs the VM by now")]
    Superseded { mine: u64, newer: u64 },
    #[error(
        "another program, another cluster or another volume that leads to the same disk holds it (reservation key \
         {key:#018x}): if it is not in use, clear it with `sg_persist --out --clear`"
    )]
    Foreign { key: u64 },
    #[error("the device does not support persistent reservations: use storage that does, or `lock: none`")]
    Unsupported,
    #[error(
        "the device does not keep reservations over a loss of power (APTPL): turn that on in the storage, or use \
         `lock: none`"
    )]
    NotKept,
    #[error("it changes hands all the time")]
    Contended,
    #[error("the storage answers too slowly")]
    Slow,
    #[error("the device answers in an unknown way ({0})")]
    Answer(String),
    #[error("the device does not answer")]
    Io(#[from] std::io::Error),
}

impl Error {
    /// Whether it may be well in a moment, with nothing done by anybody.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Contended | Self::Slow | Self::Answer(_) | Self::Io(_))
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Register,
    Reserve,
    Preempt(Key),
    Taken,
}

/// What this take has achieved so far.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    registered: bool,
    /// A reserve of this take was accepted, so the path that holds it is this one.
    reserved: bool,
}

fn next(seen: &Reservation, mine: Key, so_far: Progress) -> Result<Step, Error> {
    for key in seen.registered.iter().chain(&seen.holder) {
        if !key.is_of_the_volume_of(mine) {
            return Err(Error::Foreign { key: key.0 });
        }
        if *key > mine {
            return Err(Error::Superseded { mine: mine.epoch(), newer: key.epoch() });
        }
    }
    if !so_far.registered {
        return Ok(Step::Register);
    }
    match seen.holder {
        Some(holder) if holder != mine => return Ok(Step::Preempt(holder)),
        Some(_) if so_far.reserved => {}
        Some(_) | None => return Ok(Step::Reserve),
    }
    let other = seen.registered.iter().find(|key| **key != mine);
    Ok(other.map_or(Step::Taken, |old| Step::Preempt(*old)))
}

/// Makes `mine` the only key of the disk and this path its holder, unless a newer epoch has been there.
///
/// # Errors
/// [`Error::Superseded`] and [`Error::Foreign`] change nothing; after the others the next take finds its way.
pub fn take(unit: &impl Unit, mine: Key) -> Result<(), Error> {
    let mut so_far = Progress::default();
    for _ in 0..ROUNDS_MAX {
        let step = next(&unit.read()?, mine, so_far)?;
        if step == Step::Taken {
            return Ok(());
        }
        so_far = perform(unit, mine, step, so_far)?;
    }
    Err(Error::Contended)
}

fn perform(unit: &impl Unit, mine: Key, step: Step, so_far: Progress) -> Result<Progress, Error> {
    let outcome = match step {
        Step::Register => unit.register(mine)?,
        Step::Reserve => match unit.reserve(mine)? {
            // The epoch holds it, but by another path: that of this host before its boot, since no other host has
            // the epoch. Nothing of it runs.
            Outcome::Conflict if unit.read()?.holder == Some(mine) => unit.preempt(mine, mine)?,
            outcome => outcome,
        },
        Step::Preempt(old) => unit.preempt(old, mine)?,
        Step::Taken => Outcome::Done,
    };
    Ok(match (step, outcome) {
        // Thrown out, or misinformed: from the beginning.
        (_, Outcome::Conflict) => Progress::default(),
        (Step::Register, Outcome::Done) => Progress { registered: true, ..so_far },
        (Step::Reserve, Outcome::Done) => Progress { reserved: true, ..so_far },
        (Step::Preempt(_) | Step::Taken, Outcome::Done) => so_far,
    })
}

#[cfg(test)]
#[path = "reservation_tests.rs"]
mod tests;
