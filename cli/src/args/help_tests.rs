//! The command line as its users read it, kept as golden files, and clap's own check of the definitions.

use clap::{Command, CommandFactory, Parser};

use super::*;

#[test]
fn the_definitions_are_consistent() {
    Cli::command().debug_assert();
}

/// The help of `command` and of everything below it.
fn help(command: &mut Command, path: &str, text: &mut String) {
    let path = format!("{path} {}", command.get_name());
    *text += &format!("$ {} --help\n{}\n", path.trim(), command.render_long_help());
    for below in command.get_subcommands_mut().filter(|below| below.get_name() != "help") {
        help(below, &path, text);
    }
}

#[test]
fn the_help_of_every_command() {
    let mut command = Cli::command().term_width(100);
    command.build();
    for noun in command.get_subcommands_mut().filter(|noun| noun.get_name() != "help") {
        let name = noun.get_name().to_owned();
        let mut text = String::new();
        help(noun, "holm", &mut text);
        insta::assert_snapshot!(format!("help_{name}"), text);
    }
    insta::assert_snapshot!("help", command.render_long_help().to_string());
}

#[test]
fn wait_is_the_default_and_the_last_word_counts() {
    let limit = |args: &[&str]| {
        let words = ["holm", "vm", "start", "web"].into_iter().chain(args.iter().copied());
        let Noun::Vm(vm::Verb::Start(typed)) = Cli::try_parse_from(words).unwrap().noun else { panic!() };
        typed.wait.limit().map(|limit| limit.as_secs())
    };
    assert_eq!(limit(&[]), Some(900));
    assert_eq!(limit(&["--timeout", "90s"]), Some(90));
    assert_eq!(limit(&["--no-wait"]), None);
    assert_eq!(limit(&["--no-wait", "--wait"]), Some(900));
}

#[test]
fn endpoints_are_repeated_or_separated_by_commas() {
    let cli = Cli::try_parse_from(["holm", "check", "--endpoint", "a:1,b:2", "--endpoint", "c:3"]).unwrap();
    assert_eq!(cli.global.endpoints, ["a:1", "b:2", "c:3"]);
}
