//! Puts the daemon together and takes it apart again: storage and Raft first, then the services that
//! read it, then the agent. A stop leaves running VMs alone.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use futures::FutureExt;
use holm_vmm::cloud_hypervisor::{CloudHypervisor, Settings, ShimCommand, detect};
use holm_vmm::hypervisor::Hypervisor;
use holm_vmm::image_store::ImageStore;
use holm_vmm::simulated::Simulated;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent::adopt;
use crate::agent::fence;
use crate::agent::host_facts::Cpu;
use crate::agent::host_parts::SetApart;
use crate::agent::images::{self, Images};
use crate::agent::node_report::{self, Here, vm_dir};
use crate::agent::vms;
use crate::app::{App, Shared};
use crate::cli::Run;
use crate::config::{Config, HypervisorChoice};
use crate::health::Places;
use crate::{event_log, http, leader, lease, listen, systemd};

/// `holmd run`: runs until SIGTERM or SIGINT.
///
/// # Errors
/// When something needed cannot be started; the message says what and what to do.
pub fn run(mut args: Run) -> Result<()> {
    // Shims get these paths, and start elsewhere.
    args.data_dir = std::path::absolute(&args.data_dir)?;
    args.run_dir = args.run_dir.map(std::path::absolute).transpose()?;
    let data_dir = args.data_dir.clone();
    let moved = args.moved;
    let config = configuration(args)?;
    init_log(&config);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Work on VMs and images writes to disks in place. Should these hang, its threads do, and only those: leases,
    // leadership and answers go on.
    let vms = tokio::runtime::Builder::new_multi_thread().thread_name("vms").enable_all().build()?;
    let result = runtime.block_on(serve(config, &data_dir, moved, vms.handle()));
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    vms.shutdown_timeout(std::time::Duration::from_secs(1));
    result
}

fn configuration(args: Run) -> Result<Config> {
    let mut config = Config::read(&args.data_dir)?;
    config.insecure |= args.insecure;
    if let Some(run_dir) = args.run_dir {
        config.run_dir = run_dir;
    }
    if let Some(kind) = args.hypervisor {
        config.hypervisor.kind = kind;
    }
    if let Some(level) = args.log {
        config.log.level = level;
    }
    config.check()?;
    Ok(config)
}

fn init_log(config: &Config) {
    use crate::config::LogFormat;
    // Libraries repeat themselves while a peer is away; a filter that names them overrides this.
    let quiet = "openraft=error,tarpc=off,sled=warn";
    let filter = tracing_subscriber::EnvFilter::try_new(format!("{quiet},{}", config.log.level))
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(format!("{quiet},info")));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match config.log.format {
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => log.json().init(),
    }
}

async fn serve(config: Config, data_dir: &Path, moved: bool, vms: &Handle) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    std::fs::create_dir_all(&config.run_dir)
        .with_context(|| format!("cannot make {}", config.run_dir.display()))?;
    let hypervisor = hypervisor(&config, data_dir).await?;
    let images = Arc::new(ImageStore::open(data_dir.join("images"))?);
    let api = TcpListener::bind(config.api.listen)
        .await
        .with_context(|| format!("cannot listen on {} for REST", config.api.listen))?;
    let raft = holm_raft::start(holm_raft::Config {
        data_dir: data_dir.to_owned(),
        listen: config.peer.listen,
        advertise: config.peer.advertised(),
        moved,
        timing: holm_raft::Timing::default(),
    })
    .await?;
    let app: Shared = Arc::new(App::new(raft, hypervisor, images, &config.run_dir));
    tracing::info!(
        node = %app.raft.node_id(),
        name = config.name,
        api = %config.api.listen,
        peer = %config.peer.listen,
        version = env!("CARGO_PKG_VERSION"),
        "started"
    );

    let stop = app.stopping.clone();
    let tasks = TaskTracker::new();
    let socket = config.run_dir.join("api.sock");
    start_http(&app, api, &socket, &stop, &tasks)?;
    start_agent(&app, &config, data_dir, &stop, &tasks, vms)?;
    essential(&tasks, &stop, "leader", leader::run(app.raft.clone(), stop.clone()));
    essential(&tasks, &stop, "event log", event_log::run(app.raft.clone(), stop.clone()));
    tasks.spawn(say_if_removed(app.clone(), data_dir.to_owned()));
    systemd::notify("READY=1");

    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping; running VMs are left alone");
    systemd::notify("STOPPING=1");
    stop.cancel();
    tasks.close();
    if tokio::time::timeout(std::time::Duration::from_secs(5), tasks.wait()).await.is_err() {
        tracing::warn!("some tasks did not end in time");
    }
    app.raft.stop().await;
    let _ = std::fs::remove_file(&socket);
    Ok(())
}

/// The driver to use, and why it is the simulated one if it is.
pub async fn hypervisor(config: &Config, data_dir: &Path) -> Result<Arc<dyn Hypervisor>> {
    let dir = vm_dir(data_dir);
    let settings = Settings {
        vm_dir: dir.clone(),
        run_dir: config.run_dir.clone(),
        shim: shim_command()?,
        vmm_binary: config.hypervisor.binary.clone(),
        firmware: config.hypervisor.firmware.clone(),
        vmm_user: None,
    };
    let simulated = |reason: String| -> Result<Arc<dyn Hypervisor>> {
        tracing::warn!(reason, "VMs are simulated: no guest runs on this node");
        Ok(Arc::new(Simulated::new(dir.clone(), reason)?))
    };
    match config.hypervisor.kind {
        HypervisorChoice::Simulated => simulated("asked for by configuration".to_owned()),
        HypervisorChoice::CloudHypervisor => Ok(Arc::new(CloudHypervisor::new(settings)?)),
        HypervisorChoice::Auto => match detect(settings.vmm_binary.as_deref()).await {
            Ok(_) => Ok(Arc::new(CloudHypervisor::new(settings)?)),
            Err(reason) => simulated(reason),
        },
    }
}

