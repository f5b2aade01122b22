//! The real `holm` binary against servers that are down, wrong, broken or well: what it prints, where, and
//! with which exit code. Its cluster is a test server; real daemons are driven in `node/tests`.

#[path = "../src/client/test_server.rs"]
#[allow(dead_code)]
mod test_server;

use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use test_server::{Act, Got, TestServer, nobody};
use tokio::process::Command;

fn holm(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holm"));
    command.args(args).env_clear().stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn run(args: &[&str]) -> Output {
    let output = tokio::time::timeout(Duration::from_secs(60), holm(args).output());
    output.await.expect("holm ends").expect("holm can be started")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("holm was not ended by a signal")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn vm(status: &str, task_state: Option<&str>) -> Value {
    let placed = task_state != Some("scheduling");
    json!({
        "id": "00000000-0000-0000-0000-000000000017", "name": "web", "project": "default", "status": status,
        "task_state": task_state, "node": placed.then_some("n1"), "node_id": placed.then_some(1),
        "node_up": placed.then_some(true), "hypervisor": null, "epoch": null,
        "flavor": {
            "id": "00000000-0000-0000-0000-000000000002", "name": "small", "vcpus": 1, "memory_mib": 64,
            "disk_gib": 0,
        },
        "image": {"id": "00000000-0000-0000-0000-000000000003", "name": "guest"},
        "kernel": null, "cmdline": null, "requested_node": null, "on_no_host": "queue",
        "availability": "pinned", "power": "on", "run": 1, "fault": null, "observed": null, "excluded": [],
        "refusals": [], "waiting_since": null, "build_deadline": null,
        "created_at": "2026-11-30T12:00:00.000Z", "updated_at": "2026-11-30T12:00:00.000Z", "revision": 40,
    })
}

/// A healthy node that answers other requests with `act`.
async fn cluster(act: impl Fn(&Got) -> Act + Send + Sync + 'static) -> (TestServer, String) {
    let act = move |_: usize, got: &Got| if got.target == "/health" { Act::health(7) } else { act(got) };
    let server = TestServer::start(act).await;
    let endpoint = server.address.to_string();
    (server, endpoint)
}

#[tokio::test]
async fn a_server_that_is_down_is_one_sentence_and_the_next_step() {
    let address = nobody().await.to_string();
    let output = run(&["vm", "list", "--endpoint", &address]).await;
    assert_eq!((code(&output), stdout(&output)), (3, String::new()));
    assert_eq!(
        stderr(&output),
        format!(
            "error: cannot reach Holm (http://{address}: connection refused)\n  \
             hint: is holmd running there? Name another node with --endpoint or HOLM_ENDPOINTS\n"
        )
    );
}

#[tokio::test]
async fn with_json_a_failure_is_a_problem_on_stderr() {
    let address = nobody().await.to_string();
    let create = ["-o", "json", "vm", "create", "a", "--flavor", "f", "--image", "i", "--endpoint", &address];
    let output = run(&create).await;
    assert_eq!((code(&output), stdout(&output)), (3, String::new()));
    let problem: Value = serde_json::from_slice(&output.stderr).expect("stderr is JSON");
    assert_eq!((&problem["code"], &problem["exit_code"]), (&json!("unreachable"), &json!(3)));
}

#[tokio::test]
async fn a_missing_socket_and_an_address_of_something_else_are_told_apart() {
    let output = run(&["node", "list", "--endpoint", "unix:/nowhere/api.sock"]).await;
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("there is no such socket"), "{}", stderr(&output));
    let web = TestServer::start(|_, _| Act::Answer(200, "text/html", "<html>".into())).await;
    let output = run(&["node", "list", "--endpoint", &web.address.to_string()]).await;
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("not as a Holm API"), "{}", stderr(&output));
}

#[tokio::test]
async fn endpoints_come_from_the_environment_too() {
    let address = nobody().await;
    let mut command = holm(&["cluster", "status"]);
    let output = command.env("HOLM_ENDPOINTS", format!("{address},{address}")).output().await.unwrap();
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains(&address.to_string()));
    let output = holm(&["cluster", "status"]).env("HOLM_SOCKET", "/nowhere/x.sock").output().await.unwrap();
    assert!(stderr(&output).contains("unix:/nowhere/x.sock"), "{}", stderr(&output));
}

