//! Broken promises on demand. A test is only worth something if it notices a store without fsync, or a node
//! that goes on after a panic; these switches plant exactly that. Compiled in with the feature `planted-faults`
//! only, which no product crate enables, and off even then. Two of them have a name in `holm_model::planted` too.

use holm_model::planted::{Plant, planted as chosen};

#[cfg(feature = "planted-faults")]
mod planted {
    use std::sync::atomic::{AtomicBool, Ordering};

    use holm_model::ClusterId;

    use crate::guarded::Guarded;
    use crate::handle::Handle;
    use crate::types::Data;

    static SKIP_SYNC: AtomicBool = AtomicBool::new(false);
    static WHOLE_VALUES: AtomicBool = AtomicBool::new(false);
    static FAIL_SYNC: AtomicBool = AtomicBool::new(false);
    static PANIC_IN_APPLY: AtomicBool = AtomicBool::new(false);
    static PANIC_IN_A_TASK: AtomicBool = AtomicBool::new(false);
    static BEFORE_GRANT: Guarded<Option<(ClusterId, Work)>> = Guarded::new(None);

    type Work = Box<dyn FnOnce() + Send>;

    /// From now on this process flushes without fsync.
    pub fn skip_sync() {
        SKIP_SYNC.store(true, Ordering::Relaxed);
    }

    /// The next fsync fails; those after it do not, as the kernel has it.
    pub fn fail_next_sync() {
        FAIL_SYNC.store(true, Ordering::Relaxed);
    }

    /// From now on this process writes values unsplit and ignores blob files.
    pub fn keep_values_whole() {
        WHOLE_VALUES.store(true, Ordering::Relaxed);
    }

    /// From now on every entry this process applies panics.
    pub fn panic_in_apply() {
        PANIC_IN_APPLY.store(true, Ordering::Relaxed);
    }

    /// The task that follows the members panics at its next look.
    pub fn panic_in_a_task() {
        PANIC_IN_A_TASK.store(true, Ordering::Relaxed);
    }

    /// The next lease to be granted in the cluster of `handle` is held up by `work`, once its round is over.
    pub fn hold_up_next_grant(handle: &Handle, work: impl FnOnce() + Send + 'static) {
        *BEFORE_GRANT.lock() = Some((handle.identity().cluster, Box::new(work)));
    }

    /// Ends Raft's core by a panic.
    pub async fn panic_in_core(handle: &Handle) {
        let broken = handle.core().raft.with_raft_state::<_, ()>(|_| panic!("planted in the core"));
        let _ = broken.await;
    }

    /// Commits an entry as a later version would write it.
    pub async fn commit_entry_of_the_future(handle: &Handle) {
        let _ = handle.core().raft.client_write(Data::of_the_future()).await;
    }

    /// Stops without handing over leadership, and without marking how far the log is committed, as a crash would.
    pub async fn stop_abruptly(handle: &Handle) {
        handle.end_tasks().await;
        handle.core().store.abandon().await;
    }

    pub(crate) fn skips_sync() -> bool {
        SKIP_SYNC.load(Ordering::Relaxed) || super::chosen(super::Plant::SkipFsync)
    }

    pub(crate) fn after_sync() -> std::io::Result<()> {
        match FAIL_SYNC.swap(false, Ordering::Relaxed) {
            true => Err(std::io::Error::other("planted in the fsync")),
            false => Ok(()),
        }
    }

    pub(crate) fn keeps_values_whole() -> bool {
        WHOLE_VALUES.load(Ordering::Relaxed) || super::chosen(super::Plant::WholeValues)
    }

    pub(crate) fn before_apply() {
        assert!(!PANIC_IN_APPLY.load(Ordering::Relaxed), "planted in apply");
    }

    pub(crate) fn before_grant(cluster: ClusterId) {
        let held = BEFORE_GRANT.lock().take_if(|(of, _)| *of == cluster);
        if let Some((_, work)) = held {
            work();
        }
    }

    pub(crate) fn in_a_task() {
        assert!(!PANIC_IN_A_TASK.load(Ordering::Relaxed), "planted in a task");
    }
}

#[cfg(feature = "planted-faults")]
pub(crate) use planted::{after_sync, before_apply, before_grant, in_a_task, keeps_values_whole, skips_sync};
#[cfg(feature = "planted-faults")]
pub use planted::{
    commit_entry_of_the_future, fail_next_sync, hold_up_next_grant, keep_values_whole, panic_in_a_task,
    panic_in_apply, panic_in_core, skip_sync, stop_abruptly,
};

#[cfg(not(feature = "planted-faults"))]
mod none {
    pub(crate) fn skips_sync() -> bool {
        super::chosen(super::Plant::SkipFsync)
    }

    pub(crate) const fn after_sync() -> std::io::Result<()> {
        Ok(())
    }

    pub(crate) fn keeps_values_whole() -> bool {
        super::chosen(super::Plant::WholeValues)
    }

    pub(crate) const fn before_apply() {}

    pub(crate) const fn before_grant(_: holm_model::ClusterId) {}

    pub(crate) const fn in_a_task() {}
}

#[cfg(not(feature = "planted-faults"))]
pub(crate) use none::{after_sync, before_apply, before_grant, in_a_task, keeps_values_whole, skips_sync};
