//! The leader's disk hangs, and its heartbeats go on: another must lead all the same, and nothing acknowledged may
//! be lost. With real daemons on ext4, which is frozen.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::disk::{self, Disk};

/// Another leads, and takes writes, within this time.
const LIMIT: Duration = Duration::from_secs(10);

struct Host {
    /// Goes first, and is thawed by that: a process that waits for a frozen disk cannot be killed.
    disk: Disk,
    daemon: Daemon,
}

async fn three() -> Vec<Host> {
    let mut hosts = Vec::new();
    for name in ["n1", "n2", "n3"] {
        let mut disk = None;
        let mount = |dir: &Path| disk = Some(Disk::new(dir, 512));
        let daemon = match hosts.first() {
            None => Daemon::first_on(mount).await,
            Some(Host { daemon: seed, .. }) => Daemon::joined_on(name, seed, mount).await,
        };
        hosts.push(Host { disk: disk.expect("it was mounted"), daemon });
    }
    let voters = |members: &Value| {
        let voting = |member: &&Value| member["role"] == "voter" || member["role"] == "leader";
        members.as_array().map_or(0, |members| members.iter().filter(voting).count())
    };
    let all_vote =
        async |daemon: &Daemon| (voters(&daemon.get("/v1/cluster").await.json["members"]) == 3).then_some(());
    hosts[0].daemon.until("all vote", all_vote).await;
    hosts
}

/// The leader by the word of `daemon`.
async fn leader(daemon: &Daemon) -> Option<String> {
    let health = daemon.try_get("/health").await?;
    health.json["leader"].as_str().map(str::to_owned)
}

/// Writes flavor after flavor until `enough`, and gives those that were acknowledged.
async fn write(daemon: &Daemon, prefix: &str, enough: impl Fn(&[String]) -> bool) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for n in 0.. {
        if enough(&acknowledged) {
            break;
        }
        let name = format!("{prefix}{n}");
        let body = json!({"name": name, "vcpus": 1, "memory_mib": 64, "disk_gib": 0});
        if daemon.post("/v1/flavors", body).await.status.as_u16() == 201 {
            acknowledged.push(name);
        }
    }
    acknowledged
}

async fn conditions(daemon: &Daemon, of: &str) -> Value {
    let node = daemon.get(&format!("/v1/nodes/{of}")).await;
    node.json["conditions"].clone()
}

#[tokio::test]
async fn a_leader_whose_disk_hangs_is_followed_by_another_and_follows_when_it_is_back() {
    if disk::skipped("a_leader_whose_disk_hangs_is_followed_by_another_and_follows_when_it_is_back") {
        return;
    }
    disk::enter_namespace();
    let mut hosts = three().await;
    let old = hosts[0].daemon.until("somebody leads", leader).await;
    let at = hosts.iter().position(|host| host.daemon.name == old).expect("one of them");
    let other = (at + 1) % 3;
    let mut written = write(&hosts[other].daemon, "before-", |written| written.len() == 20).await;

    hosts[at].disk.freeze();
    let frozen = Instant::now();
    let moved = Cell::new(None);
    let watching = async {
        let changed = async |daemon: &Daemon| leader(daemon).await.filter(|leader| *leader != old);
        let leader = hosts[other].daemon.until("another leads", changed).await;
        moved.set(Some(frozen.elapsed()));
        leader
    };
    let enough = |_: &[String]| moved.get().is_some();
    let (new, during) = tokio::join!(watching, write(&hosts[other].daemon, "during-", enough));
    let took = moved.get().expect("it was seen");
    let after = write(&hosts[other].daemon, "after-", |written| written.len() == 20).await;
    eprintln!(
        "{new} leads {took:?} after the disk of {old} froze; 20 writes were taken {:?} after",
        frozen.elapsed()
    );
    assert!(took < LIMIT, "{took:?}");
    written.extend(during);
    written.extend(after);

    let hung = async |daemon: &Daemon| {
        let conditions = conditions(daemon, &old).await;
        conditions["DiskHung"]["message"].is_string().then_some(())
    };
    hosts[other].daemon.until("the condition is shown", hung).await;

    hosts[at].disk.thaw();
    let follows = async |daemon: &Daemon| {
        let health = daemon.try_get("/health").await?.json;
        (health["ready"] == true && health["leader"] != old).then_some(())
    };
    hosts[at].daemon.until("the old leader follows", follows).await;
    let clear = async |daemon: &Daemon| {
        let conditions = conditions(daemon, &old).await;
        conditions["DiskHung"].is_null().then_some(())
    };
    hosts[at].daemon.until("the condition is gone", clear).await;
    for host in &hosts {
        for name in &written {
            host.daemon.get(&format!("/v1/flavors/{name}")).await.expect(200);
        }
    }
}
