//! The commands that change a mailbox, on every kind of mailbox.

use std::collections::BTreeMap;

use barid::vfs::{OsVfs, Vfs as _};
use serde_json::{Value, json};

use crate::support::{World, mbox, parse_lines};

/// The kinds of mailboxes.
const KINDS: [Kind; 4] = [Kind::Maildir, Kind::Mbox, Kind::Mboxcl2, Kind::Mmdf];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Maildir,
    Mbox,
    Mboxcl2,
    Mmdf,
}

const MESSAGES: [&str; 4] = [
    "From: Ann <a@b.example>\nSubject: one\nMessage-ID: <1@b>\n\nbody one\n",
    "From: Bob <b@b.example>\nSubject: two\nMessage-ID: <2@b>\n\nbody of the second\n",
    "From: Cid <c@b.example>\nSubject: three\nMessage-ID: <3@b>\n\nbody\n\nof the third\n",
    "From: Dan <d@b.example>\nSubject: four\nMessage-ID: <4@b>\n\nlast body\n",
];

/// A mailbox of four read messages.
struct Mailbox<'a> {
    world: &'a World,
    kind: Kind,
    path: String,
}

impl<'a> Mailbox<'a> {
    fn new(world: &'a World, kind: Kind) -> Self {
        let path = match kind {
            Kind::Maildir => world.maildir("box", &MESSAGES),
            Kind::Mbox => world.write("box", mbox(&read(|_| String::new())).as_bytes()),
            Kind::Mboxcl2 => {
                let length = |body: &str| format!("Content-Length: {}\n", body.len());
                let path = world.write("box", mbox(&read(length)).as_bytes());
                format!("mboxcl2:{path}")
            }
            Kind::Mmdf => {
                let mark = "\u{1}\u{1}\u{1}\u{1}\n";
                let ended = |message: String| format!("{mark}{message}{mark}");
                let text: String = read(|_| String::new()).into_iter().map(ended).collect();
                world.write("box", text.as_bytes())
            }
        };
        Self { world, kind, path }
    }

    /// Runs a command on the mailbox, with arguments after its path; it must succeed.
    fn ok(&self, command: &str, args: &[&str]) -> String {
        self.world.ok(&[&[command, &self.path], args].concat())
    }

    /// Does the same as [`Mailbox::ok`], with any outcome.
    fn run(&self, command: &str, args: &[&str]) -> crate::support::Run {
        self.world.run(&[&[command, &self.path], args].concat())
    }

    /// Returns the JSON line that a change prints.
    fn change(&self, command: &str, args: &[&str]) -> Value {
        let lines = self.world.json(&[&[command, &self.path], args].concat());
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((&line["type"], &line["command"]), (&json!("change"), &json!(command)));
        line.clone()
    }

    /// Returns flags and keywords by UID.
    fn flags(&self) -> BTreeMap<u64, String> {
        let text = |list: &Value| {
            let words = list.as_array().unwrap().iter().map(|word| word.as_str().unwrap());
            words.collect::<Vec<_>>().join(" ")
        };
        let lines = self.world.json(&["ls", &self.path]);
        let line = |line: &Value| {
            let flags = format!("{} {}", text(&line["flags"]), text(&line["keywords"]));
            (line["uid"].as_u64().unwrap(), flags.trim().to_owned())
        };
        lines.iter().map(line).collect()
    }

    /// Returns the raw messages by UID.
    fn messages(&self) -> BTreeMap<u64, String> {
        let uids = self.flags().into_keys();
        let message = |uid: u64| {
            let text = self.ok("show", &["--raw", &uid.to_string()]);
            // The Content-Length belongs to the mailbox.
            match (self.kind, text.split_once("Content-Length: ")) {
                (Kind::Mboxcl2, Some((before, after))) => {
                    format!("{before}{}", after.split_once('\n').unwrap().1)
                }
                _ => text,
            }
        };
        uids.map(|uid| (uid, message(uid))).collect()
    }

    /// Returns the mailbox's files.
    fn bytes(&self) -> Vec<(String, Vec<u8>)> {
        match self.kind {
            Kind::Maildir => {
                let mut all = Vec::new();
                for folder in ["box", "box/cur", "box/new", "box/tmp"] {
                    for name in self.world.list(folder) {
                        let path = format!("{folder}/{name}");
                        let bytes = self.world.try_bytes(&path).unwrap_or_default();
                        all.push((path, bytes));
                    }
                }
                all
            }
            _ => vec![("box".to_owned(), self.world.read("box"))],
        }
    }
}

