//! Commands that read several mailboxes, from outside.

use serde_json::{Value, json};

use crate::support::World;

const QUESTION: &str = "From: Ann Lee <ann@x.example>\nSubject: release plan\n\
    Date: Mon, 1 Jan 2024 10:00:00 +0000\nMessage-ID: <1@x>\n\nWhen?\n";
const ANSWER: &str = "From: me@y.example\nSubject: Re: release plan\n\
    Date: Tue, 2 Jan 2024 10:00:00 +0000\nMessage-ID: <2@y>\nIn-Reply-To: <1@x>\n\nSoon.\n";
const THANKS: &str = "From: ann@x.example\nSubject: Re: release plan\n\
    Date: Wed, 3 Jan 2024 10:00:00 +0000\nMessage-ID: <3@x>\nReferences: <1@x> <2@y>\n\nGood.\n";
const LUNCH: &str = "From: bob@z.example\nSubject: lunch\nMessage-ID: <9@z>\n\
    Date: Sun, 31 Dec 2023 10:00:00 +0000\n\nNow?\n";
const REPORT: &str = "From: carl@z.example\nSubject: report\nMessage-ID: <8@z>\n\
    Date: Thu, 4 Jan 2024 10:00:00 +0000\nMIME-Version: 1.0\n\
    Content-Type: multipart/mixed; boundary=b\n\n--b\n\nsee file\n--b\n\
    Content-Type: text/csv\nContent-Disposition: attachment; filename=\"q.csv\"\n\n\
    1,2\n--b--\n";

/// Mailboxes `inbox`, `sent` and `tree/old`, in which one message is a copy.
fn world() -> World {
    let world = World::new();
    world.maildir("inbox", &[QUESTION, THANKS, LUNCH]);
    world.maildir("sent", &[ANSWER]);
    world.maildir("tree/old", &[QUESTION, REPORT]);
    world
}

const BOTH: [&str; 4] = ["--in", "inbox", "--in", "sent"];
const ALL: [&str; 6] = ["--in", "inbox", "--in", "sent", "--tree", "tree"];

/// Returns the mailbox and the UID of each line of JSON.
fn places(lines: &[Value]) -> Vec<(&str, u64)> {
    lines
        .iter()
        .map(|line| (line["mailbox"].as_str().unwrap(), line["uid"].as_u64().unwrap()))
        .collect()
}

#[test]
fn lists_are_merged() {
    let world = world();
    let check = |args: &[&str], expected: &[(&str, u64)]| {
        let lines = world.json(&[&["ls"][..], args].concat());
        assert_eq!(places(&lines), expected, "{args:?}");
    };
    let (inbox, sent, old) = ("inbox", "sent", "tree/old");
    let by_date = [(inbox, 3), (inbox, 1), (sent, 1), (inbox, 2), (old, 2)];
    check(&[&ALL[..], &["--sort", "date"]].concat(), &by_date);
    check(&[&ALL[..], &["--sort", "date", "-n2"]].concat(), &by_date[3..]);
    check(&[&ALL[..], &["--sort", "date", "--first", "2"]].concat(), &by_date[..2]);
    check(&[&ALL[..], &["-s", "date", "-n2", "-r", "all"]].concat(), &[(old, 2), (inbox, 2)]);
    // By arrival: a second apart in each mailbox.
    check(&[&BOTH[..], &["from:ann or from:me"]].concat(), &[(inbox, 1), (sent, 1), (inbox, 2)]);
    check(&[&ALL[..], &["subject:release", "in:old", "--duplicates"]].concat(), &[(old, 1)]);
    let elsewhere = [(sent, 1), (old, 1)];
    check(&[&ALL[..], &["subject:plan", "older:1y", "-in:inbox"]].concat(), &elsewhere);
    let lines = world.json(&[&["ls", "--rfc822-size", "--sort", "size"], &ALL[..]].concat());
    let sizes: Vec<u64> = lines.iter().map(|line| line["rfc822_size"].as_u64().unwrap()).collect();
    assert!(sizes.len() == 5 && sizes.is_sorted() && sizes[0] > 0, "{sizes:?}");
    let text = world.ok(&[&["ls"], &BOTH[..], &["--sort", "date"]].concat());
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("inbox  3  -----  2023-12-31 10:00  bob@z"), "{text}");
    assert!(lines[2].starts_with("sent   1  -----  2024-01-02 10:00  me@y"), "{text}");
    world.maildir("empty", &[]);
    assert_eq!(world.ok(&["ls", "--in", "empty"]), "");
}

