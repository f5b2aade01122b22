//! The process that writes when the power fails. It is apart, so that killing it leaves no file open, and
//! says on its standard output what was acknowledged, in order. What an entry holds follows from its index.

use std::collections::VecDeque;
use std::path::Path;

use holm_model::command::CreateFlavor;
use holm_model::flavor::Size;
use holm_model::{Actor, Command, FlavorId, Proposal, Revision, Timestamp};
use holm_raft::store::{self, LogStore};
use holm_raft::types::{Data, TypeConfig};
use holm_raft::{Identity, init_cluster};
use openraft::alias::{EntryOf, LogIdOf, VoteOf};
use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use openraft::vote::RaftLeaderIdExt;
use uuid::Uuid;

/// Appends under way at once.
const IN_FLIGHT: usize = 8;
/// A vote is saved, and the log is purged, every so many entries.
const VOTE_EVERY: u64 = 25;
const PURGE_EVERY: u64 = 40;
const KEEP: u64 = 30;

pub fn log_id(index: u64) -> LogIdOf<TypeConfig> {
    let leader = <TypeConfig as openraft::RaftTypeConfig>::LeaderId::new_committed(1, 1);
    LogIdOf::<TypeConfig>::new(leader, index)
}

/// 100 B to 1 MiB, small ones more often.
fn payload_bytes(index: u64) -> usize {
    let mixed = index.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let doublings = (mixed >> 32) % 14;
    // Half of the sizes are shifted, so that not all are powers of two.
    let bytes = (100u64 << doublings) + mixed % 97;
    usize::try_from(bytes.min((1 << 20) - 512)).expect("at most 1 MiB")
}

pub fn entry(index: u64) -> EntryOf<TypeConfig> {
    let flavor = CreateFlavor {
        id: FlavorId(Uuid::from_u128(u128::from(index))),
        name: format!("f{index}"),
        size: Size { vcpus: 1, memory_mib: 64, disk_gib: 0 },
        extra_specs: [("padding".to_owned(), "x".repeat(payload_bytes(index)))].into(),
    };
    let actor = Actor { name: "loader".to_owned(), project: "default".to_owned() };
    let proposal =
        Proposal { key: None, seen: Revision(index), actor, command: Command::CreateFlavor(flavor) };
    let data = Data::encode(&holm_model::Entry::new(Timestamp(index), proposal));
    EntryOf::<TypeConfig>::new_normal(log_id(index), data)
}

/// Writes until killed, or until the disk is gone.
pub async fn load(data_dir: &Path) -> anyhow::Result<()> {
    if !data_dir.join("node.json").exists() {
        init_cluster(data_dir, "power", "loss", "127.0.0.1:1", "127.0.0.1:2")?;
    }
    let mut log = store::open(data_dir, &Identity::load(data_dir)?)?;
    let state = log.get_log_state().await?;
    let mut next = state.last_log_id.map_or(0, |log_id| log_id.index + 1);
    let mut term = log.read_vote_term().await?;
    let mut in_flight = VecDeque::new();
    println!("\nBEGIN {next}");
    loop {
        while in_flight.len() < IN_FLIGHT {
            let (done, flushed) = TypeConfig::oneshot();
            log.append([entry(next)], IOFlushed::signal(done)).await?;
            in_flight.push_back((next, flushed));
            next += 1;
        }
        if let Some((index, flushed)) = in_flight.pop_front() {
            flushed.await??;
            println!("ENTRY {index}");
            log.save_committed(Some(log_id(index))).await?;
            if index % VOTE_EVERY == 0 {
                term += 1;
                log.save_vote(&VoteOf::<TypeConfig>::new(term, 1)).await?;
                println!("VOTE {term}");
            }
            if index % PURGE_EVERY == 0 && index > KEEP {
                log.purge(log_id(index - KEEP)).await?;
                println!("PURGED {}", index - KEEP);
            }
        }
    }
}

/// The term of the vote on disk.
pub trait VoteTerm {
    fn read_vote_term(&mut self) -> impl Future<Output = std::io::Result<u64>>;
}

impl VoteTerm for LogStore {
    async fn read_vote_term(&mut self) -> std::io::Result<u64> {
        use openraft::storage::RaftLogReader;
        Ok(self.read_vote().await?.map_or(0, |vote| vote.leader_id.term))
    }
}