/// Returns the messages as stored in an mbox: read, and with the fields that `extra` makes of the
/// body.
fn read(extra: impl Fn(&str) -> String) -> Vec<String> {
    let stored = |message: &str| {
        let (header, body) = message.split_once("\n\n").unwrap();
        format!("{header}\nStatus: RO\n{}\n{body}", extra(body))
    };
    MESSAGES.map(stored).into()
}

/// Runs a test with a new mailbox of each kind.
fn each(test: impl Fn(&Mailbox<'_>)) {
    for kind in KINDS {
        let world = World::new();
        test(&Mailbox::new(&world, kind));
    }
}

fn map<'a>(pairs: impl IntoIterator<Item = (u64, &'a str)>) -> BTreeMap<u64, String> {
    pairs.into_iter().map(|(uid, text)| (uid, text.to_owned())).collect()
}

#[test]
fn flags_are_added_and_removed() {
    each(|mailbox| {
        let line = mailbox.change("flag", &["1,3:4", "+flagged", "-seen", "+$Forwarded"]);
        assert_eq!((&line["flagged"], &line["missing_uids"]), (&json!(3), &json!([])));
        let changed = "\\Flagged $Forwarded";
        let expected = [(1, changed), (2, "\\Seen"), (3, changed), (4, changed)];
        assert_eq!(mailbox.flags(), map(expected));
        mailbox.ok("flag", &["*", "-$forwarded", "+\\Seen", "--", "-Flagged"]);
        mailbox.ok("flag", &["1:2", "=draft", "=todo"]);
        let expected = [(1, "\\Draft todo"), (2, "\\Draft todo"), (3, changed), (4, "\\Seen")];
        assert_eq!(mailbox.flags(), map(expected));
        mailbox.ok("flag", &["all", "="]);
        assert_eq!(mailbox.flags(), map([(1, ""), (2, ""), (3, ""), (4, "")]));
        let expected: BTreeMap<u64, String> = (1..).zip(MESSAGES.map(str::to_owned)).collect();
        assert_eq!(mailbox.messages(), expected);
    });
}

#[test]
fn what_is_marked_is_expunged_and_comes_back() {
    each(|mailbox| {
        let before = mailbox.messages();
        mailbox.ok("flag", &["2,3", "+deleted", "+todo"]);
        let line = mailbox.change("expunge", &["--deleted"]);
        assert_eq!((&line["expunged"], &line["pending"]), (&json!(2), &json!(0)));
        assert!(line["kept_bytes"].as_u64() > Some(50), "{line}");
        assert_eq!(mailbox.flags(), map([(1, "\\Seen"), (4, "\\Seen")]));
        let line = mailbox.change("undo", &[]);
        assert_eq!((&line["appended"], &line["appended_uids"]), (&json!(2), &json!([5, 6])));
        let after = mailbox.messages();
        assert_eq!((&after[&5], &after[&6]), (&before[&2], &before[&3]));
        let flags = mailbox.flags();
        let old = |uid| flags[&uid].replace("\\Recent ", "");
        assert_eq!((old(5).as_str(), old(6).as_str()), ("\\Deleted \\Seen todo", old(5).as_str()));
        let again = mailbox.run("undo", &[]);
        assert_eq!(again.code, 1, "{}", again.stderr);
        assert!(again.stderr.contains("no expunge is kept\nhint: "), "{}", again.stderr);
    });
}