#[test]
fn threads_go_across_mailboxes() {
    let world = world();
    let shape = |args: &[&str]| -> Vec<String> {
        let threads = world.json(&[&["thread"][..], args].concat());
        let nodes = threads.iter().flat_map(|thread| thread["messages"].as_array().unwrap());
        nodes.map(|node| format!("{}:{}:{}", node["depth"], text(node), node["uid"])).collect()
    };
    fn text(node: &Value) -> &str {
        node["mailbox"].as_str().unwrap_or("-")
    }
    let whole = ["0:inbox:1", "1:sent:1", "2:inbox:2"];
    assert_eq!(shape(&BOTH), [&["0:inbox:3"][..], &whole].concat());
    assert_eq!(shape(&[&BOTH[..], &["from:me"]].concat()), whole);
    assert_eq!(shape(&["inbox", "2", "--in", "sent"]), whole);
    assert_eq!(shape(&["inbox", "2", "--tree", "tree", "--in", "sent", "--in", "inbox"]), whole);
    // The copy is where the message first is, and leads to its thread all the same.
    assert_eq!(shape(&[&ALL[..], &["in:old", "from:ann"]].concat()), whole);
    assert_eq!(shape(&["tree/old", "1", "--in", "sent"]), ["0:tree/old:1", "1:sent:1"]);
    let copies = shape(&[&ALL[..], &["--duplicates", "from:me"]].concat());
    // Equal subjects join it.
    assert_eq!(copies, ["0:-:null", "1:inbox:1", "2:sent:1", "3:inbox:2", "1:tree/old:1"]);
    let newest = shape(&["--in", "sent", "--in", "inbox", "-n1", "--algorithm", "refs", "in:sent"]);
    assert_eq!(newest, whole);
    let tree = world.ok(&["thread", "inbox", "1", "--in", "sent"]);
    let lines: Vec<&str> = tree.lines().collect();
    assert!(lines[0].starts_with("inbox  1  "), "{tree}");
    assert!(lines[1].starts_with("sent   1  ") && lines[1].ends_with("└─ Re: release plan"));
    assert!(lines[2].starts_with("inbox  2  ") && lines[2].ends_with("   └─ Re: release plan"));
    let one = world.json(&["thread", "inbox", "1"]);
    assert_eq!(one[0]["messages"][0].get("mailbox"), None);
    let run = world.run(&["thread", "inbox", "99", "--in", "sent"]);
    assert!(run.code == 1 && run.stderr.contains("99"), "{}", run.stderr);
}

#[test]
fn a_message_that_is_missing_everywhere_is_drawn() {
    let world = World::new();
    world.maildir("inbox", &[&THANKS.replace("<1@x> <2@y>", "<1@x>")]);
    world.maildir("sent", &[ANSWER]);
    let tree = world.ok(&[&["thread"], &BOTH[..]].concat());
    let lines: Vec<&str> = tree.lines().collect();
    assert_eq!((lines.len(), lines[0].trim()), (3, "(not here)"), "{tree}");
    // In the column of the subjects.
    let column =
        |line: &str, text: &str| line.find(text).map(|at| line[..at].chars().count()).unwrap();
    assert_eq!(column(lines[0], "(not here)"), column(lines[1], "├─ Re"), "{tree}");
    assert!(lines[1].starts_with("sent   1") && lines[2].starts_with("inbox  1"), "{tree}");
}

