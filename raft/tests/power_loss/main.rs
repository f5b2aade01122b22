//! Power loss under load: what the store acknowledged is there afterwards, always; after a kill too. And the proof
//! that this test would notice: with the fsync left out, or with values unsplit, it fails.
//!
//! `HOLM_POWER_CUTS=50 cargo test -p holm-raft --test power_loss -- --nocapture` makes more cuts than the 10 of CI.

mod image;
mod loader;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use holm_raft::{Identity, faults, store};
use image::Image;
use loader::VoteTerm;
use openraft::entry::RaftEntry;
use openraft::storage::{RaftLogReader, RaftLogStorage};
use serde::{Deserialize, Serialize};

const DIR: &str = "HOLM_POWER_LOSS_DIR";
const FAULT: &str = "HOLM_POWER_LOSS_FAULT";
const CHECK: &str = "HOLM_POWER_LOSS_CHECK";
/// Cuts on one store before the next begins with a new one.
const CUTS_A_STORE: usize = 5;

/// What the loader said was durable.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Acknowledged {
    entry: Option<u64>,
    entries: u64,
    vote: u64,
    purged: Option<u64>,
}

struct Loader(Child);

impl Drop for Loader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test by itself: the others start it as a process of its own, to load a store or to check it. Checking
/// too may end the process, as a damaged store must.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    match std::env::var(FAULT).as_deref() {
        Ok("skip-sync") => faults::skip_sync(),
        Ok("whole-values") => faults::keep_values_whole(),
        _ => {}
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let Ok(acknowledged) = std::env::var(CHECK) {
        let acknowledged = serde_json::from_str(&acknowledged).unwrap();
        let checked = runtime.block_on(check(Path::new(&dir), &acknowledged));
        checked.unwrap_or_else(|error| panic!("{error:#}"));
    } else {
        let ended = runtime.block_on(loader::load(Path::new(&dir)));
        println!("\nENDED {ended:?}");
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_the_power_fails() {
    let Some(mut image) = image_or_skip("nothing_acknowledged_is_lost_when_the_power_fails") else { return };
    let cuts = std::env::var("HOLM_POWER_CUTS").ok().map_or(10, |cuts| cuts.parse().unwrap());
    let mut entries = 0;
    for cut in 0..cuts {
        let acknowledged = cut_and_check(&mut image, cut, None)
            .unwrap_or_else(|error| panic!("cut {cut} of {cuts} lost something: {error:#}"));
        entries += acknowledged.entries;
    }
    eprintln!("{cuts} power cuts, {entries} entries acknowledged, none lost");
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..5 {
        let after = Duration::from_millis(100 + 50 * round);
        let acknowledged = load_until(|| Ok(()), dir.path(), after, None).unwrap();
        check_apart(dir.path(), &acknowledged, None).unwrap();
    }
}

#[test]
fn without_fsync_the_test_fails() {
    let Some(mut image) = image_or_skip("without_fsync_the_test_fails") else { return };
    expect_loss(&mut image, "skip-sync");
}

#[test]
fn with_unsplit_values_the_test_fails() {
    let Some(mut image) = image_or_skip("with_unsplit_values_the_test_fails") else { return };
    expect_loss(&mut image, "whole-values");
}

fn expect_loss(image: &mut Image, fault: &str) {
    const CUTS: usize = 20;
    for cut in 0..CUTS {
        // A new store each time: what one cut broke must not count for the next.
        if let Err(error) = cut_and_check(image, cut * CUTS_A_STORE, Some(fault)) {
            eprintln!("{fault}: cut {cut} was noticed: {error:#}");
            return;
        }
    }
    panic!("{CUTS} power cuts with {fault} went unnoticed: this test proves nothing");
}

fn image_or_skip(test: &str) -> Option<Image> {
    // The cut is tried once, so that a kernel without it skips instead of failing.
    let usable = Image::new().and_then(|mut image| {
        image.cut_power()?;
        image.unmount()?;
        image.mount()?;
        Ok(image)
    });
    usable
        .inspect_err(|error| {
            // Past libtest's capture, which hides what passing tests print.
            drop(std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("SKIPPED: {test}: {error:#}\n"),
            ))
        })
        .ok()
}

