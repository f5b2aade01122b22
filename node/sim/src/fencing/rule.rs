//! The rules of `node/FENCING.md` as switches. A rule has a number, the one in that page, with a letter
//! where the page's rule says several things that can be left out one by one.

use std::fmt;
use std::str::FromStr;

/// Declares the rules with their numbers and what they say.
macro_rules! rules {
    ($($name:ident = $number:literal: $says:literal,)*) => {
        /// One rule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Rule { $(#[doc = $says] $name,)* }

        impl Rule {
            /// Every rule, in the order of the page.
            pub const ALL: &[Rule] = &[$(Rule::$name,)*];

            /// Its number in `node/FENCING.md`.
            pub fn number(self) -> &'static str {
                match self { $(Rule::$name => $number,)* }
            }

            /// What it says, in one sentence.
            pub fn says(self) -> &'static str {
                match self { $(Rule::$name => $says,)* }
            }
        }
    };
}

rules! {
    ClaimEndsByRelease = "1a": "a claim ends by its node's release or a fence, not by a report of failure",
    PlaceAfterCommit = "1b": "a claim is free when the entry that frees it is applied, and apply checks that",
    MarkBeforeProposal = "2": "the released mark is durable before the release is proposed",
    NewerEpochWaits = "3": "a VMM of an epoch the replica has not seen yet is left alone",
    BeginLeadership = "4a": "a leader serves nothing until its own BeginLeadership is applied",
    CommandsCarryLeadership = "4b": "apply refuses a decision made under another leadership",
    RoundAfterArrival = "5": "a round answers only what arrived before it began",
    QuorumBackedGrant = "6a": "a grant needs a completed quorum round",
    DeadlineFromSend = "6b": "a lease ends ttl after its heartbeat was sent, whenever the grant arrives",
    GrantToItsSender = "6c": "a grant counts only for the process that sent the heartbeat",
    NoGrantWhileFencing = "7a": "no grant from the proposal of a fence until its outcome is known",
    GrantChecksAgain = "7b": "after the round the grant looks again whether the node is fenced",
    WaitSinceGrant = "8a": "a fence waits ttl + margin since the last grant to that node",
    WaitSinceLeadership = "8b": "a fence waits ttl + margin since the leadership began",
    MarginCoversKill = "9": "the margin is longer than drift, wake-up and the death of a VMM together",
    FreezeFromSend = "10": "a frozen deadline counts from the heartbeat its grant answers, not from apply",
    AppliedReadIndex = "11a": "a start needs an applied index at or beyond the read index of the lease",
    ReleasedNeverStarts = "11b": "a released epoch never starts",
    CheckBeforeExec = "11c": "everything is checked again immediately before exec",
    ShimChecks = "11d": "the shim checks the deadline after exec of itself, before it starts the VMM",
    ArmBeforeReport = "12a": "the shim is armed before `failover` is reported",
    DisarmAfterApplied = "12b": "the shim is disarmed only after `pinned` is applied",
    ReportNamesRequest = "12c": "a report of availability counts only for the request it answers",
    DisarmCaughtUp = "12d": "a shim is disarmed only by a process whose replica has caught up",
    DirectoryBoundFirst = "12e": "the VM's directory is bound to the lease, durably, before `failover` is reported",
    ColdNeedsDirectory = "13a": "without a read index of its own a process starts only what has a directory",
    ColdWaits = "13b": "a cold node first waits for a quorum, to learn whether it was evacuated",
    DeleteAfterEnd = "14a": "a disk is deleted only on the applied end of its epoch's claim",
    DirectoryLeavesWhole = "14b": "a directory leaves in one durable step, its released mark with it",
    LeaseFileOfThisBoot = "15": "a lease file of another boot counts for nothing",
    NewIdAfterLapse = "16": "a lapsed lease gets a new id, and a shim with another id kills",
    ShimEnforces = "17a": "the shim kills at the deadline, daemon or no daemon",
    ParentDeathSignal = "17b": "a VMM dies with its shim",
    DaemonEnforces = "17c": "the daemon kills at the deadline too",
    FenceSparesPinned = "19": "a fence frees the claims of failover VMs only",
    UnfenceAfterReport = "20": "a fenced node comes back after a report made beyond the fence that nothing lives",
    ShimHoldsDirectory = "23": "a shim holds its VM's directory from before its exec; who cannot take it knows nothing",
}

/// Which rules hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules(u64);

impl Rules {
    /// Every rule.
    pub fn all() -> Self {
        Rule::ALL.iter().fold(Self(0), |rules, rule| Self(rules.0 | 1 << *rule as u8))
    }

    /// These rules with one left out.
    #[must_use]
    pub fn without(self, rule: Rule) -> Self {
        Self(self.0 & !(1 << rule as u8))
    }

    /// Whether `rule` holds.
    pub fn on(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u8) != 0
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without: Vec<&str> =
            Rule::ALL.iter().filter(|rule| !self.on(**rule)).map(|rule| rule.number()).collect();
        match without.is_empty() {
            true => write!(f, "all"),
            false => write!(f, "without-{}", without.join(",")),
        }
    }
}

/// A set of rules that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownRules(String);

impl fmt::Display for UnknownRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<&str> = Rule::ALL.iter().map(|rule| rule.number()).collect();
        write!(
            f,
            "{:?} is neither `all` nor `without-<rule>[,<rule>]` with rules of {}",
            self.0,
            numbers.join(" ")
        )
    }
}

impl std::error::Error for UnknownRules {}

impl FromStr for Rules {
    type Err = UnknownRules;

    fn from_str(text: &str) -> Result<Self, UnknownRules> {
        if text == "all" {
            return Ok(Self::all());
        }
        let numbers = text.strip_prefix("without-").ok_or_else(|| UnknownRules(text.to_owned()))?;
        numbers.split(',').try_fold(Self::all(), |rules, number| {
            let rule = Rule::ALL.iter().find(|rule| rule.number() == number);
            Ok(rules.without(*rule.ok_or_else(|| UnknownRules(text.to_owned()))?))
        })
    }
}
