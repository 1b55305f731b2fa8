//! The help of every command, as golden files.

use crate::support::{World, check_golden};

const COMMANDS: [&[&str]; 58] = [
    &[],
    &["status"],
    &["ls"],
    &["show"],
    &["attachments"],
    &["export"],
    &["fetch"],
    &["thread"],
    &["search"],
    &["count"],
    &["index"],
    &["folders"],
    &["reply"],
    &["forward"],
    &["watch"],
    &["serve"],
    &["admin"],
    &["deliver"],
    &["lmtp"],
    &["flag"],
    &["tag"],
    &["expunge"],
    &["append"],
    &["copy"],
    &["move"],
    &["convert"],
    &["sync"],
    &["undo"],
    &["check"],
    &["spam"],
    &["spam", "train"],
    &["spam", "untrain"],
    &["spam", "retrain"],
    &["spam", "classify"],
    &["spam", "move"],
    &["spam", "dump"],
    &["spam", "load"],
    &["spam", "merge"],
    &["spam", "maintain"],
    &["spam", "stats"],
    &["spam", "tune"],
    &["spam", "daemon"],
    &["bogofilter"],
    &["bogoutil"],
    &["bogolexer"],
    &["cache"],
    &["cache", "populate"],
    &["cache", "status"],
    &["cache", "verify"],
    &["cache", "convert"],
    &["cache", "clear"],
    &["cache", "prune"],
    &["cache", "stores"],
    &["config"],
    &["config", "path"],
    &["config", "check"],
    &["demo"],
    &["completions"],
];

#[test]
fn every_command_explains_itself() {
    let world = World::new();
    for command in COMMANDS.into_iter().chain([&["man"][..]]) {
        let name = [&["barid"], command].concat().join("-");
        let help = world.ok(&[command, &["--help"]].concat());
        check_golden(&format!("help/{name}.txt"), &help);
        let short = world.ok(&[command, &["-h"]].concat());
        // bogofilter's programs have a single help text.
        let is_short = short.len() < help.len() || name.starts_with("barid-bogo");
        assert!(is_short && short.contains("Usage: barid"), "{name}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{name}");
        assert!(!help.contains("[env:"), "{name}");
    }
}

#[test]
fn commands_that_do_something_show_examples() {
    let world = World::new();
    for command in COMMANDS {
        let help = world.ok(&[command, &["--help"]].concat());
        assert!(help.contains("\nExamples:\n  barid "), "{command:?}");
    }
}

#[test]
fn wrong_usage_is_a_failure() {
    let world = World::new();
    for args in [&[][..], &["nope"], &["ls"], &["ls", "x", "--sort", "age"], &["show", "x", "0"]] {
        let run = world.run(args);
        assert_eq!(run.code, 2, "{args:?}");
        assert!(run.stdout.is_empty() && !run.stderr.is_empty(), "{args:?}");
    }
    let wrong = world.run(&["ls", "x", "--sort", "age"]).stderr;
    assert!(wrong.contains("unknown sort key") && wrong.contains("displayfrom"), "{wrong}");
}

#[test]
fn help_is_a_command_too() {
    let world = World::new();
    assert_eq!(world.ok(&["help"]), world.ok(&["--help"]));
    assert_eq!(world.ok(&["help", "ls"]), world.ok(&["ls", "--help"]));
    assert_eq!(world.ok(&["help", "cache", "clear"]), world.ok(&["cache", "clear", "--help"]));
    let run = world.run(&["cp", "a", "b"]);
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("`barid copy`") && !run.stderr.contains("convert"),
        "{}",
        run.stderr
    );
}

#[test]
fn an_option_that_would_do_nothing_is_refused() {
    let world = World::new();
    for args in [
        &["show", "x", "1", "-o", "out"][..],
        &["show", "x", "1", "--headers", "-o", "out"],
        &["show", "x", "1", "--structure", "-o", "out"],
        &["show", "x", "1", "--raw", "--json"],
        &["show", "x", "1", "--part", "1", "--json"],
        &["thread", "x", "--uid"],
        &["thread", "x", "--uid", "--newest", "1"],
        &["thread", "x", "--uid", "--json"],
        &["ls", "x", "--rfc822-size"],
    ] {
        let run = world.run(args);
        assert_eq!(run.code, 2, "{args:?}");
        assert!(run.stderr.contains("Usage: "), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn manual_pages_cover_every_command() {
    let world = World::new();
    world.ok(&["man", "pages/man1"]);
    let pages = world.list("pages/man1");
    for command in COMMANDS {
        let name = [&["barid"], command].concat().join("-");
        assert!(pages.contains(&format!("{name}.1")), "{name} is not among {pages:?}");
    }
    let page = String::from_utf8(world.read("pages/man1/barid-ls.1")).unwrap();
    assert!(page.contains(".TH barid-ls 1") && page.contains("\\-\\-sort"), "{page}");
    for command in COMMANDS {
        let name = [&["barid"], command].concat().join("-");
        let page = String::from_utf8(world.read(&format!("pages/man1/{name}.1"))).unwrap();
        // The help of bogofilter's programs is in bogofilter's form.
        let has_examples = page.contains("\n.SH \"EXAMPLES\"\n") || name.starts_with("barid-bogo");
        assert!(has_examples && !page.contains("EXTRA"), "{page}");
    }
}
