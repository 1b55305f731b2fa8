//! `barid ls`.

use serde_json::{Value, json};

use crate::support::{World, mbox};

const FIRST: &str = "\
From: =?utf-8?q?J=C3=BCrg?= Example <jurg@a.example>
To: \"Doe, John\" <john@b.example>,
\tteam: x@c.example, Y <y@c.example>;
Cc: undisclosed-recipients:;
Subject: =?iso-8859-1?Q?Gr=FC=DFe?= aus
 Bern
Date: Tue, 5 Mar 2024 14:22:10 +0200
Message-ID: <\"one\"@a.example>
In-Reply-To: your message of <zero@a.example>
References: <minus@a.example> <zero@a.example>

body
";
const SECOND: &str =
    "From: zoe@a.example\nDate: Mon, 4 Mar 2024 10:00:00 -0930\nSubject: b\n\nxx\n";
const THIRD: &str = "Subject: a\n\nx\n";

fn world() -> (World, String) {
    let world = World::new();
    let path = world.maildir("box", &[FIRST, SECOND, THIRD]);
    (world, path)
}

fn uids(lines: &[Value]) -> Vec<u64> {
    lines.iter().map(|line| line["uid"].as_u64().unwrap()).collect()
}

#[test]
fn json_tells_all() {
    let (world, path) = world();
    let lines = world.json(&["ls", &path]);
    let expected = json!({
        "v": 1, "type": "message", "uid": 1, "seq": 1,
        "date": "2024-03-05T14:22:10+02:00", "internal_date": "2020-09-13T12:26:40Z",
        "from": [{"name": "Jürg Example", "address": "jurg@a.example"}],
        "to": [
            {"name": "Doe, John", "address": "john@b.example"},
            {"name": null, "address": "x@c.example", "group": "team"},
            {"name": "Y", "address": "y@c.example", "group": "team"},
        ],
        "cc": [{"name": null, "address": null, "group": "undisclosed-recipients"}],
        "subject": "Grüße aus Bern", "flags": ["\\Seen"], "keywords": [], "size": FIRST.len(),
        "message_id": "one@a.example", "in_reply_to": ["zero@a.example"],
        "references": ["minus@a.example", "zero@a.example"],
    });
    assert_eq!(lines[0], expected);
    assert_eq!(lines[1]["date"], "2024-03-04T10:00:00-09:30");
    for key in ["date", "message_id"] {
        assert_eq!(lines[2][key], Value::Null, "{key}");
    }
    for key in ["from", "to", "cc", "in_reply_to", "references"] {
        assert_eq!(lines[2][key], json!([]), "{key}");
    }
}

#[test]
fn orders_and_windows() {
    let (world, path) = world();
    let check = |args: &[&str], expected: &[u64]| {
        assert_eq!(uids(&world.json(&[&["ls", &path], args].concat())), expected, "{args:?}");
    };
    check(&[], &[1, 2, 3]);
    check(&["--limit", "2"], &[2, 3]);
    check(&["--first", "2"], &[1, 2]);
    check(&["-n", "0"], &[]);
    check(&["--limit", "4294967295"], &[1, 2, 3]);
    check(&["--sort", "date"], &[3, 2, 1]);
    check(&["--sort", "reverse:date", "--limit", "1"], &[3]);
    check(&["--sort", "size", "--first", "1"], &[3]);
    check(&["--sort", "subject"], &[3, 2, 1]);
    check(&["--sort", "from", "--sort", "reverse:arrival"], &[3, 1, 2]);
    check(&["--sort", "displayfrom"], &[3, 1, 2]);
}

#[test]
fn lines_for_people() {
    let (world, path) = world();
    let pad = " ".repeat(24);
    let expected = format!(
        "1  -----  2024-03-05 14:22  Jürg Example{}  Grüße aus Bern\n\
         2  -----  2024-03-04 10:00  zoe@a.example{}  b\n\
         3  -----  2020-09-13 12:26  {pad}  a\n",
        &pad[12..],
        &pad[13..],
    );
    assert_eq!(world.ok(&["ls", &path]), expected);
    let colored = world.ok(&["ls", &path, "--color", "always"]);
    assert!(colored.contains("\x1b[") && colored.len() > expected.len());
}

#[test]
fn flags_and_keywords_are_shown() {
    let world = World::new();
    let from = "From a@b Tue Mar  5 12:22:10 2024\n";
    let message = "Status: RO\nX-Status: AFT\nX-Keywords: work $Forwarded\nSubject: s\n\nx\n\n";
    let path = world.write("box.mbox", format!("{from}{message}").as_bytes());
    let lines = world.json(&["ls", &path]);
    assert_eq!(lines[0]["flags"], json!(["\\Answered", "\\Flagged", "\\Seen", "\\Draft"]));
    assert_eq!(lines[0]["keywords"], json!(["work", "$Forwarded"]));
    assert!(world.ok(&["ls", &path]).contains("1  -AF-T  2024-03-05 12:22  "));
}

#[test]
fn the_imap_size_comes_when_asked_for() {
    let world = World::new();
    let large = format!("Subject: large\n\n{}", "a line of text\n".repeat(100_000));
    let path = world.maildir("box", &[&large]);
    assert_eq!(world.json(&["ls", &path])[0].get("rfc822_size"), None);
    let size = large.len() + large.lines().count();
    assert_eq!(world.json(&["ls", "--rfc822-size", &path])[0]["rfc822_size"], size);
    // Other output does not show that it is known now.
    assert_eq!(world.json(&["ls", &path])[0].get("rfc822_size"), None);
}

#[test]
fn formats_agree() {
    let (world, maildir) = world();
    let mbox = world.write("box.mbox", mbox(&[FIRST, SECOND, THIRD]).as_bytes());
    let (left, right) = (world.json(&["ls", &maildir]), world.json(&["ls", &mbox]));
    assert_eq!(left.len(), right.len());
    for (left, right) in left.iter().zip(&right) {
        for key in ["uid", "date", "from", "to", "cc", "subject", "message_id", "references"] {
            assert_eq!(left[key], right[key], "{key}");
        }
    }
    assert_eq!(world.json(&["ls", &format!("mbox:{mbox}")]), right);
    assert_eq!(world.json(&["ls", &format!("maildir:{maildir}")]), left);
}

#[test]
fn many_lines_keep_their_order() {
    let world = World::new();
    let messages: String = (1..=40_000)
        .map(|n| format!("From a@b Tue Mar  5 12:22:10 2024\nSubject: message {n}\n\n\n"))
        .collect();
    let path = world.write("box.mbox", messages.as_bytes());
    let lines = world.json(&["ls", &path]);
    assert_eq!(lines.len(), 40_000);
    for (number, line) in (1..).zip(&lines) {
        assert_eq!((&line["uid"], &line["seq"]), (&json!(number), &json!(number)));
        assert_eq!(line["subject"], format!("message {number}"));
    }
}

#[test]
fn a_closed_pipe_is_quiet() {
    let world = World::new();
    let one = "From a@b Tue Mar  5 12:22:10 2024\nSubject: a subject of some length\n\n\n";
    let path = world.write("box.mbox", one.repeat(20_000).as_bytes());
    for json in [&[][..], &["--json"]] {
        let mut child = world.start(&[&["ls", &path], json].concat());
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
