//! Broken promises on demand. The power-loss test is only worth something if it notices a store without
//! fsync, or with unsplit values; these switches plant exactly that. Compiled in with the feature
//! `planted-faults` only, and off even then.

#[cfg(feature = "planted-faults")]
mod planted {
    use std::sync::atomic::{AtomicBool, Ordering};

    static SKIP_SYNC: AtomicBool = AtomicBool::new(false);
    static WHOLE_VALUES: AtomicBool = AtomicBool::new(false);

    /// From now on this process flushes without fsync.
    pub fn skip_sync() {
        SKIP_SYNC.store(true, Ordering::Relaxed);
    }

    /// From now on this process writes values unsplit and ignores blob files.
    pub fn keep_values_whole() {
        WHOLE_VALUES.store(true, Ordering::Relaxed);
    }

    pub(crate) fn skips_sync() -> bool {
        SKIP_SYNC.load(Ordering::Relaxed)
    }

    pub(crate) fn keeps_values_whole() -> bool {
        WHOLE_VALUES.load(Ordering::Relaxed)
    }
}

#[cfg(feature = "planted-faults")]
pub use planted::{keep_values_whole, skip_sync};
#[cfg(feature = "planted-faults")]
pub(super) use planted::{keeps_values_whole, skips_sync};

#[cfg(not(feature = "planted-faults"))]
pub(super) const fn skips_sync() -> bool {
    false
}

#[cfg(not(feature = "planted-faults"))]
pub(super) const fn keeps_values_whole() -> bool {
    false
}
