//! `holm dev up`: what is missing is made, what is stopped is started, and the command returns when the
//! cluster takes work. Repeating it is harmless; a larger `--nodes` adds nodes.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use holm_api::{ListQuery, Node};
use tokio::time::sleep;

use super::lock::Lock;
use super::record::{DevCluster, DevNode};
use super::{daemon, directory, say};
use crate::args::dev::Up;
use crate::client::health;
use crate::error::Error;
use crate::output::Output;
use crate::output::text;
use crate::progress::Progress;

/// Nodes of a new cluster.
const NODES: usize = 3;
/// Ports looked at: below those that outgoing connections take.
const PORTS: std::ops::Range<u16> = 17_460..32_000;
/// The daemon accepts run directories up to this long: sockets lie below.
const RUN_DIR_MAX: usize = 60;
/// A node is ready, and a cluster complete, within this.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// Pause between questions while daemons start.
const PAUSE: Duration = Duration::from_millis(50);

pub async fn run(output: &Output, typed: &Up) -> Result<(), Error> {
    let dir = directory(&typed.dir)?;
    let holmd = daemon::find()?;
    fs::create_dir_all(&dir).map_err(Error::file("make", &dir))?;
    let _lock = Lock::take(&dir)?;
    let mut cluster = DevCluster::read(&dir)?.unwrap_or_default();
    let wanted = adopt(&mut cluster, typed)?;
    plan(&mut cluster, &dir, wanted)?;
    cluster.write(&dir)?;
    let mut progress = Progress::new();
    // A restarted cluster has a leader only when most nodes are back: start all before waiting for any.
    for at in 0..cluster.nodes.len() {
        if cluster.nodes[at].prepared {
            cluster.start(at, &dir, &holmd)?;
        }
    }
    for at in 0..cluster.nodes.len() {
        progress.step(&format!("starting {}", cluster.nodes[at].name));
        prepare(&mut cluster, at, &dir, &holmd).await?;
        cluster.start(at, &dir, &holmd)?;
        ready(&cluster.nodes[at]).await?;
    }
    progress.step("waiting for every node to be up");
    let nodes = complete(&cluster).await?;
    progress.clear();
    output.list(&nodes)?;
    say(output, &format!("\nexport HOLM_ENDPOINTS={}", cluster.endpoints()))
}

/// Takes over what was typed, unless the cluster cannot become that; gives the number of nodes wanted.
fn adopt(cluster: &mut DevCluster, typed: &Up) -> Result<usize, Error> {
    let hint = "`holm dev down` first, for a new cluster";
    let there = cluster.nodes.len();
    let wanted = match typed.nodes.map(usize::from) {
        Some(wanted) if wanted < there => {
            return Err(Error::usage(format!("--nodes {wanted}: there are {there} already"), hint));
        }
        Some(wanted) => wanted,
        None if there > 0 => there,
        None => NODES,
    };
    if let Some(hypervisor) = typed.hypervisor.filter(|wanted| *wanted != cluster.hypervisor) {
        if cluster.nodes.iter().any(DevNode::is_running) {
            let detail = format!("--hypervisor: daemons run already, with `{}`", cluster.hypervisor.name());
            return Err(Error::usage(detail, hint));
        }
        cluster.hypervisor = hypervisor;
    }
    Ok(wanted)
}

/// Adds nodes up to `wanted`, with addresses nobody has.
fn plan(cluster: &mut DevCluster, dir: &Path, wanted: usize) -> Result<(), Error> {
    let taken = cluster.nodes.iter().flat_map(|node| [&node.api, &node.peer]);
    let taken: BTreeSet<u16> = taken.filter_map(|address| address.rsplit_once(':')?.1.parse().ok()).collect();
    let first = first_port(dir);
    let mut ports =
        (first..PORTS.end).chain(PORTS.start..first).filter(|port| !taken.contains(port) && is_free(*port));
    for number in cluster.nodes.len() + 1..=wanted {
        let mut address = || ports.next().map(|port| format!("127.0.0.1:{port}"));
        let (Some(api), Some(peer)) = (address(), address()) else {
            return Err(Error::failed("no free ports on 127.0.0.1"));
        };
        let node_dir = dir.join(format!("n{number}"));
        cluster.nodes.push(DevNode {
            name: format!("n{number}"),
            api,
            peer,
            data_dir: node_dir.join("data"),
            run_dir: run_dir(&node_dir, number)?,
            log: node_dir.join("holmd.log"),
            prepared: false,
            process: None,
        });
    }
    Ok(())
}

