//! What no record, host or lease may ever lead to: every combination of what the rules speak of is tried.

use holm_model::vm::{Availability, Vacate};
use holm_vmm::lease::LeaseId;

use super::super::{alive, needs_lease};
use super::*;
use crate::lease;

const LEASE: LeaseId = LeaseId(7);
const ENDED: LeaseId = LeaseId(6);
const FOREIGN: ClusterId = ClusterId(Uuid::from_u128(51));

/// Every record that matters: none, placed elsewhere, placed here in each way.
fn records() -> Vec<Option<Vm>> {
    let mut records = vec![None];
    for node in [ME, NodeId(2)] {
        for asked in [Availability::Pinned, Availability::Failover] {
            for in_force in [Availability::Pinned, Availability::Failover] {
                for want in [WantPower::On, WantPower::Off] {
                    for status in [VmStatus::Build, VmStatus::Active, VmStatus::Deleting] {
                        for leaves in [false, true] {
                            let mut vm = Vm { status, ..record(node) };
                            vm.spec.availability = asked;
                            vm.power.want = want;
                            vm.claim.as_mut().expect("it is placed").availability = in_force;
                            let (since, stop) = (Timestamp(0), StopMode::Force);
                            let vacate = Vacate { since, reason: "drain".into(), stop, to: None };
                            vm.recovery.vacate = leaves.then_some(vacate);
                            records.push(Some(vm));
                        }
                    }
                }
            }
        }
    }
    records
}

/// Everything that may be found.
fn observations() -> Vec<Observation> {
    let mut found = vec![Observation::Absent, Observation::Unknown { reason: "no answer".into() }];
    let states = [
        InstanceState::Prepared,
        InstanceState::Running,
        ended(ExitCause::LeaseEnded),
        ended(ExitCause::HostLost),
        ended(failed()),
    ];
    for n in [9, 10, 11, 101] {
        for state in &states {
            for (released, bound) in [(false, false), (false, true), (true, false), (true, true)] {
                for armed in [None, Some(LEASE), Some(ENDED)] {
                    // Only what runs is armed.
                    if armed.is_some() && !alive(state) {
                        continue;
                    }
                    for (run, cluster) in [(1, None), (2, None), (1, Some(FOREIGN))] {
                        let Observation::Known(instance) = here(n, run, state.clone()) else {
                            unreachable!()
                        };
                        found.push(Observation::Known(Instance {
                            released,
                            bound,
                            armed,
                            cluster,
                            ..instance
                        }));
                    }
                }
            }
        }
    }
    found
}

fn standings() -> Vec<Standing> {
    let mut standings = Vec::new();
    for lease in [lease::Standing::None, lease::Standing::Behind(LEASE), lease::Standing::Ready(LEASE)] {
        for (caught_up, waited) in [(false, false), (false, true), (true, false)] {
            for (fenced, held, removed) in
                [(false, false, false), (true, false, false), (false, true, false), (false, false, true)]
            {
                standings.push(Standing { lease, caught_up, waited, fenced, held, removed, ..on() });
            }
        }
    }
    standings
}

#[test]
fn no_combination_breaks_a_rule() {
    let (observations, standings) = (observations(), standings());
    let mut starts = 0;
    for vm in records() {
        for observed in &observations {
            for on in &standings {
                let step = plan(*on, vm.as_ref(), observed);
                if let Some(broken) = broken(*on, vm.as_ref(), observed, &step) {
                    panic!("{broken}: {step:?}\n{on:#?}\n{observed:#?}\n{vm:#?}");
                }
                starts += usize::from(matches!(step, Step::Start { .. }));
            }
        }
    }
    assert!(starts > 100, "the combinations start too little to prove anything: {starts}");
}

/// The rule that `step` breaks.
fn broken(on: Standing, vm: Option<&Vm>, observed: &Observation, step: &Step) -> Option<&'static str> {
    if matches!(step, Step::Nothing | Step::Wait(_)) {
        return None;
    }
    let here = match observed {
        Observation::Unknown { .. } => return Some("what is unknown is acted on"),
        Observation::Known(here) if here.cluster == Some(FOREIGN) => {
            return Some("what another cluster placed is acted on");
        }
        Observation::Known(here) => Some(here),
        Observation::Absent => None,
    };
    let ours = vm.filter(|vm| vm.claim.as_ref().is_some_and(|claim| claim.node == ME));
    // The claim covers what is here.
    let covered = ours.filter(|_| here.is_none_or(|here| here.epoch == epoch(10)));
    let runs = here.is_some_and(|here| alive(&here.state));
    let released = here.is_some_and(|here| here.released);
    let bound = here.is_some_and(|here| here.bound);
    let armed = here.and_then(|here| here.armed);
    let goes = covered.is_some_and(|vm| vm.status == VmStatus::Deleting || vm.recovery.vacate.is_some());
    let asked = covered.map(|vm| vm.spec.availability);
    match step {
        Step::Start { confirm, .. } => match covered {
            None => Some("it starts without a claim"),
            Some(_) if on.held || on.removed => Some("it starts although nothing may"),
            Some(_) if here.is_some_and(|here| here.run > 1) => Some("3: the host has seen more"),
            Some(_) if runs || released || goes => Some("it starts what runs, was released, or is to go"),
            Some(vm) if vm.power.want == WantPower::Off => Some("it starts what is to be off"),
            Some(vm) if needs_lease(vm) && (!on.lease.is_ready() || on.fenced) => Some("11: no lease"),
            Some(vm) if !needs_lease(vm) && bound && !on.caught_up => Some("12e: it obeys an old record"),
            Some(_) if here.is_none() && !confirm => Some("13: nothing of it was here"),
            Some(_) if !confirm && !on.caught_up && !on.waited => Some("13: it did not wait"),
            Some(_) => None,
        },
        Step::Stop(_) | Step::Enforce => {
            let stays = covered.is_some_and(|vm| vm.power.want == WantPower::On) && !goes;
            let in_force = covered.and_then(|vm| vm.claim.as_ref()).map(|claim| claim.availability);
            let unbound = in_force == Some(Availability::Failover) && armed.is_none() && on.caught_up;
            (stays && !unbound && !released).then_some("it stops what is to run")
        }
        Step::Release(_) | Step::GiveUp { .. } | Step::GiveBack { .. } if runs => Some("2: it runs"),
        Step::Release(_) if covered.is_some() && !goes => Some("2: its claim stands"),
        Step::Release(epoch) if here.is_some_and(|here| here.epoch != *epoch) => Some("2: another epoch"),
        Step::Forget if covered.is_some() || !released || runs => Some("14: its claim stands, or no mark"),
        Step::FinishDelete(_) | Step::FinishVacate(_) if !goes || !released || runs => Some("2: no mark"),
        Step::Arm(_)
            if asked != Some(Availability::Failover) || armed.is_some() || on.lease.id().is_none() =>
        {
            Some("12: nothing to arm, or no lease")
        }
        Step::Disarm | Step::Bind { bound: false, .. }
            if asked != Some(Availability::Pinned) || !on.caught_up =>
        {
            Some("12b, 12d: it is freed too early")
        }
        Step::Report(report) if report.armed_for.is_some() => {
            let is_bound = here.is_none() || bound && (!runs || armed.is_some() && armed == on.lease.id());
            (asked != Some(Availability::Failover) || !is_bound).then_some("12a, 12e: told before it is so")
        }
        Step::Report(_) if covered.is_none() => Some("3: it tells of an epoch that is not the claim's"),
        _ => None,
    }
}
