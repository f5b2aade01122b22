//! How a host becomes a node: `init` makes the first one, `join` a further one. Both write the
//! configuration and the identity, and start nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use holm_raft::Identity;

use crate::cli::{Init, Join, Node};
use crate::config::{Config, CpuConfig, HypervisorConfig, InventoryConfig, Listen, LogConfig};

/// `holmd init`
///
/// # Errors
/// When the directory holds a node already, a setting is invalid, or a file cannot be written.
pub fn init(mut args: Init) -> Result<()> {
    let config = prepare(&mut args.node)?;
    holm_model::limits::name("cluster", &args.cluster)?;
    let data_dir = &args.node.data_dir;
    // Before the identity: a host cut off in between is no node yet, and the same command goes on.
    config.write(data_dir)?;
    let identity = holm_raft::init_cluster(
        data_dir,
        &args.cluster,
        &config.name,
        &config.peer.advertised(),
        &config.api.advertised(),
    )?;
    println!("Cluster `{}` ({}) with node `{}` is prepared.", args.cluster, identity.cluster, config.name);
    println!("Next: {}", run_command(data_dir));
    Ok(())
}

/// `holmd join`
///
/// # Errors
/// As [`init`], and when no member could be reached or the cluster refused the node.
pub fn join(mut args: Join) -> Result<()> {
    args.seed.iter().try_for_each(|seed| check_seed(seed))?;
    let config = prepare(&mut args.node)?;
    let data_dir = &args.node.data_dir;
    config.write(data_dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let identity = runtime.block_on(holm_raft::join_cluster(
        data_dir,
        &args.seed,
        &config.name,
        &config.peer.advertised(),
        &config.api.advertised(),
        Duration::from_secs(args.timeout),
    ))?;
    println!("Node `{}` has joined cluster {} as node {}.", config.name, identity.cluster, identity.node);
    println!("Next: {}", run_command(data_dir));
    Ok(())
}

fn check_seed(seed: &str) -> Result<()> {
    match seed.rsplit_once(':') {
        Some((host, port))
            if !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok_and(|p| p > 0) =>
        {
            Ok(())
        }
        _ => bail!(
            "--seed is {seed:?}, must be HOST:PORT of a member's peer service (its port is 7461 unless set)"
        ),
    }
}

fn run_command(data_dir: &Path) -> String {
    format!("holmd run --data-dir {}   (or: systemctl start holmd)", data_dir.display())
}

/// Checks the settings and makes the directory; nothing else is changed yet.
fn prepare(node: &mut Node) -> Result<Config> {
    node.data_dir = absolute(&node.data_dir)?;
    let name = match &node.name {
        Some(name) => name.clone(),
        None => host_name()?,
    };
    let config = Config {
        name,
        peer: Listen { listen: node.peer_listen, advertise: node.peer_advertise.clone() },
        api: Listen { listen: node.api_listen, advertise: node.api_advertise.clone() },
        run_dir: absolute(&node.run_dir)?,
        insecure: node.insecure,
        hypervisor: HypervisorConfig::default(),
        inventory: InventoryConfig::default(),
        cpu: CpuConfig::default(),
        pci: Vec::new(),
        log: LogConfig::default(),
    };
    config.check()?;
    let data_dir = &node.data_dir;
    if Identity::exists(data_dir) {
        bail!(
            "{} holds a node already; to make a new one of this host, remove it from the cluster first and \
             then move that directory away",
            data_dir.display()
        );
    }
    std::fs::create_dir_all(data_dir).with_context(|| format!("cannot make {}", data_dir.display()))?;
    Ok(config)
}

/// Paths go into files and to other processes, which start elsewhere.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("{} is not a usable path", path.display()))
}

fn host_name() -> Result<String> {
    let name = nix::unistd::gethostname().context("cannot tell the host's name")?;
    let name = name.to_string_lossy().into_owned();
    Ok(name.split('.').next().unwrap_or_default().to_owned())
}
