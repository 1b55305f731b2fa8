//! The configuration of the program, as it is used and as it is shown.

use std::process::Command;

use crate::support::{Run, World, parse_lines};

const MESSAGES: [&str; 3] = [
    "From: ann@x.example\nSubject: alpha\nDate: Tue, 5 Mar 2024 12:00:00 +0000\n\none\n",
    "From: bob@x.example\nSubject: beta\nDate: Mon, 4 Mar 2024 12:00:00 +0000\n\ntwo\n",
    "From: ann@x.example\nSubject: gamma\nDate: Wed, 6 Mar 2024 12:00:00 +0000\n\nthree\n",
];

/// A world with a Maildir `inbox`, and a configuration file with `{}` for the folder of both.
fn world(text: &str) -> World {
    let world = World::new();
    world.maildir("inbox", &MESSAGES);
    write(&world, text);
    world
}

fn write(world: &World, text: &str) {
    let folder = world.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    world.write("home/.config/barid/config.toml", text.replace("{}", &folder).as_bytes());
}

fn run_with(world: &World, variables: &[(&str, &str)], args: &[&str]) -> Run {
    let mut command: Command = world.command();
    command.envs(variables.iter().copied()).args(args);
    Run::of(command.output().unwrap())
}

/// Runs a command that must succeed quietly, and returns the subjects or other last words of its
/// lines.
fn last_words(world: &World, args: &[&str]) -> Vec<String> {
    let text = world.ok(args);
    text.lines().filter_map(|line| line.split(' ').next_back().map(str::to_owned)).collect()
}

fn check_error(world: &World, args: &[&str], parts: &[&str]) {
    let run = world.run(args);
    assert_eq!((run.code, run.text().as_str()), (2, ""), "{args:?}: {}", run.stderr);
    for part in parts {
        assert!(run.stderr.contains(part), "{args:?}: {part} is not in {}", run.stderr);
    }
}

#[test]
fn mailboxes_have_names_wherever_one_is_named() {
    let world = world(
        "mailbox = \"@mine\"\n[mailboxes]\nmine = \"maildir:{}/inbox\"\n\
         [account.work]\nroot = \"{}/tree\"\n[special]\narchive = \"mbox:{}/old\"\n",
    );
    world.maildir("tree/Lists", &MESSAGES[..1]);
    let all = ["alpha", "beta", "gamma"];
    assert_eq!(last_words(&world, &["ls", "@mine"]), all);
    assert_eq!(last_words(&world, &["ls", "@"]), all);
    assert_eq!(last_words(&world, &["ls"]), all);
    assert_eq!(last_words(&world, &["ls", "--limit", "1"]), ["gamma"]);
    assert_eq!(last_words(&world, &["ls", "@work/Lists"]), ["alpha"]);
    assert_eq!(world.ok(&["search", "@", "from:ann"]), "1,3\n");
    assert!(world.ok(&["folders", "@work"]).contains("Lists"));
    world.ok(&["copy", "@", "2", "@archive", "--create"]);
    assert_eq!(last_words(&world, &["ls", "@archive"]), ["beta"]);
    world.ok(&["copy", "@work/Lists", "all", "@archive"]);
    assert_eq!(last_words(&world, &["ls", "@archive"]), ["alpha", "beta"]);
    let status = world.json(&["status"]);
    assert_eq!((&status[0]["path"], &status[0]["messages"]), (&"@".into(), &3.into()));
    check_error(&world, &["ls", "@min"], &["@min: no mailbox", "did you mean `mine`?", "@archive"]);
    // A file of that name stays one.
    world.maildir("@file", &MESSAGES[..1]);
    assert_eq!(last_words(&world, &["ls", "@file"]), ["alpha"]);
    assert_eq!(
        run_with(&world, &[("BARID_MAILBOX", "@archive")], &["ls"]).text().lines().count(),
        2
    );
}

#[test]
fn without_a_configuration_its_place_is_named() {
    let world = World::new();
    check_error(&world, &["ls"], &["<MAILBOX>", "tip: `mailbox = \"PATH\"`", "barid config path"]);
    check_error(&world, &["ls", "@"], &["none is set", "home/.config/barid/config.toml"]);
    check_error(&world, &["ls", "@x"], &["`[mailboxes]`, then `x = \"PATH\"`", "`./@x`"]);
    check_error(&world, &["search", "b", "query:x"], &["is not a saved query", "`[queries]`"]);
    let path = world.run(&["config", "path"]);
    assert_eq!(path.code, 1);
    assert!(path.text().ends_with("/home/.config/barid/config.toml\n"), "{}", path.text());
    assert!(world.ok(&["config"]).contains("does not exist"));
    assert!(world.ok(&["config", "check"]).contains("does not exist"));
    check_error(&world, &["ls", "x", "--config-file", "no.toml"], &["no.toml:1:1: "]);
}