#[tokio::test]
async fn wrong_usage_is_exit_code_2_and_names_the_way_out() {
    let cases: [(&[&str], &str); 12] = [
        (&["vm", "fly"], "unrecognized subcommand 'fly'"),
        (&["vm", "create", "web"], "--flavor <FLAVOR>"),
        (&["vm", "show", ""], "give a name or an id"),
        (&["vm", "list", "--status", "running"], "one of BUILD, ACTIVE"),
        (&["vm", "stop", "web", "--timeout", "soon"], "write for example `30s`"),
        (&["vm", "stop", "web", "--timeout", "1s", "--force"], "cannot be used with"),
        (&["vm", "list", "--endpoint", "https://a:1"], "Holm speaks plain HTTP so far"),
        (&["flavor", "create", "f", "--memory", "lots"], "invalid value 'lots'"),
        (&["flavor", "create", "f", "--memory", "64", "--vcpus", "-1"], "-1 is not in 1..=254"),
        (&["vm", "list", "--endpoint", ""], "--endpoint is empty"),
        (&["vm", "delete", "web", "--stale"], "--stale does not fit this command"),
        (&["-o", "xml", "vm", "list"], "[possible values: table, json, yaml, name]"),
    ];
    for (args, expected) in cases {
        let output = run(args).await;
        assert_eq!((code(&output), stdout(&output)), (2, String::new()), "{args:?}");
        assert!(stderr(&output).contains(expected), "{args:?}: {}", stderr(&output));
    }
}

#[tokio::test]
async fn a_refusal_is_exit_code_1_with_the_clusters_words() {
    let refuse = |_: &Got| {
        let body = json!({
            "type": "urn:holm:problem:invalid_field", "title": "A field is not acceptable", "status": 422,
            "code": "invalid_field", "detail": "memory_mib is 15, must be even", "field": "memory_mib",
            "request_id": "r-9", "hint": "use an even number",
        });
        Act::Answer(422, "application/problem+json", body.to_string())
    };
    let (_server, endpoint) = cluster(refuse).await;
    let output = run(&["flavor", "create", "f", "--memory", "15", "--endpoint", &endpoint]).await;
    assert_eq!(code(&output), 1);
    assert_eq!(
        stderr(&output),
        "error: memory_mib is 15, must be even\n  field: memory_mib\n  hint: use an even number\n  request: r-9\n"
    );
}

#[tokio::test]
async fn a_create_waits_and_stays_quiet_in_a_pipe() {
    let (server, endpoint) = cluster(|got| match got.target.as_str() {
        "/v1/vms" => Act::json(202, &vm("BUILD", Some("scheduling"))),
        target if target.starts_with("/v1/events") => Act::Stream("text/event-stream", ":\n\n".into()),
        _ => Act::json(200, &vm("ACTIVE", None)),
    })
    .await;
    let create = ["vm", "create", "web", "--flavor", "small", "--image", "guest", "--endpoint", &endpoint];
    let output = run(&create).await;
    assert_eq!((code(&output), stderr(&output)), (0, String::new()));
    assert!(stdout(&output).starts_with("VM web is ACTIVE on n1 after "), "{}", stdout(&output));
    let body: Value = serde_json::from_slice(&server.got()[0].body).unwrap();
    assert_eq!(
        body,
        json!({"name": "web", "flavor": "small", "image": "guest", "on_no_host": "queue", "availability": "pinned"})
    );
    let output = run(&[&create[..], &["--no-wait", "-o", "name"]].concat()).await;
    assert_eq!(stdout(&output), "web\n");
}

#[tokio::test]
async fn a_create_that_ends_in_error_is_exit_code_1() {
    let (_server, endpoint) = cluster(|got| match got.target.as_str() {
        "/v1/vms" => Act::json(202, &vm("BUILD", Some("scheduling"))),
        target if target.starts_with("/v1/events") => Act::Stream("text/event-stream", ":\n\n".into()),
        _ => {
            let mut vm = vm("ERROR", None);
            vm["fault"] = json!({"message": "no host", "node": null, "at": "2026-11-30T12:00:00.000Z"});
            vm["refusals"] =
                json!([{"node": "n1", "node_id": 1, "by": "Capacity", "message": "VCPU: 9 wanted"}]);
            Act::json(200, &vm)
        }
    })
    .await;
    let output =
        run(&["vm", "create", "web", "--flavor", "f", "--image", "i", "--endpoint", &endpoint]).await;
    assert_eq!(code(&output), 1);
    assert!(
        stderr(&output).starts_with(
            "error: VM `web` is ERROR: no host\n  refused by n1: Capacity: VCPU: 9 wanted\n  hint: "
        ),
        "{}",
        stderr(&output)
    );
}

#[tokio::test]
async fn a_stop_on_a_node_that_is_down_is_told_soon() {
    let (_server, endpoint) = cluster(|got| match got.target.as_str() {
        target if target.starts_with("/v1/events") => Act::Stream("text/event-stream", ":\n\n".into()),
        _ => {
            let mut vm = vm("ACTIVE", Some("powering-off"));
            vm["node_up"] = json!(false);
            Act::json(202, &vm)
        }
    })
    .await;
    let output = run(&["vm", "stop", "web", "--endpoint", &endpoint]).await;
    assert_eq!(code(&output), 3);
    assert_eq!(
        stderr(&output),
        "error: VM `web`: its node n1 is down; what was asked for is kept, and done when n1 is back\n  \
         hint: if that machine is off, `holm vm evacuate web --confirm-node-off` starts it elsewhere, without its disk\n"
    );
}