/// This very binary: daemon and shim are one program.
fn shim_command() -> Result<ShimCommand> {
    let exe = std::env::current_exe().context("cannot tell the path of this program")?;
    Ok(ShimCommand { exe, args: vec!["shim".into()] })
}

fn start_http(
    app: &Shared,
    api: TcpListener,
    socket: &Path,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> Result<()> {
    if std::os::unix::net::UnixStream::connect(socket).is_ok() {
        bail!(
            "another daemon uses {}: give each node on a machine its own --run-dir",
            socket.parent().unwrap_or(socket).display()
        );
    }
    // Left by a process that was killed.
    let _ = std::fs::remove_file(socket);
    let local =
        UnixListener::bind(socket).with_context(|| format!("cannot listen on {}", socket.display()))?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
    let router = http::router(app.clone());
    let (tcp, unix) = (router.clone(), router);
    let limits = listen::Limits::default();
    essential(tasks, stop, "REST", listen::serve(api, tcp, limits, stop.clone()));
    essential(tasks, stop, "local REST", listen::serve(local, unix, limits, stop.clone()));
    Ok(())
}

/// A task without which the daemon is a zombie that answers: should it end or panic, the process ends too, so
/// that the service manager starts a whole one. Running VMs do not notice.
fn essential(
    tasks: &TaskTracker,
    stop: &CancellationToken,
    name: &'static str,
    task: impl Future<Output = ()> + Send + 'static,
) {
    let stop = stop.clone();
    tasks.spawn(async move {
        let ended = AssertUnwindSafe(task).catch_unwind().await;
        if !stop.is_cancelled() {
            let how = if ended.is_err() { "panicked" } else { "ended" };
            tracing::error!(
                task = name,
                how,
                "the daemon cannot go on and exits; running VMs are left alone"
            );
            std::process::exit(holm_raft::EXIT_CODE);
        }
    });
}

/// A removed node can do nothing more: whoever reads its log should know, and know the way back.
async fn say_if_removed(app: Shared, data_dir: PathBuf) {
    let mut status = app.raft.status();
    let removed = tokio::select! {
        () = app.stopping.cancelled() => return,
        removed = status.wait_for(|status| status.removed) => removed.is_ok(),
    };
    if removed {
        tracing::error!(
            "this node was removed from the cluster and starts nothing any more; to make this host a new member, \
             stop the daemon, move {} away and run `holmd join`",
            data_dir.display()
        );
        systemd::notify("STATUS=removed from the cluster");
    }
}

/// Where this host's health is looked at.
fn places(config: &Config, data_dir: &Path, images: &Arc<ImageStore>) -> Places {
    let advertised = [config.peer.advertised(), config.api.advertised()];
    let advertised = advertised.iter().filter_map(|address| address.parse::<SocketAddr>().ok());
    let addresses = advertised.chain([config.peer.listen, config.api.listen]).map(|address| address.ip());
    let vmm = config.hypervisor.binary.as_deref().and_then(Path::file_name);
    Places {
        data_dir: data_dir.to_owned(),
        vm_dir: vm_dir(data_dir),
        run_dir: config.run_dir.clone(),
        images: images.clone(),
        addresses: addresses.collect(),
        vmm: vmm.unwrap_or("cloud-hypervisor".as_ref()).to_owned(),
        proc: "/proc".into(),
    }
}

fn start_agent(
    app: &Shared,
    config: &Config,
    data_dir: &Path,
    stop: &CancellationToken,
    tasks: &TaskTracker,
    vms_runtime: &Handle,
) -> Result<()> {
    let boot_id = holm_vmm::host::boot_id().context("cannot read the host's boot id")?;
    let here = Here {
        boot_id,
        peer_addr: config.peer.advertised(),
        api_addr: config.api.advertised(),
        ratios: config.inventory,
        set_apart: SetApart {
            cpus: config.cpu.dedicated_cpus().unwrap_or_default(),
            pci: config.pci.clone(),
        },
        firmware: config.hypervisor.firmware.clone(),
        cpu: Cpu::read(),
        places: places(config, data_dir, &app.images),
    };
    let images = Images::new(app.clone());
    adopt::tell_of_protection();
    tasks.spawn(vms::catch_up(app.clone(), stop.clone()));
    essential(tasks, stop, "node report", node_report::run(app.clone(), here, stop.clone()));
    essential(tasks, stop, "lease", lease::keeper::run(app.clone(), boot_id, stop.clone()));
    essential(tasks, stop, "fence", fence::run(app.clone(), boot_id, stop.clone()));
    let _on = vms_runtime.enter();
    essential(tasks, stop, "images", images::run(images.clone(), stop.clone()));
    essential(tasks, stop, "VMs", vms::run(app.clone(), images, boot_id, stop.clone()));
    Ok(())
}
