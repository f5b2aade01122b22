//! N+1: nobody asks, everybody is told, or what would break it is refused, also when several come at once.

use futures::future::join_all;

use super::*;

const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// Three nodes of two vCPUs: any one may go while at most four failover VMs are there.
async fn three_nodes() -> Vec<Daemon> {
    let daemons = Daemon::three().await;
    for node in NODES {
        narrow(&daemons[0], node, 2).await;
    }
    daemons
}

fn failover(name: &str) -> Value {
    vm(name, json!({"availability": "failover"}))
}

/// The answer; while a daemon has no time for it, nothing is created, and it is asked again.
async fn decided(daemon: &Daemon, name: &str) -> Answer {
    daemon
        .until(&format!("{name} is created or refused"), async |daemon| {
            let answer = daemon.post("/v1/vms", failover(name)).await;
            (answer.status != 503).then_some(answer)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_break_n_plus_one_is_refused_also_when_many_come_at_once() {
    let daemons = three_nodes().await;
    set_policy(&daemons[0], json!({"n_plus_one": "refuse"})).await;
    let asked = (0..9).map(|n| {
        let daemon = &daemons[n % 3];
        async move { decided(daemon, &format!("vm-{n}")).await }
    });
    let answers = join_all(asked).await;
    let accepted = answers.iter().filter(|answer| answer.status == 202).count();
    let refused: Vec<&Value> =
        answers.iter().map(|answer| &answer.json).filter(|json| json["code"] == "n_plus_one").collect();
    assert_eq!(
        (accepted, refused.len()),
        (4, 5),
        "{:?}",
        answers.iter().map(|a| &a.json).collect::<Vec<_>>()
    );
    assert_eq!(refused[0]["field"], "availability");
    assert!(
        refused[0]["detail"].as_str().unwrap_or_default().contains("would fit nowhere"),
        "{}",
        refused[0]
    );
    let verdict = daemons[0].get("/v1/n-plus-one").await.expect(200).json;
    assert_eq!((verdict["holds"].clone(), verdict["vms"].clone()), (json!(true), json!(4)), "{verdict}");

    // A batch is judged as one, a dry run as what it thinks of, and so is a VM that is to fail over from now on.
    let batch = vm("more", json!({"availability": "failover", "count": 2}));
    assert_eq!(daemons[0].post("/v1/vms", batch).await.expect(409).json["code"], "n_plus_one");
    assert_eq!(
        daemons[0].post("/v1/vms?dry_run=true", failover("dry")).await.expect(409).json["code"],
        "n_plus_one"
    );
    // A pinned one would take the room they need.
    let refused = daemons[1].post("/v1/vms", vm("pinned", json!({}))).await.expect(409).json;
    let detail = refused["detail"].as_str().unwrap_or_default();
    assert_eq!(refused["code"], "n_plus_one", "{refused}");
    assert!(detail.contains("would fit nowhere (vm-"), "{refused}");
    assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains("--n-plus-one warn")), "{refused}");
    set_policy(&daemons[0], json!({"n_plus_one": "warn"})).await;
    let pinned = daemons[0].post("/v1/vms", vm("pinned", json!({}))).await.expect(202).json;
    assert_eq!(pinned["warnings"], Value::Null);
    set_policy(&daemons[0], json!({"n_plus_one": "refuse"})).await;
    let set = json!({"availability": "failover"});
    assert_eq!(daemons[0].patch("/v1/vms/pinned", set).await.expect(409).json["code"], "n_plus_one");
    assert_eq!(daemons[0].get("/v1/vms/pinned").await.json["availability"], "pinned");
}

/// Of pinned and failover VMs that come at once, from every node, only so many are let in that N+1 holds; and it still
/// does once they run.
#[tokio::test(flavor = "multi_thread")]
async fn pinned_vms_that_come_at_once_take_no_room_that_failover_vms_need() {
    let daemons = three_nodes().await;
    let n1 = &daemons[0];
    set_policy(n1, json!({"n_plus_one": "refuse"})).await;
    n1.post("/v1/vms", vm("held", json!({"availability": "failover", "count": 2}))).await.expect(202);
    let asked = (0..9).map(|n| {
        let daemon = &daemons[n % 3];
        let availability = if n % 4 == 0 { "failover" } else { "pinned" };
        async move {
            let body = vm(&format!("vm-{n}"), json!({ "availability": availability }));
            let decided = async |daemon: &Daemon| {
                let answer = daemon.post("/v1/vms", body.clone()).await;
                (answer.status != 503).then_some(answer)
            };
            daemon.until(&format!("vm-{n} is created or refused"), decided).await
        }
    });
    let answers = join_all(asked).await;
    let (accepted, refused): (Vec<&Answer>, Vec<&Answer>) =
        answers.iter().partition(|answer| answer.status == 202);
    assert!(!accepted.is_empty() && refused.iter().all(|answer| answer.json["code"] == "n_plus_one"));
    for answer in &accepted {
        let name = answer.json["name"].as_str().unwrap_or_default();
        // While others are built the scheduler may choose another node for it than it was judged on; is that one needed,
        // it is held back, and says so.
        let settled = async |daemon: &Daemon| {
            let vm = daemon.get(&format!("/v1/vms/{name}")).await.json;
            let is_held_back = vm["refusals"][0]["by"] == "NPlusOne";
            (vm["status"] == "ACTIVE" || vm["status"] == "BUILD" && is_held_back).then_some(())
        };
        n1.until(&format!("{name} is ACTIVE, or held back"), settled).await;
    }
    let verdict = n1.get("/v1/n-plus-one").await.expect(200).json;
    assert_eq!(verdict["holds"], true, "{verdict}");
}

#[tokio::test(flavor = "multi_thread")]
async fn by_default_it_is_created_with_a_warning_and_off_says_nothing() {
    let daemons = three_nodes().await;
    let n1 = &daemons[0];
    assert_eq!(n1.get("/v1/scheduler").await.json["n_plus_one"], "warn");
    let held =
        n1.post("/v1/vms", vm("held", json!({"availability": "failover", "count": 4}))).await.expect(202);
    assert_eq!(held.json["warnings"], Value::Null);
    let warned = n1.post("/v1/vms", failover("fifth")).await.expect(202).json;
    let warning = warned["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.starts_with("N+1: without node `n"), "{warned}");
    let policy = n1.get("/v1/scheduler").await.json;
    assert!(policy["warnings"][0].as_str().is_some_and(|text| text.starts_with("N+1: ")), "{policy}");
    set_policy(n1, json!({"n_plus_one": "off"})).await;
    let silent = n1.post("/v1/vms", failover("sixth")).await.expect(202).json;
    assert_eq!(silent["warnings"], Value::Null);
    let bad = n1.put("/v1/scheduler", json!({"n_plus_one": "maybe"})).await.expect(422).json;
    assert_eq!(bad["field"], "n_plus_one");
}

/// One that is off is none that must be held. Five of six places are taken, two on two of the nodes each: of those that
/// are off there, one a node may be started, since the free place is for whichever node goes.
#[tokio::test(flavor = "multi_thread")]
async fn starting_is_judged_like_creating_also_when_all_are_started_at_once() {
    let daemons = three_nodes().await;
    let n1 = &daemons[0];
    set_policy(n1, json!({"n_plus_one": "off"})).await;
    let batch = vm("vm", json!({"availability": "failover", "count": 5}));
    n1.post("/v1/vms", batch).await.expect(202);
    let names: Vec<String> = (1..=5).map(|n| format!("vm-{n}")).collect();
    for name in &names {
        n1.until_status(name, "ACTIVE").await;
        n1.post(&format!("/v1/vms/{name}/stop"), json!({"force": true})).await.expect(202);
    }
    for name in &names {
        n1.until_status(name, "SHUTOFF").await;
    }
    set_policy(n1, json!({"n_plus_one": "refuse"})).await;
    let started = names.iter().enumerate().map(|(n, name)| {
        let daemon = &daemons[n % 3];
        async move {
            let target = format!("/v1/vms/{name}/start");
            let decided = async |daemon: &Daemon| {
                let answer = daemon.post(&target, json!({})).await;
                (answer.status != 503).then_some(answer)
            };
            daemon.until(&format!("{name} is started or refused"), decided).await
        }
    });
    let answers = join_all(started).await;
    let accepted = answers.iter().filter(|answer| answer.status == 202).count();
    let refused: Vec<&Value> =
        answers.iter().map(|answer| &answer.json).filter(|json| json["code"] == "n_plus_one").collect();
    assert_eq!(
        (accepted, refused.len()),
        (2, 3),
        "{:?}",
        answers.iter().map(|a| &a.json).collect::<Vec<_>>()
    );
    let detail = refused[0]["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("1 of its") && detail.contains("would fit nowhere"), "{detail}");
    let verdict = n1.get("/v1/n-plus-one").await.expect(200).json;
    assert_eq!((verdict["holds"].clone(), verdict["vms"].clone()), (json!(true), json!(2)), "{verdict}");

    // A policy that warns starts it and says so; one that refuses what is so already says that too.
    set_policy(n1, json!({"n_plus_one": "warn"})).await;
    let at = answers.iter().position(|answer| answer.status != 202).expect("three were refused");
    let target = format!("/v1/vms/{}/start", names[at]);
    let warned = n1.post(&target, json!({})).await.expect(202).json;
    let is_warning =
        |json: &Value| json["warnings"][0].as_str().is_some_and(|text| text.starts_with("N+1: "));
    assert!(is_warning(&warned), "{warned}");
    let policy = set_policy(n1, json!({"n_plus_one": "refuse"})).await.json;
    assert!(is_warning(&policy), "{policy}");
}
