//! Output on a terminal: lines are cut, colours are on, control characters are made visible.

use std::process::Command;

use barid_testkit::skip_or_fail;

use crate::support::World;

const MAIL: &str = "\
From: A Sender With Quite A Long Name <a@b.example>
Subject: a subject that is much too long for a narrow terminal, with \x1b[31m in it
Date: Tue, 5 Mar 2024 12:22:10 +0000

body \x1b[31m
";

/// Runs the program on a terminal of 60 columns; returns the output.
fn on_terminal(world: &World, setup: &str, args: &str) -> Option<String> {
    let program = env!("CARGO_BIN_EXE_barid");
    let line = format!("stty cols 60 rows 20; {setup} {program} {args}");
    let mut command = Command::new("script");
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C.UTF-8");
    command.env("HOME", world.path("home")).current_dir(world.path("."));
    command.args(["-qec", &line, "/dev/null"]);
    let Ok(output) = command.output() else {
        skip_or_fail("the program `script` of util-linux");
        return None;
    };
    let text = String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n");
    assert!(output.status.success(), "{text}");
    Some(text)
}

#[test]
fn lines_are_cut_to_the_width() {
    let world = World::new();
    let path = world.maildir("box", &[MAIL]);
    let Some(text) = on_terminal(&world, "NO_COLOR=1", &format!("ls {path}")) else { return };
    let expected = "1  -----  2024-03-05 12:22  A Sender With …  a subject that…\n";
    assert_eq!(text, expected);
    assert_eq!(text.trim_end().chars().count(), 60);
}

#[test]
fn colours_are_on_unless_they_are_not_wanted() {
    let world = World::new();
    let path = world.maildir("box", &[MAIL]);
    let colored = |setup: &str, args: &str| {
        let text = on_terminal(&world, setup, &format!("{args} {path}"))?;
        Some(text.contains('\x1b'))
    };
    let Some(by_default) = colored("", "ls") else { return };
    assert!(by_default);
    assert_eq!(colored("NO_COLOR=1", "ls"), Some(false));
    assert_eq!(colored("TERM=dumb", "ls"), Some(false));
    assert_eq!(colored("", "ls --color never"), Some(false));
    assert_eq!(colored("NO_COLOR=1", "ls --color always"), Some(true));
    assert_eq!(colored("", "ls --json"), Some(false));
}

#[test]
fn raw_bytes_are_made_visible() {
    let world = World::new();
    let path = world.maildir("box", &[MAIL]);
    let Some(text) = on_terminal(&world, "", &format!("show --raw {path} 1")) else { return };
    assert!(text.ends_with("\n\nbody ^[[31m\n") && !text.contains('\x1b'), "{text:?}");
}
