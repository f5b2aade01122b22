//! The commands that the scheduler's advice names: each is one that this program takes, so that a renamed option cannot
//! leave advice behind that is wrong. Read as text, since this program knows nothing of the scheduler.

use std::path::Path;

use clap::Parser;
use clap::error::ErrorKind;

use super::Cli;

/// What the scheduler's tests say, by file: explanations of realistic clusters, and every advice there is.
fn texts() -> Vec<(String, String)> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sched/tests");
    let fixtures = std::fs::read_dir(tests.join("fixtures")).expect("the fixtures are there");
    let paths = fixtures.map(|entry| entry.expect("an entry").path()).chain([tests.join("advice.txt")]);
    let texts = paths.filter(|path| path.extension().is_some_and(|extension| extension == "txt"));
    texts.map(|path| (path.display().to_string(), std::fs::read_to_string(path).expect("text"))).collect()
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Whether this program takes `words`, in which `N` stands for a number and other capitals for names. What is named
/// without what belongs to it, such as `holm flavor create` or `--selector`, has to exist.
fn check(words: &[&str], what: &str) {
    let number = |word: &&str| word.replace("=N", "=1");
    let filled = words.iter().map(|word| if *word == "N" { "1".to_owned() } else { number(word) });
    match Cli::try_parse_from(filled).map_err(|error| (error.kind(), error)) {
        Ok(_) | Err((ErrorKind::MissingRequiredArgument, _)) => {}
        Err((ErrorKind::InvalidValue, _)) if words.last().is_some_and(|word| word.starts_with("--")) => {}
        Err((_, error)) => panic!("{what}: {error}"),
    }
}

#[test]
fn every_command_that_the_scheduler_advises_exists() {
    let mut checked = 0;
    for (path, text) in texts() {
        for command in quoted(&text) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let create = ["holm", "vm", "create", "NAME", "--flavor", "FLAVOR", "--image", "IMAGE"];
            match words.first() {
                Some(&"holm") => check(&words, &format!("{path}: {command}")),
                Some(option) if option.starts_with("--") => {
                    check(&[&create[..], &words].concat(), &format!("{path}: {command}"));
                }
                _ => continue,
            }
            checked += 1;
        }
    }
    assert!(checked > 50, "only {checked} commands were found");
}