#[tokio::test]
async fn a_stale_read_asks_for_what_the_node_knows() {
    let (server, endpoint) = cluster(|_| Act::json(200, &vm("ACTIVE", None))).await;
    let output = run(&["vm", "show", "web", "--stale", "--endpoint", &endpoint]).await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(server.got()[0].target, "/v1/vms/web?consistency=stale");
}

#[tokio::test]
async fn ctrl_c_ends_the_waiting_and_says_what_is_left() {
    let (server, endpoint) = cluster(|got| match got.target.as_str() {
        "/v1/vms" => Act::json(202, &vm("BUILD", Some("scheduling"))),
        target if target.starts_with("/v1/events") => Act::Stream("text/event-stream", ":\n\n".into()),
        _ => Act::json(200, &vm("BUILD", Some("scheduling"))),
    })
    .await;
    let mut create = holm(&["vm", "create", "web", "--flavor", "f", "--image", "i", "--endpoint", &endpoint]);
    let child = create.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("holm can be started");
    let pid = i32::try_from(child.id().expect("it runs")).expect("process ids fit");
    // Once it reads the record again, it is surely waiting.
    while server.got().len() < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGINT)
        .expect("it runs");
    let ended = tokio::time::timeout(Duration::from_secs(30), child.wait_with_output());
    let output = ended.await.expect("holm ends").expect("holm can be waited for");
    assert_eq!(code(&output), 3);
    assert_eq!(
        stderr(&output),
        "error: VM `web`: not waited for any longer; it is left as it is: scheduling\n  \
         hint: the cluster goes on; look with `holm vm explain web`\n"
    );
}

#[tokio::test]
async fn one_vm_that_cannot_be_deleted_does_not_keep_the_others() {
    let (server, endpoint) = cluster(|got| match (got.method.as_str(), got.target.as_str()) {
        ("DELETE", "/v1/vms/b") => Act::json(202, &json!({"id": "00", "name": "b", "revision": 9})),
        _ => Act::problem(404, "not_found", "there is no such VM"),
    })
    .await;
    let output = run(&["vm", "delete", "a", "b", "--endpoint", &endpoint]).await;
    assert_eq!((code(&output), stdout(&output)), (1, "VM b deleted\n".into()));
    assert!(stderr(&output).starts_with("error: there is no such VM\n"), "{}", stderr(&output));
    assert_eq!(server.got().iter().filter(|got| got.method == "DELETE").count(), 2);
}

#[tokio::test]
async fn the_local_default_is_not_needed_for_completion_and_help() {
    let output = run(&["completion", "bash"]).await;
    assert_eq!(code(&output), 0);
    assert!(stdout(&output).contains("complete -F _holm"));
    let output = run(&["--version"]).await;
    assert_eq!(stdout(&output), format!("holm {}\n", env!("CARGO_PKG_VERSION")));
}

/// Runs `args` with a reader that has gone before anything is printed.
async fn without_reader(args: &[&str]) -> Output {
    let (reader, writer) = std::io::pipe().expect("pipes can be made");
    drop(reader);
    printing_to(args, writer.into()).await
}

async fn printing_to(args: &[&str], stdout: Stdio) -> Output {
    let child = holm(args).stdout(stdout).stderr(Stdio::piped()).spawn().expect("holm can be started");
    let ended = tokio::time::timeout(Duration::from_secs(30), child.wait_with_output());
    ended.await.expect("holm ends").expect("holm can be waited for")
}

#[tokio::test]
async fn a_reader_that_left_ends_it_quietly() {
    let (_server, endpoint) = cluster(|got| match got.target.as_str() {
        target if target.starts_with("/v1/events") => Act::Stream("text/event-stream", ":\n\n".into()),
        _ => Act::json(200, &json!({"items": [vm("ACTIVE", None)], "next": null, "revision": 3})),
    })
    .await;
    let cases: [&[&str]; 5] = [
        &["--help"],
        &["completion", "bash"],
        &["vm", "list", "--endpoint", &endpoint],
        &["vm", "list", "-o", "json", "--endpoint", &endpoint],
        &["vm", "list", "--watch", "--endpoint", &endpoint],
    ];
    for args in cases {
        let output = without_reader(args).await;
        assert_eq!((code(&output), stderr(&output)), (0, String::new()), "{args:?}");
    }
}

#[tokio::test]
async fn a_full_disk_is_no_quiet_end() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has /dev/full");
    let output = printing_to(&["completion", "bash"], full.into()).await;
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).starts_with("error: cannot write the output: "), "{}", stderr(&output));
}

