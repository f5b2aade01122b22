//! Whether a program was replaced on disk while it runs. A package manager renames the new file over the old one;
//! the kernel then calls the file that runs `PATH (deleted)`.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::facts::Binaries;

const DELETED: &[u8] = b" (deleted)";

/// What runs and was replaced, by the links in `proc`. VMMs are programs named `vmm`.
pub fn look(proc: &Path, vmm: &OsStr) -> Binaries {
    let holmd = replaced(&proc.join("self/exe")).is_some();
    let mut processes = std::fs::read_dir(proc)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().as_bytes().iter().all(u8::is_ascii_digit));
    let vmm = processes
        .any(|entry| replaced(&entry.path().join("exe")).is_some_and(|path| path.file_name() == Some(vmm)));
    Binaries { holmd, vmm }
}

/// The path of a program whose file there is another one by now.
fn replaced(exe: &Path) -> Option<PathBuf> {
    let link = std::fs::read_link(exe).ok()?.into_os_string().into_vec();
    let path = PathBuf::from(std::ffi::OsString::from_vec(link.strip_suffix(DELETED)?.to_vec()));
    // One that was only removed has no successor to be used.
    path.exists().then_some(path)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// A program that runs until dropped.
    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_program_that_is_replaced_while_it_runs_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("vmm-of-this-test");
        let copy = |to: &Path| std::fs::copy("/bin/sleep", to).unwrap();
        copy(&program);
        let _running = Sleeper(Command::new(&program).arg("600").spawn().unwrap());
        let look = || look(Path::new("/proc"), program.file_name().unwrap()).vmm;
        assert!(!look());
        let newer = dir.path().join("newer");
        copy(&newer);
        std::fs::rename(&newer, &program).unwrap();
        assert!(look());
        std::fs::remove_file(&program).unwrap();
        assert!(!look(), "there is no other to be used");
    }
}
