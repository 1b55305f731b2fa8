//! Every verb prints the same for any state of the cache: none, empty, partial, or full.

use serde_json::Value;

use crate::support::World;

/// Formats, as prefixes of a path.
const FORMATS: [&str; 5] = ["maildir", "mboxrd", "mbx", "mix", "mh"];

/// The commands that fill a cache; `@` stands for the mailbox.
const FILLS: [(&str, &[&[&str]]); 5] = [
    ("empty", &[]),
    ("populated", &[&["cache", "populate", "@"]]),
    ("full", &[&["cache", "populate", "--full", "@"], &["fetch", "@", "1:*", "BODYSTRUCTURE"]]),
    ("sizes", &[&["ls", "--json", "--rfc822-size", "@"]]),
    (
        "parts",
        &[
            &["fetch", "@", "2:4", "RFC822.SIZE", "BODYSTRUCTURE"],
            &["fetch", "@", "6", "BODY[]"],
            &["ls", "--sort", "from", "@"],
        ],
    ),
];

/// Verbs that print answers.
const VERBS: [&[&str]; 20] = [
    &["ls", "@"],
    &["ls", "--json", "@"],
    &["ls", "--sort", "size", "@"],
    &["ls", "--sort", "reverse:size", "--first", "3", "--json", "@"],
    &["ls", "--sort", "from", "--sort", "size", "-n", "4", "@"],
    &["ls", "--sort", "subject", "--rfc822-size", "--json", "@"],
    &["thread", "@"],
    &["thread", "--json", "--algorithm", "refs", "@"],
    &["search", "--json", "@", "larger:8000"],
    &["search", "@", "SMALLER 20500"],
    &["search", "--list", "@", "from:lines or subject:few"],
    &["search", "--count", "@", "line"],
    &["fetch", "@", "1:*", "FLAGS INTERNALDATE RFC822.SIZE ENVELOPE BODYSTRUCTURE"],
    &["fetch", "--json", "@", "1:*", "RFC822.SIZE BODY[HEADER] BINARY[1]"],
    &["show", "@", "2"],
    &["show", "--json", "--structure", "@", "5"],
    &["status", "--json", "@"],
    &["folders", "--json", "mail"],
    &["spam", "classify", "--rescore", "@"],
    &["check", "--json", "@"],
];

fn messages() -> Vec<String> {
    let message = |name: &str, body: &str| {
        format!(
            "From: {name}@example.org\nSubject: {name}\nMessage-ID: <{name}@x>\n\
             Date: Tue, 5 Mar 2024 12:22:10 +0100\n\n{body}"
        )
    };
    vec![
        message("few", &"line of some length\n".repeat(1000)),
        message("lines", &"\n".repeat(19_000)),
        message("one", &format!("{}\n", "x".repeat(30_000))),
        message("quoted", &"From here\n".repeat(1900)),
        message("small", "line\n"),
        message("owned", "line\n").replace("Date", "Status: RO\nDate"),
        message("middle", &"words and words\n".repeat(700)),
        format!("Subject: {}\n\nline\n", "long ".repeat(30_000)),
    ]
}

/// Returns the output of a run, except for the lines about the cache itself.
fn told(world: &World, verb: &[&str], mailbox: &str, cache: &[&str]) -> (i32, String, String) {
    let args: Vec<&str> = verb.iter().map(|arg| if *arg == "@" { mailbox } else { arg }).collect();
    let run = world.run(&[&args[..], cache].concat());
    let of_line = |line: &str| {
        let Ok(Value::Object(mut keys)) = serde_json::from_str(line) else {
            return line.to_owned();
        };
        for key in ["cache", "elapsed_ms", "highestmodseq"] {
            keys.remove(key);
        }
        Value::Object(keys).to_string()
    };
    let lines: Vec<String> = run.text().lines().map(of_line).collect();
    (run.code, lines.join("\n"), run.stderr)
}

