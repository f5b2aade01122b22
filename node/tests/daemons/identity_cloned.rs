//! A node's identity is used by two hosts in turn, as after a disk was cloned: the cluster says so, sends no VM to
//! either, and the one whose turn is over says so too. The second host is this one, with another boot id.

use nix::mount::{MsFlags, mount, umount};

use crate::daemon::Daemon;
use crate::disk;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

#[tokio::test]
async fn two_hosts_with_one_identity_are_found_out_when_the_first_is_back() {
    if disk::skipped("two_hosts_with_one_identity_are_found_out_when_the_first_is_back") {
        return;
    }
    disk::enter_namespace();
    let first = Daemon::first().await;
    let second = Daemon::joined("n2", &first).await;
    let third = Daemon::joined("n3", &first).await;
    let cloned = async |daemon: &Daemon| {
        let node = daemon.try_get("/v1/nodes/n2").await?.json;
        node["conditions"]["IdentityCloned"]["message"].as_str().map(str::to_owned)
    };

    let mut second = second;
    second.kill();
    let other_boot = first.path().join("boot_id");
    std::fs::write(&other_boot, "11111111-2222-4333-8444-555555555555\n").expect("a file can be made");
    mount(Some(&other_boot), BOOT_ID, None::<&str>, MsFlags::MS_BIND, None::<&str>).expect("root may mount");
    let mut second = second.again().await;
    let rebooted = async |daemon: &Daemon| {
        let log = std::fs::read_to_string(daemon.path().join("log")).ok()?;
        log.contains("what=\"rebooted\"").then_some(())
    };
    first.until("the other boot is known", rebooted).await;
    assert_eq!(cloned(&first).await, None, "a host may boot");

    second.kill();
    umount(BOOT_ID).expect("it was mounted");
    let second = second.again().await;
    let words = third.until("the second host is found out", cloned).await;
    assert!(words.contains("two hosts report as this node"), "{words}");
    let said = async |daemon: &Daemon| {
        let log = std::fs::read_to_string(daemon.path().join("log")).ok()?;
        log.contains("another machine uses this node's identity").then_some(())
    };
    second.until("the one whose turn is over says so", said).await;
}
