//! What a harness that was killed left behind, and what belongs to one that lives: each folder and namespace
//! names its owner by pid and start time. The next start removes what has no living owner, and nothing else.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use nix::mount::{MntFlags, umount2};

use super::netns;
use super::process::Process;
use super::scratch;

/// Names the owner of a folder. Absent where the folder is to stay.
const MARK: &str = ".owner";

/// This process, as it marks what is its own.
///
/// # Errors
/// When it cannot be told.
pub fn owner() -> Result<String> {
    let pid = i32::try_from(std::process::id())?;
    let this = Process::find(pid).context("this process is not in /proc")?;
    Ok(format!("{pid}-{}", this.start_ticks))
}

/// Marks a folder as this process' own.
///
/// # Errors
/// When it cannot be marked.
pub fn own(folder: &Path) -> Result<()> {
    fs::write(folder.join(MARK), owner()?).context("cannot mark a folder")
}

/// The folder is to stay.
pub fn disown(folder: &Path) {
    let _ = fs::remove_file(folder.join(MARK));
}

/// Removes what a dead harness left.
pub fn remove() {
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let folder = entry.path();
        let ours = entry.file_name().to_string_lossy().starts_with(scratch::PREFIX);
        if ours && fs::read_to_string(folder.join(MARK)).is_ok_and(|owner| is_dead(&owner)) {
            eprintln!("holm-jepsen: removes {}, left behind by a run that was killed", folder.display());
            remove_folder(&folder);
        }
    }
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.strip_prefix(netns::PREFIX).is_some_and(is_dead) {
            let _ = Command::new("ip").args(["netns", "del", &name]).status();
        }
    }
}

fn remove_folder(folder: &Path) {
    scratch::end_all(folder);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for at in mounts.lines().filter_map(|line| line.split(' ').nth(1)) {
        if Path::new(at).starts_with(folder) {
            let _ = umount2(at, MntFlags::MNT_DETACH);
        }
    }
    let mut listed = Command::new("losetup");
    let listed = netns::call(listed.args(["--list", "--noheadings", "--output", "NAME,BACK-FILE"]));
    for line in listed.unwrap_or_default().lines() {
        let mut fields = line.split_whitespace();
        if let (Some(device), Some(file)) = (fields.next(), fields.next())
            && Path::new(file).starts_with(folder)
        {
            let _ = Command::new("losetup").args(["--detach", device]).status();
        }
    }
    if let Err(error) = fs::remove_dir_all(folder) {
        eprintln!("holm-jepsen: cannot remove {}: {error}", folder.display());
    }
}

/// `pid-start` or `pid-start-more`, of a process that is gone. What cannot be read belongs to somebody.
fn is_dead(owner: &str) -> bool {
    let mut parts = owner.trim().split('-');
    let (Some(Ok(pid)), Some(Ok(start))) =
        (parts.next().map(str::parse::<i32>), parts.next().map(str::parse::<u64>))
    else {
        return false;
    };
    Process::find(pid).is_none_or(|now| now.start_ticks != start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_and_the_unreadable_are_not_dead() {
        let this = owner().unwrap();
        assert!(!is_dead(&this));
        assert!(!is_dead(&format!("{this}-ab12-n1")));
        assert!(!is_dead("somebody's"));
        let (pid, _) = this.split_once('-').unwrap();
        assert!(is_dead(&format!("{pid}-1")));
    }
}