#[test]
fn messages_of_several_mailboxes_are_shown() {
    let world = world();
    let shown = world.json(&[&["show"], &ALL[..], &["subject:/^re:/"]].concat());
    assert_eq!(places(&shown), [("inbox", 2), ("sent", 1)]);
    let structures = world.json(&[&["show", "--structure"], &ALL[..], &["from:carl"]].concat());
    assert_eq!(places(&structures), [("tree/old", 2)]);
    let text = world.ok(&[&["show"], &BOTH[..], &["body:soon or body:good"]].concat());
    assert!(text.starts_with("─── inbox, UID 2 ───\nFrom: ann@x.example\n"), "{text}");
    assert!(text.contains("\nGood.\n\n─── sent, UID 1 ───\nFrom: me@y.example\n"), "{text}");
    for view in ["--headers", "--structure"] {
        let text = world.ok(&[&["show", view], &BOTH[..], &["subject:/^re:/"]].concat());
        assert!(text.starts_with("─── inbox, UID 2 ───\n"), "{text}");
        assert!(text.contains("\n\n─── sent, UID 1 ───\n"), "{text}");
    }
    let raw = world.ok(&[&["show", "--raw"], &BOTH[..], &["from:me"]].concat());
    assert_eq!(raw, ANSWER);
    world.ok(&[&["show", "--raw", "-o", "out.eml"], &BOTH[..], &["from:me"]].concat());
    assert_eq!(world.read("out.eml"), ANSWER.as_bytes());
    let run = world.run(&[&["show", "--raw", "-o", "out.eml"], &BOTH[..], &["from:ann"]].concat());
    assert!(run.code == 2 && run.stderr.contains("2 were named"), "{}", run.stderr);
    let run = world.run(&[&["show"], &BOTH[..]].concat());
    assert!(run.code == 2 && run.stderr.contains("no messages are named"), "{}", run.stderr);
}

#[test]
fn attachments_of_several_mailboxes_have_their_mailbox() {
    let world = world();
    world.maildir("more", &[&REPORT.replace("<8@z>", "<7@z>"), REPORT]);
    let args = ["--in", "more", "--tree", "tree"];
    let lines = world.json(&[&["attachments"], &args[..]].concat());
    assert_eq!(places(&lines), [("more", 1), ("more", 2)]);
    let all = world.json(&[&["attachments", "--duplicates"], &args[..]].concat());
    assert_eq!(places(&all), [("more", 1), ("more", 2), ("tree/old", 2)]);
    assert_eq!(all[2]["filename"], "q.csv");
    let text = world.ok(&[&["attachments", "--duplicates", "in:old"], &args[..]].concat());
    assert_eq!(text, "tree/old         2  2       3 bytes  text/csv                      q.csv\n");
    let saved = world.json(&[&["attachments", "--save", "dir"], &args[..]].concat());
    assert_eq!(places(&saved).len(), 2);
    assert_eq!(world.list("dir"), ["q-2.csv", "q.csv"]);
    let text = world.ok(&[&["attachments", "--text", "--no-cache"], &args[..]].concat());
    assert!(text.starts_with("─── more, UID 1, part 2 (q.csv) ───\n"), "{text}");
    assert!(text.contains("\n─── more, UID 2, part 2 (q.csv) ───\n"), "{text}");
    let run = world.run(&["attachments", "--in", "sent", "--in", "inbox", "from:ann"]);
    assert_eq!((run.code, run.text().as_str()), (1, ""), "{}", run.stderr);
}

#[test]
fn what_several_mailboxes_cannot_do_is_explained() {
    let world = world();
    for command in ["ls", "thread", "show", "attachments"] {
        let fails = |args: &[&str], code: i32, message: &str| {
            let run = world.run(&[&[command][..], args].concat());
            assert_eq!(run.code, code, "{command} {args:?}: {}", run.stderr);
            assert!(run.stderr.contains(message), "{command} {args:?}: {}", run.stderr);
        };
        fails(&[&BOTH[..], &["17"]].concat(), 2, "UIDs name messages of one mailbox");
        fails(&[&BOTH[..], &["from:ann", "is:read", "5"]].concat(), 2, "UIDs name messages");
        fails(&[&BOTH[..], &["form:ann"]].concat(), 2, "did you mean");
        fails(&[&BOTH[..], &[""]].concat(), 2, "an empty list");
        fails(&["--duplicates", "inbox", "all"], 2, "--duplicates is for several mailboxes");
        fails(&["inbox", "in:inbox"], 2, "chooses among several mailboxes");
        fails(&[&BOTH[..], &["from:nobody"]].concat(), 1, "");
        fails(&[], 2, "Usage: ");
        if command != "thread" {
            fails(&["inbox", "1", "--in", "sent"], 2, "UIDs name messages of one mailbox");
        }
        // The others are read.
        let run = world.run(&[command, "--json", "--in", "none", "--in", "tree/old", "from:carl"]);
        assert_eq!(run.code, 2, "{command}: {}", run.stderr);
        let text = run.text();
        let (line, mailbox) = (text.lines().next().unwrap(), json!("tree/old"));
        let line: Value = serde_json::from_str(line).unwrap();
        let own = line.get("mailbox").unwrap_or(&line["messages"][0]["mailbox"]);
        assert_eq!(own, &mailbox, "{command}: {text}");
    }
}
