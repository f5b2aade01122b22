//! The take against a disk that behaves as SPC-3 says, with others getting in between at every single step.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use holm_model::Revision;

use super::*;

/// One disk, and who is registered by which path.
#[derive(Default)]
struct Lun {
    registered: BTreeMap<u32, Key>,
    holder: Option<u32>,
}

/// The disk by one path. Before operation number `at`, `meanwhile` happens.
struct Path<'a> {
    lun: Rc<RefCell<Lun>>,
    number: u32,
    operations: Cell<usize>,
    at: usize,
    meanwhile: &'a dyn Fn(),
}

impl Path<'_> {
    fn operation(&self) {
        let number = self.operations.get();
        self.operations.set(number + 1);
        if number == self.at {
            (self.meanwhile)();
        }
    }

    fn is_registered(&self, key: Key) -> bool {
        self.lun.borrow().registered.get(&self.number) == Some(&key)
    }

    fn may_write(&self) -> bool {
        self.lun.borrow().holder.is_none_or(|holder| holder == self.number)
    }
}

impl Unit for Path<'_> {
    fn read(&self) -> Result<Reservation, Error> {
        self.operation();
        let lun = self.lun.borrow();
        let holder = lun.holder.map(|path| lun.registered[&path]);
        Ok(Reservation { registered: lun.registered.values().copied().collect(), holder })
    }

    fn register(&self, key: Key) -> Result<Outcome, Error> {
        self.operation();
        self.lun.borrow_mut().registered.insert(self.number, key);
        Ok(Outcome::Done)
    }

    fn reserve(&self, key: Key) -> Result<Outcome, Error> {
        self.operation();
        if !self.is_registered(key) || !self.may_write() {
            return Ok(Outcome::Conflict);
        }
        self.lun.borrow_mut().holder = Some(self.number);
        Ok(Outcome::Done)
    }

    fn preempt(&self, old: Key, key: Key) -> Result<Outcome, Error> {
        self.operation();
        let known = self.lun.borrow().registered.values().any(|registered| *registered == old);
        if !self.is_registered(key) || !known {
            return Ok(Outcome::Conflict);
        }
        let mut lun = self.lun.borrow_mut();
        if lun.holder.is_some_and(|holder| lun.registered[&holder] == old) {
            lun.holder = Some(self.number);
        }
        lun.registered.retain(|path, registered| *path == self.number || *registered != old);
        Ok(Outcome::Done)
    }

    fn unregister(&self, key: Key) -> Result<Outcome, Error> {
        self.operation();
        if !self.is_registered(key) {
            return Ok(Outcome::Conflict);
        }
        let mut lun = self.lun.borrow_mut();
        lun.registered.remove(&self.number);
        lun.holder = lun.holder.filter(|holder| *holder != self.number);
        Ok(Outcome::Done)
    }
}

fn path<'a>(lun: &Rc<RefCell<Lun>>, number: u32, at: usize, meanwhile: &'a dyn Fn()) -> Path<'a> {
    Path { lun: Rc::clone(lun), number, operations: Cell::new(0), at, meanwhile }
}

fn alone(lun: &Rc<RefCell<Lun>>, number: u32) -> Path<'static> {
    path(lun, number, usize::MAX, &|| ())
}

fn key(epoch: u64) -> Key {
    Key::of(VolumeId(uuid::Uuid::from_u128(0x7777_abcd)), Epoch(Revision(epoch)))
}

#[test]
fn a_key_is_the_volume_and_the_epoch_under_a_mark() {
    assert_eq!(key(9), Key(0x48ab_cd00_0000_0009));
    assert_eq!(key(9).epoch(), 9);
    assert!(key(9).is_of_the_volume_of(key(5)) && !Key(9).is_of_the_volume_of(key(5)));
    assert_ne!(key(0).0, 0);
}

#[test]
fn a_newer_epoch_takes_over_and_an_older_one_is_refused() {
    let lun = Rc::default();
    let (a, b) = (alone(&lun, 1), alone(&lun, 2));
    take(&a, key(5)).expect("nobody has it");
    take(&b, key(9)).expect("5 is older");
    assert!(b.may_write() && !a.may_write());
    assert!(matches!(take(&a, key(7)), Err(Error::Superseded { mine: 7, newer: 9 })));
    assert!(b.may_write() && !a.may_write());
    take(&a, key(12)).expect("12 is newer");
    assert!(a.may_write() && !b.may_write());
}

