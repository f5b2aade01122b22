//! Which VMs go first when a host comes back: lower start order first, and each VM waits its own delay after
//! those of lower order have had their turn. Nobody waits for ever: what cannot start holds the others up for a
//! bounded time only.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use holm_model::vm::{Vm, VmStatus, WantPower};
use holm_model::{NodeId, State, VmId};

/// How long those of lower order are waited for, beyond their own delays.
const PATIENCE_MS: u64 = 120_000;

/// A VM's place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub order: i32,
    pub delay_ms: u64,
}

impl Place {
    fn of(vm: &Vm) -> Self {
        let policies = vm.spec.policies;
        Self { order: policies.start_order, delay_ms: u64::from(policies.start_delay_s) * 1_000 }
    }
}

/// Whether it is the turn of the VM at `place`, which first asked at `asked_ms`. `others`: the places of the VMs
/// that belong to this host too, and when each had its turn, if it had.
pub fn is_turn(
    place: Place,
    asked_ms: u64,
    others: impl Iterator<Item = (Place, Option<u64>)>,
    now_ms: u64,
) -> bool {
    let mut last_ms = None;
    let mut longest_delay_ms = 0;
    for (other, had_turn_ms) in others.filter(|(other, _)| other.order < place.order) {
        last_ms = last_ms.max(Some(had_turn_ms.unwrap_or(u64::MAX)));
        longest_delay_ms = longest_delay_ms.max(other.delay_ms);
    }
    let patience_ms = asked_ms.saturating_add(PATIENCE_MS + longest_delay_ms);
    // Nobody goes before it: its delay counts from when it could have started.
    let from_ms = last_ms.unwrap_or(asked_ms).min(patience_ms);
    now_ms >= from_ms.saturating_add(place.delay_ms)
}

/// Who had a turn, since this process began.
pub struct StartOrder {
    began: Instant,
    turns: Mutex<Turns>,
}

#[derive(Default)]
struct Turns {
    asked_ms: BTreeMap<VmId, u64>,
    had_ms: BTreeMap<VmId, u64>,
}

impl StartOrder {
    /// Nobody had a turn yet.
    pub fn new() -> Self {
        Self { began: Instant::now(), turns: Mutex::default() }
    }

    /// Whether `vm`, which is down because its host was, may start.
    pub fn is_turn(&self, vm: &Vm, state: &State, me: NodeId) -> bool {
        let now_ms = self.now_ms();
        let mut turns = self.turns();
        let asked_ms = *turns.asked_ms.entry(vm.id).or_insert(now_ms);
        let others = state.vms_on(me).filter(|other| other.id != vm.id && comes_back(other));
        let others = others.map(|other| (Place::of(other), turns.had_ms.get(&other.id).copied()));
        is_turn(Place::of(vm), asked_ms, others, now_ms)
    }

    /// `vm` runs, or has failed to: those after it need not wait for it. True for news.
    pub fn had_turn(&self, vm: VmId) -> bool {
        let now_ms = self.now_ms();
        let mut turns = self.turns();
        let news = !turns.had_ms.contains_key(&vm);
        turns.had_ms.entry(vm).or_insert(now_ms);
        news
    }

    /// The guests of the host are powered off: what was, counts no more.
    pub fn begin_anew(&self) {
        *self.turns() = Turns::default();
    }

    /// Nothing of `vm` is here any more.
    pub fn forget(&self, vm: VmId) {
        let mut turns = self.turns();
        turns.asked_ms.remove(&vm);
        turns.had_ms.remove(&vm);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for StartOrder {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether it is one of those that start when the host does.
fn comes_back(vm: &Vm) -> bool {
    vm.power.want == WantPower::On
        && vm.recovery.vacate.is_none()
        && !matches!(vm.status, VmStatus::Build | VmStatus::Deleting)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(order: i32, delay_s: u64) -> Place {
        Place { order, delay_ms: delay_s * 1_000 }
    }

    #[test]
    fn lower_orders_go_first_then_the_delay_passes() {
        let first = place(0, 0);
        let slow = place(0, 30);
        let table = [
            ("alone", place(5, 0), vec![], 10, true),
            ("alone with a delay", place(5, 3), vec![], 12, false),
            ("alone, its delay over", place(5, 3), vec![], 13, true),
            ("beside its equals", place(0, 0), vec![(first, None)], 10, true),
            ("those of higher order do not matter", place(0, 0), vec![(place(1, 0), None)], 10, true),
            ("one of lower order is to come", place(1, 0), vec![(first, Some(11)), (first, None)], 60, false),
            (
                "all of lower order had their turn",
                place(1, 0),
                vec![(first, Some(11)), (first, Some(14))],
                14,
                true,
            ),
            ("its delay counts from the last of them", place(1, 5), vec![(first, Some(14))], 18, false),
            ("and is over", place(1, 5), vec![(first, Some(14))], 19, true),
            ("negative orders count", place(0, 0), vec![(place(-1, 0), None)], 11, false),
            ("what cannot start is waited for", place(1, 0), vec![(first, None)], 129, false),
            ("but not for ever", place(1, 0), vec![(first, None)], 130, true),
            ("its own delay is no failure", place(1, 0), vec![(slow, None)], 159, false),
            ("until that is over too", place(1, 0), vec![(slow, None)], 160, true),
        ];
        for (case, place, others, now_s, expected) in table {
            let others = others.into_iter().map(|(place, had_s)| (place, had_s.map(|s: u64| s * 1_000)));
            assert_eq!(is_turn(place, 10_000, others, now_s * 1_000), expected, "{case}");
        }
    }
}