#[test]
fn saved_queries_are_terms_of_queries() {
    let world = world(
        "mailbox = \"{}/inbox\"\n[queries]\nann = \"from:ann\"\nearly = \"before:2024-03-06\"\n\
         both = \"query:ann query:early\"\nimap = \"FROM bob\"\n",
    );
    for (query, expected) in [
        (&["query:ann"][..], "1,3\n"),
        (&["query:ann", "query:early"], "1\n"),
        (&["query:both"], "1\n"),
        (&["-query:both"], "2:3\n"),
        (&["(query:both or beta)"], "1:2\n"),
        (&["query:imap"], "2\n"),
    ] {
        assert_eq!(world.ok(&[&["search", "@"], query].concat()), expected, "{query:?}");
    }
    check_error(&world, &["search", "@", "query:an"], &["did you mean `ann`?", "ann, both, early"]);
    check_error(&world, &["expunge", "@", "query:non"], &["`query:non` is not a saved query"]);
    world.ok(&["expunge", "@", "query:both"]);
    assert_eq!(last_words(&world, &["ls"]), ["beta", "gamma"]);
}

#[test]
fn options_have_defaults_that_the_command_line_overrides() {
    let world = world(
        "mailbox = \"{}/inbox\"\n[options]\nquiet = false\nstate-dir = \"{}/kept\"\n\
         [options.ls]\nsort = [\"reverse:date\"]\nlimit = 2\n[options.search]\nlist = true\n",
    );
    assert_eq!(last_words(&world, &["ls"]), ["alpha", "beta"]);
    assert_eq!(last_words(&world, &["ls", "--sort", "subject"]), ["beta", "gamma"]);
    assert_eq!(last_words(&world, &["ls", "-n1"]), ["beta"]);
    // What is excluded by an option on the command line is left out.
    assert_eq!(last_words(&world, &["ls", "--first", "1"]), ["gamma"]);
    assert_eq!(last_words(&world, &["search", "@", "beta"]), ["beta"]);
    assert_eq!(world.ok(&["search", "@", "beta", "--count"]), "1\n");
    assert_eq!(last_words(&world, &["--no-defaults", "ls"]).len(), 3);
    assert_eq!(world.ok(&["search", "@", "beta", "--no-defaults"]), "2\n");
    assert!(world.has("kept"));
    let run = run_with(&world, &[("BARID_STATE_DIR", "other")], &["ls"]);
    assert_eq!((run.code, world.has("other")), (0, true), "{}", run.stderr);
    let run = run_with(&world, &[("BARID_STORE", "lmbd")], &["ls"]);
    assert!(run.code == 2 && run.stderr.contains("environment BARID_STORE: invalid value 'lmbd'"));
    assert!(run.stderr.contains("hint: change or unset BARID_STORE"), "{}", run.stderr);
}

#[test]
fn the_word_list_is_that_of_the_file() {
    let world = world("[spam]\nwordlist = \"~/words.db\"\n");
    world.ok(&["spam", "train", "--spam", "inbox"]);
    assert!(world.has("home/words.db"));
    let run = run_with(&world, &[("BARID_WORDLIST", "w.db")], &["spam", "train", "--ham", "inbox"]);
    assert_eq!((run.code, world.has("w.db")), (0, true), "{}", run.stderr);
    world.ok(&["spam", "train", "--ham", "inbox", "--wordlist", "mine.db"]);
    assert!(world.has("mine.db"));
}