#[test]
fn the_same_host_goes_on_under_its_new_epoch_and_a_run_may_begin_again() {
    let lun = Rc::default();
    let a = alone(&lun, 1);
    for epoch in [5, 5, 9, 9] {
        take(&a, key(epoch)).expect("its own");
    }
    assert_eq!(a.read().expect("read"), Reservation { registered: vec![key(9)], holder: Some(key(9)) });
}

#[test]
fn after_a_boot_the_same_epoch_may_come_by_another_path() {
    let lun = Rc::default();
    take(&alone(&lun, 1), key(5)).expect("before the boot");
    let after = alone(&lun, 2);
    take(&after, key(5)).expect("after it");
    assert!(after.may_write() && !alone(&lun, 1).may_write());
}

#[test]
fn what_other_programs_hold_is_left_alone() {
    let lun = Rc::new(RefCell::new(Lun { registered: [(7, Key(1))].into(), holder: Some(7) }));
    assert!(matches!(take(&alone(&lun, 1), key(5)), Err(Error::Foreign { key: 1 })));
    assert_eq!(lun.borrow().registered, [(7, Key(1))].into());
}

#[test]
fn another_volume_that_leads_to_the_same_disk_is_kept_out_and_does_no_harm() {
    let lun = Rc::default();
    let a = alone(&lun, 1);
    take(&a, key(5)).expect("nobody has it");
    let other = Key::of(VolumeId(uuid::Uuid::from_u128(1)), Epoch(Revision(9)));
    assert!(matches!(take(&alone(&lun, 2), other), Err(Error::Foreign { .. })));
    assert!(a.may_write());
}

#[test]
fn a_lock_is_given_up_by_the_epoch_that_has_it_only() {
    let lun = Rc::default();
    let (a, b) = (alone(&lun, 1), alone(&lun, 2));
    take(&a, key(5)).expect("taken");
    take(&b, key(9)).expect("taken over");
    assert_eq!(a.unregister(key(5)).expect("answer"), Outcome::Conflict);
    assert!(!a.may_write());
    assert_eq!(b.unregister(key(9)).expect("answer"), Outcome::Done);
    assert!(lun.borrow().registered.is_empty() && lun.borrow().holder.is_none());
}

/// At most so many operations does a take have.
const OPERATIONS: usize = 12;

#[test]
fn a_newer_epoch_that_gets_in_between_anywhere_keeps_the_older_one_out() {
    for before in [None, Some(3)] {
        for at in 0..OPERATIONS {
            let lun = Rc::default();
            if let Some(epoch) = before {
                take(&alone(&lun, 3), key(epoch)).expect("taken");
            }
            let newer = alone(&lun, 2);
            let meanwhile = || take(&newer, key(9)).expect("9 is the newest");
            let older = path(&lun, 1, at, &meanwhile);
            let outcome = take(&older, key(5));
            if older.operations.get() <= at {
                outcome.expect("nobody came in between");
                take(&newer, key(9)).expect("5 is older");
            } else {
                assert!(matches!(outcome, Err(Error::Superseded { newer: 9, .. })), "at {at}: {outcome:?}");
            }
            assert!(newer.may_write() && !older.may_write() && !alone(&lun, 3).may_write(), "at {at}");
        }
    }
}

#[test]
fn an_older_epoch_that_gets_in_between_anywhere_does_not_stay() {
    for at in 0..OPERATIONS {
        let lun = Rc::default();
        let older = alone(&lun, 1);
        let meanwhile = || drop(take(&older, key(5)));
        let newer = path(&lun, 2, at, &meanwhile);
        take(&newer, key(9)).expect("9 is the newest");
        assert!(newer.may_write() && !older.may_write(), "at {at}");
        let left = newer.read().expect("read");
        assert_eq!(left.holder, Some(key(9)), "at {at}");
    }
}

#[test]
fn one_that_slept_after_it_looked_may_register_and_still_not_write() {
    let lun = Rc::default();
    let newer = alone(&lun, 2);
    take(&newer, key(9)).expect("taken");
    let sleeper = alone(&lun, 1);
    assert_eq!(sleeper.register(key(5)).expect("anybody may"), Outcome::Done);
    assert!(!sleeper.may_write());
    assert_eq!(
        sleeper.preempt(key(3), key(5)).expect("answer"),
        Outcome::Conflict,
        "the holder it saw is gone"
    );
    assert_eq!(sleeper.reserve(key(5)).expect("answer"), Outcome::Conflict);
    assert!(newer.may_write());
}