#[test]
fn an_empty_list_changes_nothing() {
    each(|mailbox| {
        mailbox.ok("flag", &["2,3", "+deleted"]);
        mailbox.ok("sync", &[]);
        let before = (mailbox.flags(), mailbox.bytes());
        let cases: [(&str, &[&str], i32); 16] = [
            ("expunge", &[], 2),
            ("expunge", &[""], 2),
            ("expunge", &["", "1"], 2),
            ("expunge", &[" "], 2),
            ("expunge", &[","], 2),
            ("expunge", &["subject:"], 2),
            ("expunge", &["SUBJECT \"\""], 2),
            ("expunge", &["subject:nowhere"], 1),
            ("expunge", &["9:*"], 1),
            ("expunge", &["--deleted", "1"], 2),
            ("flag", &["+seen"], 2),
            ("flag", &["", "+seen"], 2),
            ("flag", &["9:*", "+seen"], 1),
            ("flag", &["1"], 2),
            ("copy", &["dst"], 2),
            ("copy", &["", "dst"], 2),
        ];
        for (command, args, code) in cases {
            let run = mailbox.run(command, args);
            assert_eq!(run.code, code, "{command} {args:?}: {}", run.stderr);
            assert_eq!((mailbox.flags(), mailbox.bytes()), before, "{command} {args:?}");
        }
    });
}

#[test]
fn what_a_query_finds_is_expunged() {
    each(|mailbox| {
        mailbox.ok("flag", &["1", "+todo"]);
        let line = mailbox.change("expunge", &["tag:todo"]);
        assert_eq!(line["expunged"], 1, "{line}");
        let line = mailbox.change("expunge", &["UID", "2:3", "NOT", "UID", "3"]);
        assert_eq!(line["expunged"], 1, "{line}");
        assert_eq!(mailbox.flags().into_keys().collect::<Vec<_>>(), [3, 4]);
        let line = mailbox.change("expunge", &["3", "4"]);
        assert_eq!(line["expunged"], 2, "{line}");
    });
}

#[test]
fn what_is_kept_is_listed_chosen_and_forgotten() {
    each(|mailbox| {
        assert_eq!(mailbox.run("undo", &["--list"]).code, 1);
        mailbox.ok("expunge", &["1"]);
        mailbox.ok("expunge", &["2,3"]);
        let before = mailbox.bytes();
        for args in
            [&["--keep-expunged", "10", "4"][..], &["--keep-expunged", "10", "4", "--dry-run"]]
        {
            let run = mailbox.run("expunge", args);
            let told =
                "cannot be kept for `barid undo`, with room for 10 bytes: nothing was expunged";
            assert!(run.code == 2 && run.stderr.contains(told), "{}", run.stderr);
            assert!(run.stderr.contains("--forget") && run.stderr.contains("--keep-expunged 1K"));
            assert_eq!(mailbox.bytes(), before);
        }
        mailbox.ok("expunge", &["--forget", "4"]);
        let list = mailbox.ok("undo", &["--list"]);
        let words = |line: &str| {
            let words: Vec<_> = line.split_whitespace().collect();
            (words[0].to_owned(), words[5].to_owned(), words[words.len() - 1].to_owned())
        };
        let of = |number: &str, count: &str| (number.into(), count.into(), "kept".into());
        let lines: Vec<_> = list.lines().skip(1).map(words).collect();
        assert_eq!(lines, [of("3", "1"), of("2", "2"), of("1", "1")], "{list}");
        let lines = mailbox.world.json(&["undo", "--list", &mailbox.path]);
        let states: Vec<_> = lines.iter().map(|line| line["state"].as_str().unwrap()).collect();
        assert_eq!(states, ["not kept", "kept", "kept"]);
        let refused = mailbox.run("undo", &[]);
        let told = "the last expunge, of 1 message with ";
        assert!(refused.code == 1 && refused.stderr.contains(told), "{}", refused.stderr);
        assert!(refused.stderr.contains("--number N"), "{}", refused.stderr);
        let text = mailbox.ok("undo", &["--number", "1"]);
        assert!(text.contains("; 2 expunges still kept, "), "{text}");
        assert_eq!(mailbox.messages(), map([(5, MESSAGES[0])]));
        assert_eq!(mailbox.run("undo", &["--number", "1"]).code, 1);
        let forgot = mailbox.ok("undo", &["--discard"]);
        assert!(forgot.ends_with(": forgot 2 expunges\n"), "{forgot}");
        assert_eq!(mailbox.run("undo", &[]).code, 1);
    });
}