#[test]
fn every_verb_answers_the_same() {
    let mut compared = 0;
    for format in FORMATS {
        let world = World::new();
        let messages = messages();
        let (early, late) = messages.split_at(5);
        let mailbox = format!("{format}:{}/box", world.create_dir("mail"));
        let append = |message: &String, cache: &[&str]| {
            let args = [&["append", "--create", &mailbox], cache].concat();
            let run = world.run_with_input(&args, message.as_bytes());
            assert_eq!(run.code, 0, "{format}: {}", run.stderr);
        };
        let dir = |name: &'static str| ["--cache-dir", name];
        early.iter().for_each(|message| append(message, &["--no-cache"]));
        // Half of the caches are older than the last messages; one of them is then updated.
        for (at, (name, fills)) in FILLS.into_iter().enumerate() {
            if at == FILLS.len() / 2 {
                late.iter().for_each(|message| append(message, &dir("full")));
            }
            fills.iter().for_each(|fill| drop(told(&world, fill, &mailbox, &dir(name))));
        }
        for kind in [["--spam", "1:3"], ["--ham", "4:6"]] {
            let [class, uids] = kind;
            world.ok(&["spam", "train", class, "--uids", uids, &mailbox, "--no-cache", "-q"]);
        }
        for verb in VERBS {
            let expected = told(&world, verb, &mailbox, &["--no-cache"]);
            assert!(expected.0 < 2, "{format} {verb:?}: {}", expected.2);
            for (name, _) in FILLS {
                let found = told(&world, verb, &mailbox, &dir(name));
                assert_eq!(found, expected, "{format} {verb:?}: {name}");
                compared += 1;
            }
        }
    }
    assert!(compared >= 500, "{compared}");
}

/// Lists the content of a mailbox.
fn content(world: &World, mailbox: &str) -> String {
    let items = "FLAGS INTERNALDATE RFC822.SIZE BODY[]";
    world.ok(&["fetch", mailbox, "1:*", items, "--no-cache"])
}

#[test]
fn copies_are_the_same() {
    let mut compared = 0;
    for format in FORMATS {
        let world = World::new();
        let mailbox = format!("{format}:{}/box", world.create_dir("mail"));
        for message in messages() {
            let args = ["append", "--create", &mailbox, "--no-cache"];
            assert_eq!(world.run_with_input(&args, message.as_bytes()).code, 0, "{format}");
        }
        world.ok(&["flag", "--write-through", &mailbox, "2", "+flagged", "--no-cache"]);
        for (name, fills) in FILLS {
            fills.iter().for_each(|fill| {
                drop(told(&world, fill, &mailbox, &["--cache-dir", name]));
            });
        }
        for target in ["maildir:copied", "mboxrd:copied", "mix:copied"] {
            let verbs = [
                &["copy", "--json", "--create", "@", "2:5", target][..],
                &["copy", "--json", "--create", "--dedupe", "content", "@", "all", target],
                &["convert", "--json", "@", target],
            ];
            for verb in verbs {
                let make = |cache: &[&str]| {
                    let told = told(&world, verb, &mailbox, cache);
                    assert_eq!(told.0, 0, "{format} {verb:?} {cache:?}: {}", told.2);
                    let content = content(&world, target);
                    world.remove("copied");
                    (told, content)
                };
                let expected = make(&["--no-cache"]);
                for (name, _) in FILLS {
                    let found = make(&["--cache-dir", name]);
                    assert_eq!(found, expected, "{format} {verb:?}: {name}");
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, FORMATS.len() * 9 * FILLS.len());
}

#[test]
fn sizes_sort_by_what_clients_are_told() {
    let world = World::new();
    let messages = messages();
    let texts: Vec<&str> = messages.iter().map(String::as_str).collect();
    let path = world.maildir("box", &texts);
    let lines = world.json(&["ls", "--sort", "size", &path]);
    let names = lines.iter().map(|line| line["subject"].as_str().unwrap()[..3].to_owned());
    // By stored size `lines` would be the fourth.
    let expected = ["sma", "own", "mid", "quo", "few", "one", "lin", "lon"];
    assert_eq!(names.collect::<Vec<_>>(), expected);
}