/// Loads, cuts, and looks what is left.
fn cut_and_check(image: &mut Image, cut: usize, fault: Option<&str>) -> Result<Acknowledged> {
    let data_dir = image.mount_point().join(format!("store-{}", cut / CUTS_A_STORE));
    if cut.is_multiple_of(CUTS_A_STORE) {
        for old in std::fs::read_dir(image.mount_point())?.flatten() {
            if old.file_name().to_string_lossy().starts_with("store-") {
                std::fs::remove_dir_all(old.path())?;
            }
        }
    }
    let after = Duration::from_millis(150 + 67 * (cut as u64 % 9));
    let acknowledged = load_until(|| image.cut_power(), &data_dir, after, fault)?;
    image.unmount()?;
    image.mount()?;
    check_apart(&data_dir, &acknowledged, fault)?;
    Ok(acknowledged)
}

/// In a process of its own, which a damaged store may end.
fn check_apart(data_dir: &Path, acknowledged: &Acknowledged, fault: Option<&str>) -> Result<()> {
    let checked =
        child_process(data_dir, fault)?.env(CHECK, serde_json::to_string(acknowledged)?).output()?;
    let said = String::from_utf8_lossy(&checked.stderr);
    let why = said
        .lines()
        .filter(|line| !line.trim_start().starts_with("at "))
        .take(6)
        .collect::<Vec<_>>()
        .join(" ");
    ensure!(checked.status.success(), "{acknowledged:?}: {}: {why}", checked.status);
    Ok(())
}

fn child_process(data_dir: &Path, fault: Option<&str>) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(DIR, data_dir)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null());
    if let Some(fault) = fault {
        command.env(FAULT, fault);
    }
    Ok(command)
}

/// Kills the loader some time after its first acknowledgement, `cut` going before.
fn load_until(
    cut: impl Fn() -> Result<()>,
    data_dir: &Path,
    after: Duration,
    fault: Option<&str>,
) -> Result<Acknowledged> {
    let mut loader =
        Loader(child_process(data_dir, fault)?.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
    let output = loader.0.stdout.take().context("no output")?;
    let (said, lines) = mpsc::channel();
    std::thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).all(|line| said.send(line).is_ok())
    });

    let mut acknowledged = Acknowledged::default();
    let mut cut_at: Option<Instant> = None;
    let mut is_cut = false;
    loop {
        let patience = Duration::from_secs(30);
        let wait = cut_at.map_or(patience, |at| at.saturating_duration_since(Instant::now()));
        match lines.recv_timeout(if is_cut { patience } else { wait }) {
            // Without its disk it may well end.
            Ok(line) if is_cut && line.starts_with("ENDED") => {}
            Ok(line) => {
                // Counted from the first acknowledgement, so that there always is something to lose.
                if note(&mut acknowledged, &line)? && cut_at.is_none() {
                    cut_at = Some(Instant::now() + after);
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) if cut_at.is_some() && !is_cut => {
                cut()?;
                is_cut = true;
                loader.0.kill()?;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => bail!("the loader says nothing"),
            Err(mpsc::RecvTimeoutError::Disconnected) if is_cut => break,
            Err(mpsc::RecvTimeoutError::Disconnected) => bail!("the loader ended by itself"),
        }
    }
    loader.0.wait()?;
    Ok(acknowledged)
}

/// True when the line acknowledges an entry.
fn note(acknowledged: &mut Acknowledged, line: &str) -> Result<bool> {
    let Some((word, value)) = line.split_once(' ') else { return Ok(false) };
    match word {
        "ENTRY" => {
            acknowledged.entry = Some(value.parse()?);
            acknowledged.entries += 1;
        }
        "VOTE" => acknowledged.vote = value.parse()?,
        "PURGED" => acknowledged.purged = Some(value.parse()?),
        "ENDED" => bail!("the loader ended by itself: {value}"),
        _ => {}
    }
    Ok(word == "ENTRY")
}

async fn check(data_dir: &Path, acknowledged: &Acknowledged) -> Result<()> {
    let mut log = store::open(data_dir, &Identity::load(data_dir)?)?;
    let state = log.get_log_state().await?;
    let last = state.last_log_id.map(|log_id| log_id.index);
    ensure!(last >= acknowledged.entry, "the log ends at {last:?}");
    let purged = state.last_purged_log_id.map(|log_id| log_id.index);
    ensure!(purged >= acknowledged.purged, "purged up to {purged:?} only");
    let vote = log.read_vote_term().await?;
    ensure!(vote >= acknowledged.vote, "the vote is of term {vote}");
    let first = purged.map_or(0, |purged| purged + 1);
    for index in first..last.map_or(0, |last| last + 1) {
        let read = log.try_get_log_entries(index..=index).await?;
        ensure!(read.first().is_some_and(|entry| entry.index() == index), "no entry {index}");
        ensure!(read[0] == loader::entry(index), "entry {index} is not what was written");
    }
    log.close().await;
    Ok(())
}
