//! Outside: builds the emulated machines, runs them, and reads on their serial consoles how the test goes.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use super::guest::{FAILED, HOSTS, MODULES_DIR, PASSED, ROLE, SAYS};
use super::initramfs::{self, Archive};
use super::target;

/// The test, as filters name it.
pub const NAME: &str = "the_disk_itself_refuses_the_writer_of_an_older_epoch";
/// An emulated machine boots in seconds, on a busy host in a minute or two.
const PATIENCE: Duration = Duration::from_secs(240);

/// What the machines are made of.
struct Kernel {
    image: PathBuf,
    /// By what the machine is.
    modules: Vec<(&'static str, Vec<PathBuf>)>,
}

pub fn main() {
    match kernel() {
        Ok(kernel) => test(&kernel),
        Err(why) => println!("SKIPPED: {NAME}: {why}"),
    }
}

/// A kernel whose modules are there too.
fn kernel() -> Result<Kernel, String> {
    if !Command::new("qemu-system-x86_64").arg("--version").output().is_ok_and(|out| out.status.success()) {
        return Err("qemu-system-x86_64 is not installed".to_owned());
    }
    let root = std::env::var_os("HOLM_GUEST_ROOT").map_or(PathBuf::from("/"), PathBuf::from);
    let mut versions: Vec<_> = std::fs::read_dir(root.join("lib/modules"))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|version| root.join("boot").join(format!("vmlinuz-{version}")).is_file())
        .collect();
    versions.sort();
    let version = versions.pop().ok_or_else(|| {
        format!(
            "{} has no kernel with modules (package linux-image-amd64), nor is HOLM_GUEST_ROOT set",
            root.display()
        )
    })?;
    let of =
        |(role, wanted)| Ok((role, initramfs::modules(&root.join("lib/modules").join(&version), wanted)?));
    let modules = [target::ROLE, HOSTS].map(of).into_iter().collect::<Result<_, String>>()?;
    Ok(Kernel { image: root.join("boot").join(format!("vmlinuz-{version}")), modules })
}

fn test(kernel: &Kernel) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let initrd = dir.path().join("initrd");
    std::fs::write(&initrd, root_fs(kernel)).expect("initial file system");
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free.expect("a free port").port();

    let forward = format!("user,model=e1000,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:{}", target::PORT);
    let mut disk = Machine::start(kernel, &initrd, target::ROLE.0, &["-nic".to_owned(), forward]);
    assert!(disk.says(|said| said == target::READY), "no target:\n{}", disk.seen.join("\n"));
    let mut hosts = Machine::start(kernel, &initrd, HOSTS.0, &disks(port));
    let ended = |said: &str| said == PASSED || said == FAILED;
    let passed = hosts.says(ended) && hosts.last == PASSED;
    assert!(passed, "{NAME} failed; the console:\n{}", hosts.seen.join("\n"));
    println!("test {NAME} ... ok");
}

/// The disk twice, through an initiator each; commands go to it as they are.
fn disks(port: u16) -> Vec<String> {
    let mut args =
        vec!["-nic".to_owned(), "none".to_owned(), "-device".to_owned(), "virtio-scsi-pci".to_owned()];
    for (number, initiator) in target::INITIATORS.iter().enumerate() {
        let to = format!("transport=tcp,portal=127.0.0.1:{port},target={},lun=0", target::NAME);
        args.push("-blockdev".to_owned());
        args.push(format!("driver=iscsi,node-name=disk{number},initiator-name={initiator},{to}"));
        args.push("-device".to_owned());
        args.push(format!("scsi-block,drive=disk{number},share-rw=on"));
    }
    args
}

fn root_fs(kernel: &Kernel) -> Vec<u8> {
    let program = std::env::current_exe().expect("this program");
    let mut archive = Archive::default();
    archive.file(Path::new("/init"), &std::fs::read(&program).expect("this program"));
    for library in initramfs::libraries(&program).expect("ldd") {
        archive.file(&library, &std::fs::read(&library).expect("library"));
    }
    for (role, modules) in &kernel.modules {
        for (number, module) in modules.iter().enumerate() {
            let at = Path::new(MODULES_DIR).join(role).join(format!("{number:02}.ko"));
            archive.file(&at, &initramfs::module(module).expect("module"));
        }
    }
    archive.finish()
}

/// An emulated machine; it ends with this value.
struct Machine {
    qemu: Child,
    console: Receiver<String>,
    /// Every line so far.
    seen: Vec<String>,
    /// What it said last.
    last: String,
}

impl Machine {
    fn start(kernel: &Kernel, initrd: &Path, role: &str, args: &[String]) -> Self {
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-accel", "tcg", "-cpu", "max", "-m", "512", "-display", "none", "-monitor", "none"]);
        qemu.args(["-serial", "stdio", "-no-reboot"]).args(args);
        qemu.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(initrd);
        // On a busy host an emulated timer may tick too late for the kernel's check of it.
        qemu.arg("-append")
            .arg(format!("console=ttyS0 quiet panic=-1 no_timer_check net.ifnames=0 {ROLE}{role}"));
        let mut qemu = qemu.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("qemu starts");
        let console = BufReader::new(qemu.stdout.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        // It ends with the machine.
        std::thread::spawn(move || {
            for line in console.split(b'\n').map_while(Result::ok) {
                let _ = sender.send(String::from_utf8_lossy(&line).trim().to_owned());
            }
        });
        Self { qemu, console: lines, seen: Vec::new(), last: String::new() }
    }

    /// Shows what it says until it says what is `wanted`; false when it ends or falls silent.
    fn says(&mut self, wanted: impl Fn(&str) -> bool) -> bool {
        while let Ok(line) = self.console.recv_timeout(PATIENCE) {
            if let Some(at) = line.find(SAYS) {
                self.last = line[at + SAYS.len()..].to_owned();
                println!("  {}", self.last);
            }
            self.seen.push(line);
            if wanted(&self.last) {
                return true;
            }
        }
        false
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}
