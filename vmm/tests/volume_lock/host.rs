//! Outside: builds the emulated machine, runs it, and reads on its serial console how the test went.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::guest::{FAILED, MODULES, MODULES_DIR, PASSED, SAYS};
use super::initramfs::{self, Archive};

/// The test, as filters name it.
pub const NAME: &str = "the_disk_itself_refuses_the_writer_of_an_older_epoch";
/// An emulated machine boots in seconds, on a busy host in a minute or two.
const PATIENCE: Duration = Duration::from_secs(480);

/// What the machine is made of.
struct Kernel {
    image: PathBuf,
    modules: Vec<PathBuf>,
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
    versions.retain(|version| is_new_enough(version));
    let version = versions.pop().ok_or_else(|| {
        format!(
            "{} has no kernel of Linux 6.7 or later with modules (package linux-image-amd64), nor is HOLM_GUEST_ROOT set",
            root.display()
        )
    })?;
    let modules = initramfs::modules(&root.join("lib/modules").join(&version), MODULES)?;
    Ok(Kernel { image: root.join("boot").join(format!("vmlinuz-{version}")), modules })
}

/// Before Linux 6.7 the target, looped back, waits for itself when it is to abort something.
fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split(['.', '-', '+']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(7))
}

fn test(kernel: &Kernel) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let initrd = dir.path().join("initrd");
    std::fs::write(&initrd, root_fs(kernel)).expect("initial file system");
    let mut machine = Machine::start(&kernel.image, &initrd);
    let console = machine.0.stdout.take().expect("piped");
    let (sender, lines) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(console).split(b'\n').map_while(Result::ok) {
            let _ = sender.send(String::from_utf8_lossy(&line).trim().to_owned());
        }
    });
    let mut seen = Vec::new();
    let passed = loop {
        let Ok(line) = lines.recv_timeout(PATIENCE) else { break false };
        if let Some(said) = line.find(SAYS).map(|at| line[at + SAYS.len()..].to_owned()) {
            println!("  {said}");
            if said.starts_with(PASSED) || said.starts_with(FAILED) {
                break said.starts_with(PASSED);
            }
        }
        seen.push(line);
    };
    drop(machine);
    reader.join().expect("the reader ends with the machine");
    assert!(passed, "{NAME} failed; the machine's console:\n{}", seen.join("\n"));
    println!("test {NAME} ... ok");
}

fn root_fs(kernel: &Kernel) -> Vec<u8> {
    let program = std::env::current_exe().expect("this program");
    let mut archive = Archive::default();
    archive.file(Path::new("/init"), &std::fs::read(&program).expect("this program"));
    for library in initramfs::libraries(&program).expect("ldd") {
        archive.file(&library, &std::fs::read(&library).expect("library"));
    }
    for (number, module) in kernel.modules.iter().enumerate() {
        let at = Path::new(MODULES_DIR).join(format!("{number:02}.ko"));
        archive.file(&at, &initramfs::module(module).expect("module"));
    }
    archive.finish()
}

/// The emulated machine; it ends with this value.
struct Machine(Child);

impl Machine {
    fn start(kernel: &Path, initrd: &Path) -> Self {
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-accel", "tcg", "-cpu", "max", "-m", "1024", "-display", "none", "-monitor", "none"]);
        qemu.args(["-serial", "stdio", "-no-reboot", "-nic", "none"]);
        qemu.arg("-kernel").arg(kernel).arg("-initrd").arg(initrd);
        qemu.args(["-append", "console=ttyS0 quiet panic=-1"]);
        Self(qemu.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("qemu starts"))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
