//! Short ways to write histories down, for the checkers' own tests.

use holm_api::{Event, EventKind, Timestamp, VmStatus};
use uuid::Uuid;

use crate::harness::witness::Lifetime;
use crate::history::operation::Refusal;
use crate::history::{self, Outcome};
use crate::workload::vm_lifecycle::{Answer, Call, Operation};

/// An operation from `times.0` to `times.1`.
pub fn operation<C, A>(
    id: usize,
    times: (u64, u64),
    call: C,
    outcome: Outcome<A>,
) -> history::Operation<C, A> {
    let node = "n1".to_owned();
    history::Operation { id, process: 0, node, call, outcome, invoked_ns: times.0, completed_ns: times.1 }
}

/// Operations one after another: the n-th lasts from 10 n to 10 n + 5.
pub fn in_turn<C, A>(calls: Vec<(C, Outcome<A>)>) -> Vec<history::Operation<C, A>> {
    let at = |n: usize| (n as u64 * 10, n as u64 * 10 + 5);
    calls.into_iter().enumerate().map(|(n, (call, outcome))| operation(n, at(n), call, outcome)).collect()
}

pub fn history(calls: Vec<(Call, Outcome<Answer>)>) -> Vec<Operation> {
    in_turn(calls)
}

pub fn create(name: &str) -> Call {
    Call::Create { name: name.to_owned() }
}

pub fn replay(name: &str) -> Call {
    Call::Replay { name: name.to_owned() }
}

pub fn delete(name: &str) -> Call {
    Call::Delete { name: name.to_owned() }
}

pub fn read(name: &str) -> Call {
    Call::Read { name: name.to_owned() }
}

pub fn created(id: u128) -> Outcome<Answer> {
    Outcome::Ok(Answer::Created { id: Uuid::from_u128(id), duplicate: false })
}

pub fn created_before(id: u128) -> Outcome<Answer> {
    Outcome::Ok(Answer::Created { id: Uuid::from_u128(id), duplicate: true })
}

pub fn deleted() -> Outcome<Answer> {
    Outcome::Ok(Answer::Deleted { duplicate: false })
}

pub fn found(id: u128) -> Outcome<Answer> {
    Outcome::Ok(Answer::Found { id: Uuid::from_u128(id), status: VmStatus::Active })
}

pub fn absent() -> Outcome<Answer> {
    Outcome::Ok(Answer::Absent)
}

pub fn unknown<A>() -> Outcome<A> {
    Outcome::Info("no answer".to_owned())
}

pub fn refused<A>(code: &str) -> Outcome<A> {
    Outcome::Fail(Refusal { code: code.to_owned(), detail: String::new() })
}

/// An event of the VM `name`, which is its id too.
pub fn event(revision: u64, name: &str, what: &str, message: &str) -> Event {
    Event {
        revision,
        n: 0,
        at: Timestamp(String::new()),
        kind: EventKind::Vm,
        id: name.to_owned(),
        name: name.to_owned(),
        what: what.to_owned(),
        message: message.to_owned(),
        actor: String::new(),
    }
}

/// A process of a VM on `node`, from and until two moments in nanoseconds.
pub fn life(vm: u128, node: &str, pid: i32, (from_ns, until_ns): (u64, u64)) -> Lifetime {
    let vm = Uuid::from_u128(vm);
    Lifetime { vm, node: node.into(), pid, start_ticks: 1, epoch: None, from_ns, until_ns }
}