#[test]
fn a_replaced_mailbox_is_told() {
    let world = World::new();
    let mailbox = Mailbox::new(&world, Kind::Mbox);
    mailbox.ok("expunge", &["2"]);
    assert_eq!(world.run(&["status", &mailbox.path]).stderr, "");
    let bytes = world.read("box");
    world.write("new", &bytes);
    world.rename("new", "box");
    let run = world.run(&["status", &mailbox.path]);
    assert!(run.stderr.contains("`barid undo --replaced "), "{}", run.stderr);
    let run = mailbox.run("undo", &[]);
    assert!(run.code == 1 && run.stderr.contains("--replaced"), "{}", run.stderr);
    mailbox.ok("undo", &["--replaced"]);
    assert_eq!(mailbox.messages().len(), 4);
    assert_eq!(world.run(&["status", &mailbox.path]).stderr, "");
}

#[test]
fn files_of_a_maildir_have_the_mode_of_its_folder() {
    let world = World::new();
    let mailbox = Mailbox::new(&world, Kind::Maildir);
    for mode in [0o700, 0o770, 0o755] {
        world.set_mode("box/cur", mode);
        mailbox.ok("expunge", &["*"]);
        let before = mailbox.bytes();
        mailbox.ok("undo", &[]);
        let is_new = |path: &&String| !before.iter().any(|(old, _)| old == *path);
        let after = mailbox.bytes();
        let message = |path: &&String| path.contains("/cur/") || path.contains("/new/");
        let new = after.iter().map(|(path, _)| path).filter(message).find(is_new).unwrap();
        let found = OsVfs.metadata(&world.path(new)).unwrap().mode & 0o777;
        assert_eq!(found, mode & 0o666 | 0o600, "{mode:o}");
    }
}

#[test]
fn named_messages_are_expunged() {
    each(|mailbox| {
        let text = mailbox.ok("expunge", &["--keep-expunged", "no", "4,1:2"]);
        assert!(text.contains("expunged 3 messages") && text.contains("not kept"), "{text}");
        assert_eq!(mailbox.messages(), map([(3, MESSAGES[2])]));
        assert_eq!(mailbox.run("undo", &[]).code, 1);
        let text = mailbox.ok("expunge", &["--dry-run", "--keep-days", "3", "3"]);
        assert!(text.contains(" would be kept until 2"), "{text}");
        let text = mailbox.ok("expunge", &["--keep-days", "3", "3"]);
        assert!(text.contains(" brings it back until 2"), "{text}");
        assert_eq!(mailbox.flags(), map([]));
    });
}

#[test]
fn messages_are_appended() {
    each(|mailbox| {
        let (world, path) = (mailbox.world, &mailbox.path);
        world.write("one.eml", b"Subject: five\n\nbody of five\n");
        world
            .write("two.eml", b"From x@y.example Tue Mar  5 12:22:10 2024\nSubject: six\n\nbody\n");
        let options = ["--flags", "seen,todo", "--date", "2024-03-05T12:22:10+01:00"];
        let line = mailbox.change("append", &[&["one.eml", "two.eml"], &options[..]].concat());
        assert_eq!((&line["appended"], &line["appended_uids"]), (&json!(2), &json!([5, 6])));
        let found = mailbox.messages();
        assert_eq!(found[&5], "Subject: five\n\nbody of five\n");
        assert_eq!(found[&6], "Subject: six\n\nbody\n");
        let flags = mailbox.flags();
        assert!(flags[&5].contains("\\Seen") && flags[&6].contains("todo"), "{flags:?}");
        let arrival = &world.json(&["ls", path])[4]["internal_date"];
        assert!(arrival.as_str().unwrap().starts_with("2024-03-05T1"), "{arrival}");
        let run = world.run_with_input(&["append", path, "--json"], b"Subject: seven\n\n");
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        assert_eq!(parse_lines(&run.text())[0]["appended_uids"], json!([7]));
        assert_eq!(mailbox.messages()[&7], "Subject: seven\n\n");
    });
}

#[test]
fn a_mailbox_is_appended_to_another() {
    each(|mailbox| {
        let text =
            mbox(&MESSAGES).replace("Subject: two\n", "Subject: two\nStatus: RO\nX-UID: 9\n");
        mailbox.world.write("other.mbox", text.as_bytes());
        let line = mailbox.change("append", &["--mbox", "other.mbox"]);
        assert_eq!(line["appended_uids"], json!([5, 6, 7, 8]));
        let found = mailbox.messages();
        for (at, message) in MESSAGES.iter().enumerate() {
            assert_eq!(&found[&(at as u64 + 5)], message);
        }
        assert!(mailbox.flags()[&6].contains("\\Seen"));
        let arrivals = mailbox.world.json(&["ls", &mailbox.path]);
        assert_eq!(arrivals[6]["internal_date"], "2024-03-05T12:22:10Z");
    });
}