/// Where the search begins: two clusters that start at the same moment would both find the first port free.
fn first_port(dir: &Path) -> u16 {
    let mut hasher = DefaultHasher::new();
    dir.hash(&mut hasher);
    PORTS.start
        + u16::try_from(hasher.finish() % PORTS.len() as u64).expect("there are fewer ports than u16s")
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// Below the node's directory, or, where that is too deep for sockets, in a directory of its own.
fn run_dir(node_dir: &Path, number: usize) -> Result<PathBuf, Error> {
    let run_dir = node_dir.join("run");
    if run_dir.as_os_str().len() <= RUN_DIR_MAX {
        return Ok(run_dir);
    }
    let unique = uuid::Uuid::new_v4().simple().to_string();
    let short = std::env::temp_dir().join(format!("holm-{}-{number}", &unique[..8]));
    if short.as_os_str().len() > RUN_DIR_MAX {
        let detail = format!("{} and TMPDIR are too deep for sockets", node_dir.display());
        return Err(Error::usage(detail, "give a shorter --dir"));
    }
    Ok(short)
}

/// Makes the directories of a new node: the first one begins the cluster, the others join it.
async fn prepare(cluster: &mut DevCluster, at: usize, dir: &Path, holmd: &Path) -> Result<(), Error> {
    let node = &cluster.nodes[at];
    if node.prepared {
        return Ok(());
    }
    for made in [&node.data_dir, &node.run_dir] {
        // What a failed attempt left behind is not a node.
        if made.exists() {
            fs::remove_dir_all(made).map_err(Error::file("remove", made))?;
        }
        fs::create_dir_all(made).map_err(Error::file("make", made))?;
    }
    let verb: &[&str] = if at == 0 { &["init", "--cluster", "dev"] } else { &["join"] };
    let mut args: Vec<String> = verb.iter().map(|&word| word.into()).collect();
    args.extend(["--data-dir".into(), node.data_dir.display().to_string()]);
    args.extend(["--name".into(), node.name.clone()]);
    args.extend(["--peer-listen".into(), node.peer.clone(), "--api-listen".into(), node.api.clone()]);
    for seed in &cluster.nodes[..at] {
        args.extend(["--seed".into(), seed.peer.clone()]);
    }
    daemon::run(holmd, args).await?;
    cluster.nodes[at].prepared = true;
    cluster.write(dir)
}

/// Waits until the daemon answers and is ready, or has ended.
async fn ready(node: &DevNode) -> Result<(), Error> {
    let start = Instant::now();
    loop {
        let why = match health::of(&node.endpoint(), Duration::from_secs(2)).await {
            Ok(report) if report.health.node != node.name => {
                let detail =
                    format!("{} answers for {}, not for {}", node.api, report.health.node, node.name);
                return Err(Error::Failed { detail, hint: Some("another daemon has its port".into()) });
            }
            Ok(report) if report.health.ready => return Ok(()),
            Ok(report) => report.health.reason.unwrap_or_default(),
            Err(why) => why,
        };
        if !node.is_running() {
            return Err(daemon::failed(node));
        }
        if start.elapsed() > READY_LIMIT {
            let detail = format!("{} is not ready after {}: {why}", node.name, text::span(READY_LIMIT));
            return Err(Error::Failed { detail, hint: Some(format!("its log is {}", node.log.display())) });
        }
        sleep(PAUSE).await;
    }
}

/// Waits until the leader hears from every node.
async fn complete(cluster: &DevCluster) -> Result<Vec<Node>, Error> {
    let (start, client) = (Instant::now(), cluster.client());
    loop {
        let nodes: Vec<Node> = client.list("/v1/nodes", &ListQuery::default()).await?;
        let down: Vec<_> = cluster
            .nodes
            .iter()
            .filter(|node| !nodes.iter().any(|known| known.name == node.name && known.up))
            .map(|node| node.name.as_str())
            .collect();
        if down.is_empty() {
            return Ok(nodes);
        }
        if start.elapsed() > READY_LIMIT {
            let detail = format!("not up after {}: {}", text::span(READY_LIMIT), down.join(", "));
            return Err(Error::Failed {
                detail,
                hint: Some("`holm dev status` shows the daemons' logs".into()),
            });
        }
        sleep(PAUSE).await;
    }
}
