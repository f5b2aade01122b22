//! Waiting, judged on fixed records and lived through against a real server.

use holm_api::vm::{Observed, ObservedState};
use serde_json::json;

use super::*;
use crate::args::Format;
use crate::client::test_server::{Act, TestServer};
use crate::client::{Client, Endpoint};
use crate::output::Output;
use crate::output::record::fixtures::{active, at, building, failed, unreachable_and_simulated};

fn vm(status: VmStatus, task_state: Option<TaskState>) -> Vm {
    Vm { status, task_state, ..active() }
}

#[test]
fn a_goal_is_reached_only_when_nothing_goes_on_any_more() {
    assert_eq!(judge(&active(), Goal::Running), Verdict::Reached);
    assert_eq!(judge(&vm(VmStatus::Shutoff, None), Goal::Off), Verdict::Reached);
    let pending = [
        (Goal::Running, vm(VmStatus::Active, Some(TaskState::Rebooting)), "rebooting on n1"),
        (Goal::Running, vm(VmStatus::Error, Some(TaskState::PoweringOn)), "powering-on on n1"),
        (Goal::Off, vm(VmStatus::Active, Some(TaskState::PoweringOff)), "powering-off on n1"),
        (Goal::Gone, vm(VmStatus::Deleting, Some(TaskState::Deleting)), "deleting on n1"),
    ];
    for (goal, vm, what) in pending {
        assert_eq!(judge(&vm, goal), Verdict::Pending(what.into()));
    }
}

#[test]
fn what_cannot_get_there_by_itself_is_missed_with_its_reason() {
    let missed = [
        (Goal::Running, failed(), "is ERROR: guest kernel panicked: no init"),
        (Goal::Running, vm(VmStatus::Shutoff, None), "is SHUTOFF"),
        (Goal::Running, vm(VmStatus::Deleting, Some(TaskState::Deleting)), "is being deleted"),
        (Goal::Off, active(), "was started again"),
    ];
    for (goal, vm, why) in missed {
        assert_eq!(judge(&vm, goal), Verdict::Missed(why.into()));
    }
}

#[test]
fn what_is_pending_says_the_step_and_what_holds_it_up() {
    assert_eq!(
        pending(&building()),
        "scheduling, no host fits yet (n1: Capacity: MEMORY_MB: 528 wanted, 100 free of 4096; \
         n2: ComputeStatus: the node is down)"
    );
    let observed = Observed {
        state: ObservedState::Progress,
        step: Some("fetching image 40 %".into()),
        reason: None,
        run: 1,
        at: at("11:59:40"),
    };
    let spawning = Vm { observed: Some(observed), ..vm(VmStatus::Build, Some(TaskState::Spawning)) };
    assert_eq!(pending(&spawning), "spawning on n1: fetching image 40 %");
    let of_an_earlier_run = Vm { run: 2, ..spawning };
    assert_eq!(pending(&of_an_earlier_run), "spawning on n1");
    let lost = Vm { task_state: Some(TaskState::PoweringOff), ..unreachable_and_simulated() };
    assert_eq!(pending(&lost), "powering-off on n3, which is not heard from");
}

/// A server whose VM is `before` until an event stream was opened, then `after`.
async fn server(before: Vm, after: Option<Vm>) -> TestServer {
    let opened = std::sync::atomic::AtomicBool::new(false);
    TestServer::start(move |_, got| {
        if got.target.starts_with("/v1/events") {
            opened.store(true, std::sync::atomic::Ordering::SeqCst);
            let event = json!({
                "revision": 90, "n": 0, "at": "2026-11-30T12:00:00.000Z", "kind": "vm", "id": before.id,
                "name": "web", "what": "active", "message": "", "actor": "node/1",
            });
            return Act::Stream("text/event-stream", format!("data: {event}\n\n"));
        }
        match (opened.load(std::sync::atomic::Ordering::SeqCst), &after) {
            (false, _) => Act::json(200, &serde_json::to_value(&before).unwrap()),
            (true, Some(after)) => Act::json(200, &serde_json::to_value(after).unwrap()),
            (true, None) => Act::problem(404, "not_found", "there is no VM"),
        }
    })
    .await
}

fn context(server: &TestServer) -> Context {
    let endpoint = Endpoint::parse(&server.address.to_string()).unwrap();
    Context {
        client: Client::new(vec![endpoint]),
        output: Output::new(Format::Table),
        project: "default".into(),
    }
}

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn an_event_ends_the_wait() {
    let server = server(building(), Some(Vm { id: building().id, ..active() })).await;
    let vm = until(&context(&server), building(), Goal::Running, LIMIT).await.unwrap();
    assert_eq!(vm.status, VmStatus::Active);
}

#[tokio::test]
async fn an_error_ends_the_wait_with_the_reasons_of_each_host() {
    let server = server(building(), Some(failed())).await;
    let error = until(&context(&server), building(), Goal::Running, LIMIT).await.unwrap_err();
    assert_eq!(error.exit_code(), 1);
    insta::assert_snapshot!(error.to_string());
}

#[tokio::test]
async fn a_deleted_vm_is_gone_and_that_is_the_goal_only_of_a_delete() {
    let deleting = vm(VmStatus::Deleting, Some(TaskState::Deleting));
    let server = server(deleting.clone(), None).await;
    let cx = context(&server);
    until_gone(&cx, deleting, LIMIT).await.unwrap();
    let error = until(&cx, building(), Goal::Running, LIMIT).await.unwrap_err();
    assert_eq!(error.to_string(), "VM `web` was deleted meanwhile");
}

#[tokio::test]
async fn a_wait_is_bounded_and_says_what_it_leaves() {
    let server = server(building(), Some(building())).await;
    let error =
        until(&context(&server), building(), Goal::Running, Duration::from_millis(300)).await.unwrap_err();
    assert_eq!(error.exit_code(), 3);
    assert!(
        error.to_string().starts_with("VM `web`: not within 300 ms; it is left as it is: scheduling"),
        "{error}"
    );
}