#[test]
fn a_sync_writes_what_is_left() {
    each(|mailbox| {
        mailbox.ok("flag", &["1:2", "+answered"]);
        if mailbox.kind == Kind::Maildir {
            let (world, name) = (mailbox.world, "new/1700000000.new.host");
            world.deliver("box", name, "Subject: new\n\n");
            assert_eq!(mailbox.flags()[&5], "\\Recent");
        }
        let line = mailbox.change("sync", &[]);
        assert_eq!(line["pending"], 0);
        assert!(line["figures"]["messages_written"].as_u64() > Some(0), "{line}");
        assert!(!mailbox.flags().values().any(|flags| flags.contains("Recent")));
        assert_eq!(mailbox.flags()[&2], "\\Answered \\Seen");
        let text = mailbox.ok("sync", &[]);
        assert!(text.contains("nothing to write"), "{text}");
    });
}

#[test]
fn a_dry_run_changes_nothing() {
    each(|mailbox| {
        mailbox.world.write("one.eml", b"Subject: five\n\nbody of five\n");
        mailbox.ok("flag", &["2", "+deleted"]);
        mailbox.ok("expunge", &["--deleted"]);
        mailbox.ok("flag", &["3", "+deleted"]);
        let state = |mailbox: &Mailbox<'_>| (mailbox.flags(), mailbox.bytes());
        let before = state(mailbox);
        let commands: [(&str, &[&str]); 7] = [
            ("flag", &["1:3", "+answered", "+new"]),
            ("flag", &["1:3", "+answered", "--write-through"]),
            ("expunge", &["--deleted"]),
            ("expunge", &["1"]),
            ("append", &["one.eml", "one.eml"]),
            ("sync", &[]),
            ("undo", &[]),
        ];
        for (command, args) in commands {
            let line = mailbox.change(command, &[args, &["--dry-run"]].concat());
            assert_eq!(line["dry_run"], true);
            let text = mailbox.ok(command, &[args, &["--dry-run", "--read-only"]].concat());
            assert!(text.contains("would") || command == "sync", "{text}");
            assert!(text.contains("barriers") && text.contains("moved"), "{text}");
            assert_eq!(state(mailbox), before, "{command} {args:?}");
        }
        let line = mailbox.change("append", &["one.eml", "one.eml", "--dry-run"]);
        assert_eq!((&line["appended"], &line["appended_uids"]), (&json!(2), &json!([])));
        assert!(line["figures"]["bytes_appended"].as_u64() >= Some(56), "{line}");
        let line = mailbox.change("expunge", &["1", "--dry-run"]);
        assert_eq!(
            (&line["expunged"], &line["figures"]["messages_expunged"]),
            (&json!(1), &json!(1))
        );
    });
}

#[test]
fn what_is_not_there_is_told() {
    each(|mailbox| {
        for (command, args) in [("flag", &["9,1", "+flagged"][..]), ("expunge", &["9,2"])] {
            let run = mailbox.run(command, args);
            assert_eq!(run.code, 1, "{}", run.stderr);
            assert!(run.stderr.contains("error: ") && run.stderr.contains("no message with UID 9"));
            assert!(run.text().contains(" 1 message"), "{}", run.text());
        }
        assert_eq!(mailbox.flags().into_keys().collect::<Vec<_>>(), [1, 3, 4]);
        assert!(mailbox.flags()[&1].contains("\\Flagged"));
        let before = mailbox.bytes();
        for (command, args) in
            [("flag", &["7:9", "+draft"][..]), ("expunge", &["--deleted"]), ("undo", &[])]
        {
            if command == "undo" {
                mailbox.ok("undo", &[]);
            }
            let run = mailbox.run(command, args);
            assert_eq!(run.code, 1, "{command}: {}", run.stderr);
            assert!(command == "undo" || mailbox.bytes() == before, "{command}");
        }
    });
}