#[tokio::test]
async fn an_image_is_checked_before_a_byte_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("guest.elf");
    std::fs::write(&file, b"\x7fELF and so on").unwrap();
    let file = file.to_str().unwrap();
    let image = json!({
        "id": "00000000-0000-0000-0000-000000000003", "name": "guest", "project": "default", "kind": "kernel",
        "size_bytes": 14, "sha256": "ab", "holders": [], "created_at": "2026-11-30T12:00:00.000Z", "revision": 1,
    });
    let taken = image.clone();
    let (server, endpoint) = cluster(move |got| match (got.method.as_str(), got.target.as_str()) {
        ("GET", "/v1/images/guest") => Act::problem(404, "not_found", "there is no image"),
        ("GET", _) => Act::json(200, &taken),
        _ => Act::json(201, &image),
    })
    .await;
    let output = run(&["image", "import", file, "--endpoint", &endpoint]).await;
    assert_eq!((code(&output), stderr(&output)), (0, String::new()));
    let upload = &server.got()[1];
    assert_eq!(upload.target, "/v1/images?kind=kernel&name=guest");
    assert_eq!(
        upload.header("holm-sha256"),
        Some("f10dcfc38df641ffd9013f9834e069b55f9c2213e1d9fedc3414fd106aa8e5d3")
    );
    assert_eq!(&upload.body[..], b"\x7fELF and so on");

    let output = run(&["image", "import", file, "--name", "other", "--endpoint", &endpoint]).await;
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("the image name `other` is taken"), "{}", stderr(&output));
    let output = run(&["image", "import", "/nowhere/x.img", "--endpoint", &endpoint]).await;
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("cannot read /nowhere/x.img"), "{}", stderr(&output));
    let empty = dir.path().join("empty");
    std::fs::write(&empty, b"").unwrap();
    let output = run(&["image", "import", empty.to_str().unwrap(), "--endpoint", &endpoint]).await;
    assert_eq!(code(&output), 1);
    std::fs::write(&empty, b"root:x:0:0").unwrap();
    let output = run(&["image", "import", empty.to_str().unwrap(), "--endpoint", &endpoint]).await;
    assert_eq!(code(&output), 1);
    assert!(
        stderr(&output).contains("is no raw disk: 10 bytes are not a multiple of 512"),
        "{}",
        stderr(&output)
    );
    assert_eq!(server.got().iter().filter(|got| got.method == "POST").count(), 1);
}

#[tokio::test]
async fn the_project_that_was_chosen_goes_with_every_request() {
    let list = json!({"items": [vm("ACTIVE", None)], "next": null, "revision": 40});
    let (server, endpoint) = cluster(move |_| Act::json(200, &list)).await;
    let asked = |arguments: &[&str], from_env: &str| {
        let mut command = holm(arguments);
        command.args(["--endpoint", &endpoint]).env("HOLM_PROJECT", from_env);
        command
    };
    for (arguments, from_env, sent) in [
        (&["vm", "list"][..], "", None),
        (&["vm", "list"], "ship", Some("ship")),
        (&["vm", "list", "--project", "shop"], "ship", Some("shop")),
        (&["vm", "list", "--project", "default"], "ship", None),
    ] {
        let output = asked(arguments, from_env).output().await.expect("holm can be started");
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let got = server.got().pop().expect("it asked");
        assert_eq!(got.header("holm-project"), sent, "{arguments:?}, {from_env:?}");
    }
    for (arguments, from_env, blamed) in [
        (&["vm", "list", "--project", ""][..], "ship", "--project"),
        (&["vm", "list", "--project", "a b"], "", "--project"),
        (&["vm", "list"], "\u{fc}", "HOLM_PROJECT"),
    ] {
        let output = asked(arguments, from_env).output().await.expect("holm can be started");
        assert_eq!(code(&output), 2, "{arguments:?}");
        assert!(stderr(&output).contains(&format!("{blamed}: ")), "{}", stderr(&output));
    }
}

#[tokio::test]
async fn vms_of_all_projects_are_told_apart() {
    let of = |project: &str| {
        let mut vm = vm("ACTIVE", None);
        vm["project"] = json!(project);
        vm
    };
    let list = json!({"items": [of("default"), of("shop")], "next": null, "revision": 40});
    let (server, endpoint) = cluster(move |_| Act::json(200, &list)).await;
    let output = run(&["vm", "list", "--all-projects", "--endpoint", &endpoint]).await;
    let shown = stdout(&output);
    let names: Vec<_> = shown.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["web", "shop/web"], "{shown}");
    let target = server.got().pop().expect("it asked").target;
    assert!(target.contains("all_projects=true"), "{target}");
}
