//! Shutdown of a host: `holmd stop-guests` ends the guests from the last start order to the first, without the
//! daemon's help, and they come back in order. The operating system says when each VMM began and ended.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use holm_api::{CreateVm, Vm, VmStatus};
use holm_jepsen::harness::client::Call;
use holm_jepsen::harness::vms::tiny_vm;
use holm_jepsen::harness::{Cluster, Process, Setup, binary, real, wait_for};

const LIMIT: Duration = Duration::from_secs(60);
/// Each with its start order, the first to start first.
const GUESTS: [(&str, i32); 3] = [("storage", -5), ("database", 0), ("web", 7)];

#[tokio::test(flavor = "multi_thread")]
async fn guests_stop_from_the_last_order_to_the_first_and_come_back_in_order() -> Result<()> {
    if real::skipped("guests_stop_from_the_last_order_to_the_first_and_come_back_in_order") {
        return Ok(());
    }
    let mut cluster = Cluster::start(&Setup::real(1)).await?;
    let mut client = cluster.daemons[0].client();
    client.create_tiny_flavor().await?;
    client.import_kernel("guest", cluster.test_guest("banner")?).await?;
    let mut ids = Vec::new();
    // Created in another order than the one they start in.
    for (name, start_order) in GUESTS.into_iter().rev() {
        let vm = CreateVm { start_order, ..tiny_vm(name, "guest") };
        client.call::<Vm>(Call::post("/v1/vms", &vm)).await?;
        ids.insert(0, client.wait_status(name, VmStatus::Active, LIMIT).await?.id);
    }
    let vmms = |cluster: &Cluster| -> Vec<Process> {
        let all = cluster.vmms_of(0);
        let of = |id| all.iter().find(|(vm, _)| *vm == id).map(|(_, vmm)| vmm.clone());
        ids.iter().filter_map(|id| of(*id)).collect()
    };
    let before = vmms(&cluster);
    assert_eq!(before.len(), GUESTS.len());

    // The daemon is there, and held off; then it is killed, which must not matter.
    let ended = stop_guests(&cluster, &before).await?;
    assert!(
        ended[2] < ended[1] && ended[1] < ended[0],
        "the first to start was not the last to end: {ended:?}"
    );
    cluster.daemons[0].kill()?;
    cluster.daemons[0].start()?;
    cluster.wait_ready(0).await?;
    for (name, _) in GUESTS {
        let vm: Vm = cluster.daemons[0].client().get(&format!("/v1/vms/{name}")).await?;
        assert_eq!(vm.power, holm_api::vm::Power::On, "the host goes down, not the VM: {vm:#?}");
    }
    assert_eq!(cluster.vmms(), [], "nothing starts while the host goes down");

    holmd(&cluster, &["allow-guests"])?;
    let after = wait_for("the guests to run again", LIMIT, || async {
        let after = vmms(&cluster);
        Ok((after.len() == GUESTS.len()).then_some(after))
    })
    .await?;
    let began: Vec<_> = after.iter().map(|vmm| vmm.start_ticks).collect();
    assert!(began[0] < began[1] && began[1] < began[2], "not in their order: {began:?}");
    for (name, _) in GUESTS {
        let vm = cluster.daemons[0].client().wait_status(name, VmStatus::Active, LIMIT).await?;
        assert_eq!(vm.run, 1, "the same run goes on");
    }
    let left = cluster.daemons[0].client().delete_all(LIMIT).await;
    assert_eq!(left, Vec::<String>::new());
    assert_eq!(cluster.vmms(), []);
    assert_eq!(cluster.shut_down(), Vec::<String>::new());
    Ok(())
}

/// Stops them, and says when each VMM was first seen to have ended.
async fn stop_guests(cluster: &Cluster, vmms: &[Process]) -> Result<Vec<Instant>> {
    let vmms = vmms.to_vec();
    let watch = std::thread::spawn(move || {
        let begun = Instant::now();
        let mut ended = vec![None; vmms.len()];
        while ended.iter().any(Option::is_none) && begun.elapsed() < LIMIT {
            for (ended, vmm) in ended.iter_mut().zip(&vmms) {
                if ended.is_none() && !vmm.is_alive() {
                    *ended = Some(Instant::now());
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        ended
    });
    // The test guest does not listen to the power button.
    holmd(cluster, &["stop-guests", "--timeout", "1"])?;
    let ended = watch.join().expect("it only looks");
    Ok(ended.into_iter().map(|ended| ended.expect("every guest was stopped")).collect())
}

fn holmd(cluster: &Cluster, args: &[&str]) -> Result<()> {
    let daemon = &cluster.daemons[0];
    let output = Command::new(binary::holmd()?)
        .args(args)
        .arg("--data-dir")
        .arg(daemon.data_dir())
        .arg("--run-dir")
        .arg(daemon.run_dir())
        .output()?;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