#[test]
fn what_cannot_be_is_refused() {
    each(|mailbox| {
        mailbox.world.write("empty.eml", b"");
        mailbox.world.create_dir("folder");
        let before = (mailbox.flags(), mailbox.bytes());
        let cases: [(&str, &[&str], &str); 17] = [
            ("flag", &["1", "seen"], "write +seen"),
            ("flag", &["1", "+recent"], "barid sync"),
            ("flag", &["1", "-\\Seem"], "the system flags are"),
            ("flag", &["1", "+a b"], "a keyword has"),
            ("flag", &["1", "+seen", "-seen"], "cannot be both added and removed"),
            ("flag", &["0", "+seen"], "a UID is a number"),
            ("flag", &["1", "+seen", "--read-only"], "--read-only"),
            ("expunge", &["--keep-expunged", "much"], "a size is a number"),
            ("expunge", &[], "no messages are named"),
            ("expunge", &["1", "from:ann"], "UIDs cannot be mixed"),
            ("append", &["nowhere.eml"], "nowhere.eml: No such file"),
            ("append", &["empty.eml"], "empty.eml: empty"),
            ("append", &["folder"], "folder: a folder"),
            ("append", &["one.eml", "--date", "yesterday"], "a date is"),
            ("append", &["--mbox"], "--mbox"),
            ("append", &["one.eml", "--flags", "+seen"], "without a sign"),
            ("flag", &["1", "+seen,deleted"], "as in +seen +deleted"),
        ];
        for (command, args, expected) in cases {
            let run = mailbox.run(command, args);
            assert_eq!(run.code, 2, "{command} {args:?}: {}", run.stderr);
            assert!(run.stderr.contains(expected), "{command} {args:?}: {}", run.stderr);
            assert_eq!(run.stderr.matches("error: ").count(), 1, "{}", run.stderr);
            assert!(run.text().is_empty(), "{}", run.text());
        }
        assert_eq!((mailbox.flags(), mailbox.bytes()), before);
    });
}

#[test]
fn a_mailbox_is_created_and_an_mbox_is_taken_from_standard_input() {
    let world = World::new();
    world.write("one.eml", MESSAGES[0].as_bytes());
    world.write("two.mbox", mbox(&[MESSAGES[0], MESSAGES[1]]).as_bytes());
    let cases = [
        ("new.mbox", "mboxo"),
        ("folder/", "maildir"),
        ("maildir:other", "maildir"),
        ("mboxrd:rd", "mboxrd"),
        ("mmdf:packed", "mmdf"),
        ("mbx:one", "mbx"),
        ("mix:several", "mix"),
        ("mh:numbers", "mh"),
    ];
    for (name, format) in cases {
        assert_eq!(world.run(&["append", name, "one.eml"]).code, 2, "{name}");
        world.ok(&["append", "--create", name, "one.eml"]);
        world.ok(&["append", "--create", name, "one.eml"]);
        let status = world.json(&["status", name]).remove(0);
        assert_eq!((&status["format"], &status["messages"]), (&json!(format), &json!(2)));
    }
    let input = mbox(&[MESSAGES[0], MESSAGES[1], MESSAGES[2]]);
    let run = world.run_with_input(&["append", "--mbox", "new.mbox", "-"], input.as_bytes());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(world.json(&["status", "new.mbox"])[0]["messages"], 5);
    let run = world.run(&["append", "new.mbox", "two.mbox"]);
    assert!(run.code == 0 && run.stderr.contains("looks like an mbox"), "{}", run.stderr);
}

#[test]
fn what_cannot_be_written_is_told() {
    let world = World::new();
    let line = format!("X-Long: {}\n", "y".repeat(1000));
    let long = line.repeat(1024 * 1024 / line.len() + 1);
    let path = world.write("box", mbox(&[MESSAGES[0], &format!("{long}\nbody\n")]).as_bytes());
    let run = world.run(&["flag", "--write-through", &path, "all", "+flagged"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.text().contains("flagged 1 message"), "{}", run.text());
    assert!(run.stderr.contains("the headers of 1 message (UID 2)"), "{}", run.stderr);
    let run = world.run(&["sync", "--dry-run", "--json", &path]);
    let line = &parse_lines(&run.text())[0];
    assert_eq!((run.code, &line["unwritable_uids"]), (2, &json!([2])));
    assert_eq!(line["unwritable"], json!(1));
}