#[test]
fn a_default_that_is_wrong_is_named_by_its_place() {
    for (text, parts) in [
        (
            "[options.ls]\nsort = \"age\"\n",
            &["config.toml:2:1: options.ls.sort: invalid value 'age'"][..],
        ),
        (
            "[options.ls]\nsrot = \"date\"\n",
            &[
                ":2:1: options.ls.srot: `--srot` is not an option of `barid ls`",
                "did you mean `sort`?",
            ],
        ),
        (
            "[options]\nlimit = 5\n",
            &[":2:1: options.limit: `--limit` is not an option of all commands"],
        ),
        ("[options.ls]\nlimit = true\n", &["expected a text in quotes or a number"]),
        ("[options]\njson = \"yes\"\n", &["options.json: expected true or false"]),
        ("[options]\nconfig_file = \"x\"\n", &["`--config-file` is not an option of all commands"]),
        ("[optons]\n", &["config.toml:1:2: unknown section `optons`; did you mean `options`?"]),
        ("a = \n", &["config.toml:1:"]),
    ] {
        let world = world(text);
        check_error(&world, &["ls", "inbox"], parts);
        check_error(&world, &["ls", "inbox"], &["hint: ", "barid config check"]);
        let check = world.run(&["config", "check"]);
        assert_eq!(check.code, 2, "{text}");
        assert!(check.stderr.contains(parts[0]), "{text}: {}", check.stderr);
        assert_eq!(world.run(&["config"]).code, 2, "{text}");
        assert_eq!(world.run(&["ls", "inbox", "--config-file", "/dev/null"]).code, 0);
        // Commands of others than the user, or without mail, do not depend on the file.
        assert_eq!(world.run(&["completions", "bash"]).code, 0);
    }
}

#[test]
fn all_problems_are_found_at_once() {
    let world = world(
        "[mailboxes]\na = \"x\"\n[queries]\nq = \"from:\\\"a\"\n[options.lst]\nsort = \"date\"\n\
         [options.spam.clasify]\nexplain = true\n",
    );
    let run = world.run(&["config", "check", "--json"]);
    assert_eq!(run.code, 2);
    let problems = parse_lines(&run.text());
    assert_eq!((&problems[0]["line"], &problems[0]["column"]), (&2.into(), &5.into()));
    write(
        &world,
        "[queries]\nq = \"is:nonsense\"\n[options.lst]\nsort = \"date\"\n\
         [options.spam.clasify]\nexplain = true\n[options.spam]\nwordlist = \"w\"\nxyzzy = 1\n",
    );
    let run = world.run(&["config", "check", "--json"]);
    let problems = parse_lines(&run.text());
    let found: Vec<String> = problems
        .iter()
        .map(|it| format!("{} {}", it["line"], it["message"].as_str().unwrap()))
        .collect();
    assert_eq!(found.len(), 4, "{found:#?}");
    assert!(found[0].starts_with("2 ") && found[0].contains("nonsense"), "{found:#?}");
    let lst = "4 options.lst.sort: `lst` is not a command of barid; did you mean `ls`?";
    assert_eq!(found[1], lst);
    assert!(found[2].ends_with("`clasify` is not a command of barid; did you mean `classify`?"));
    assert!(found[3].starts_with("9 options.spam.xyzzy: "), "{found:#?}");
}

#[test]
fn what_counts_is_shown_with_its_origin() {
    let world = world(
        "mailbox = \"{}/inbox\"\n[mailboxes]\nlists = \"mbox:~/l\"\n[account.work]\n\
         root = \"/srv\"\n[queries]\nq = \"a b\"\n[options]\ncolor = \"never\"\n[options.ls]\n\
         sort = [\"date\", \"from\"]\n",
    );
    let mut command = world.command();
    command.env("BARID_STORE", "gdbm").args(["config", "--json", "--cache-dir", "c"]);
    let run = Run::of(command.output().unwrap());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let lines = parse_lines(&run.text());
    let found = |key: &str| {
        let line = lines.iter().find(|line| line["key"] == key).unwrap_or_else(|| panic!("{key}"));
        let source = line["source"].as_str().unwrap();
        let values: Vec<&str> =
            line["values"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        let place = match source {
            "file" => format!("file {}:{}", line["line"], line["column"]),
            "option" => format!("option {}", line["option"].as_str().unwrap()),
            "environment" => format!("environment {}", line["variable"].as_str().unwrap()),
            other => other.to_owned(),
        };
        format!("{} / {place}", values.join(","))
    };
    assert!(found("mailbox").ends_with("/inbox / file 1:1"), "{}", found("mailbox"));
    assert!(found("mailboxes.lists").ends_with("/home/l / file 3:1"));
    assert_eq!(found("account.work.inbox"), "/srv / file 4:10");
    assert_eq!(found("queries.q"), "a b / file 7:1");
    assert_eq!(found("options.color"), "never / file 9:1");
    assert_eq!(found("options.store"), "gdbm / environment BARID_STORE");
    assert_eq!(found("options.cache-dir"), "c / option --cache-dir");
    assert_eq!(found("options.compress"), "none / default");
    assert_eq!(found("options.ls.sort"), "date,from / file 11:1");
    let text = world.ok(&["config"]);
    assert!(text.contains("options.ls.sort") && text.contains("config.toml:11:1"), "{text}");
}
