//! What a cluster does all day, as runs of steps: lead, grant, place, start, fence, release. A walk strings
//! them together, cut off anywhere and mixed with single steps, so that it gets deep into the protocol
//! instead of stumbling about at its entrance.

use super::action::Action;
use super::interleaving;
use super::piece;
use super::replicated::{Availability, NodeIx};
use super::world::World;
use crate::rng::Rng;

/// How many kinds of routine there are.
pub const KINDS: u64 = 17;

/// The steps of routine number `kind`, mostly about the node that has the VM and the process that leads.
/// Steps that turn out not to be possible are to be skipped.
pub fn draw(kind: u64, world: &World, rng: &mut Rng) -> Vec<Action> {
    let any = rng.below(2) as NodeIx;
    let believers: Vec<NodeIx> = (0..2).filter(|node| world.leads[*node].is_some()).collect();
    let believer = believers.get(rng.below(believers.len().max(1) as u64) as usize).copied();
    let leader = world.elected.filter(|_| rng.percent(70)).or(believer).unwrap_or(any);
    let owner = world.truth().claim.map(|claim| claim.node);
    let node = owner.filter(|_| rng.percent(70)).unwrap_or(rng.below(2) as NodeIx);
    let mut steps = match kind {
        0 => piece::lead(any),
        1 | 2 => piece::lease(node, leader),
        3 | 4 => start(node, rng),
        5 => piece::place(any, leader),
        6 => fence(node, leader, rng),
        7 => release(node),
        8 => availability(node, leader, rng),
        9 => unfence(node, rng),
        10 => catch_up(node, rng),
        11 => vec![Action::Tick; 1 + rng.below(6) as usize],
        12 => restart(node, rng),
        13 => failover(node, leader, rng),
        14 => believers.iter().flat_map(|leader| piece::lease(node, *leader)).collect(),
        15 => there_and_back(node, leader),
        _ => recover(any, rng),
    };
    if rng.percent(25) && !steps.is_empty() {
        steps.truncate(1 + rng.below(steps.len() as u64) as usize);
    }
    steps
}

/// Whatever befell `node` is over.
fn recover(node: NodeIx, rng: &mut Rng) -> Vec<Action> {
    let up = vec![
        Action::PowerOn(node),
        Action::ThawMachine(node),
        Action::Resume(node),
        Action::ResumeShim(node),
        Action::Restart(node, 0),
    ];
    [up, catch_up(node, rng)].concat()
}

/// Leadership goes to the other process, which grants `node` a lease, and comes back.
fn there_and_back(node: NodeIx, leader: NodeIx) -> Vec<Action> {
    [piece::lead(1 - leader), piece::lease(node, 1 - leader), piece::lead(leader)].concat()
}

/// All the way, mostly.
fn catch_up(node: NodeIx, rng: &mut Rng) -> Vec<Action> {
    let entries = if rng.percent(70) { 24 } else { rng.below(4) as usize };
    vec![Action::Apply(node); entries]
}

fn start(node: NodeIx, rng: &mut Rng) -> Vec<Action> {
    [catch_up(node, rng), piece::start(node)].concat()
}

fn fence(node: NodeIx, leader: NodeIx, rng: &mut Rng) -> Vec<Action> {
    let wait = vec![Action::Tick; rng.below(7) as usize];
    [wait, piece::fence(node, leader), piece::place(1 - node, leader)].concat()
}

/// `node` is fenced, and the VM started on the other one.
fn failover(node: NodeIx, leader: NodeIx, rng: &mut Rng) -> Vec<Action> {
    let other = 1 - node;
    [fence(node, leader, rng), piece::lease(other, leader), start(other, rng)].concat()
}

fn release(node: NodeIx) -> Vec<Action> {
    let mut steps = vec![Action::MarkReleased(node), Action::ProposeRelease(node)];
    steps.extend(piece::commit());
    steps
}

fn availability(node: NodeIx, leader: NodeIx, rng: &mut Rng) -> Vec<Action> {
    if rng.percent(60) {
        return [piece::to_failover(node, leader), piece::commit()].concat();
    }
    let request = vec![Action::Request(Availability::Pinned)];
    let report = [vec![Action::ReportPinned(node)], piece::commit()].concat();
    let free = vec![Action::Disarm(node), Action::Unbind(node)];
    [request, catch_up(node, rng), report, catch_up(node, rng), free].concat()
}

fn unfence(node: NodeIx, rng: &mut Rng) -> Vec<Action> {
    let report = vec![Action::Stop(node), Action::ReportClean(node)];
    [catch_up(node, rng), report, piece::commit()].concat()
}

fn restart(node: NodeIx, rng: &mut Rng) -> Vec<Action> {
    let mut steps = match rng.below(3) {
        0 if rng.percent(30) => vec![Action::PowerOff(node), Action::Evacuate(node), Action::PowerOn(node)],
        0 => vec![Action::PowerOff(node), Action::PowerOn(node)],
        _ => vec![Action::Crash(node)],
    };
    let back = [0, 1, 2, 4, 8];
    let first = rng.below(5) as usize;
    steps.extend((0..5).map(|step| Action::Restart(node, back[(first + 5 - step) % 5])));
    steps
}

/// How a walk begins: an interleaving that hurts without some rule, with steps left out, repeated and put
/// in; or somebody leads and the VM runs.
pub fn opening(every: &[Action], rng: &mut Rng) -> (Availability, Vec<Action>) {
    let known = interleaving::every();
    if rng.percent(40) {
        let availability = if rng.percent(60) { Availability::Failover } else { Availability::Pinned };
        let (leader, node) = (rng.below(2) as NodeIx, rng.below(2) as NodeIx);
        return (availability, [piece::lead(leader), piece::run(node, leader)].concat());
    }
    let (_, availability, mut steps) = known[rng.below(known.len() as u64) as usize].clone();
    for _ in 0..rng.below(5) {
        let at = rng.below(steps.len() as u64) as usize;
        match rng.below(4) {
            0 => drop(steps.remove(at)),
            1 => steps.insert(at, steps[at]),
            2 => steps.truncate(steps.len().min(at + 40)),
            _ => steps.insert(at, every[rng.below(every.len() as u64) as usize]),
        }
    }
    (availability, steps)
}
