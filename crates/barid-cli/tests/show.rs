//! `barid show`.

use serde_json::json;

use crate::support::{World, mbox};

const PLAIN: &str = "\
Status: RO
From: =?utf-8?q?J=C3=BCrg?= <j@a.example>
To: b@b.example
Subject: =?utf-8?b?R3LDvMOfZQ==?=
Date: Tue, 5 Mar 2024 12:22:10 +0000
X-UID: 77
Received: from a
\tby b
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

Sch=F6ne Gr=FC=DFe
>From me=
 to you
";

const PARTS: &str = "\
From: a@a.example
Subject: parts
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=outer

preamble
--outer
Content-Type: multipart/alternative; boundary=inner

--inner
Content-Type: text/plain

the plain text
--inner
Content-Type: text/html

<p>the <b>html</b> text</p>
--inner--
--outer
Content-Type: application/octet-stream; name=\"data.bin\"
Content-Transfer-Encoding: base64
Content-Disposition: attachment; filename=\"data.bin\"

AAEC/w==
--outer
Content-Type: message/rfc822

Subject: inside

inner body
--outer--
";

const HTML: &str = "\
Subject: html
Content-Type: text/html; charset=utf-8

<html><head><style>p { color: red }</style></head><body><h1>Title</h1><p>One &amp; two</p>
<script>alert(1)</script><ul><li>item</li></ul></body></html>
";

fn world() -> (World, String) {
    let world = World::new();
    let path = world.maildir("box", &[PLAIN, PARTS, HTML]);
    (world, path)
}

#[test]
fn headers_and_text() {
    let (world, path) = world();
    let expected = "From: Jürg <j@a.example>\nTo: b@b.example\n\
        Date: Tue, 5 Mar 2024 12:22:10 +0000\nSubject: Grüße\n\nSchöne Grüße\n>From me to you\n";
    assert_eq!(world.ok(&["show", &path, "1"]), expected);
}

#[test]
fn of_alternatives_the_plain_one_is_shown_and_attachments_are_listed() {
    let (world, path) = world();
    let text = world.ok(&["show", &path, "2"]);
    assert!(text.contains("\nthe plain text\n"), "{text}");
    assert!(!text.contains("html") && !text.contains("preamble"), "{text}");
    assert!(text.contains("data.bin") && text.contains("application/octet-stream"), "{text}");
}

#[test]
fn html_is_shown_as_text() {
    let (world, path) = world();
    let text = world.ok(&["show", &path, "3"]);
    assert!(
        text.contains("Title") && text.contains("One & two") && text.contains("item"),
        "{text}"
    );
    for gone in ["<p>", "alert", "color"] {
        assert!(!text.contains(gone), "{gone} in {text}");
    }
}

#[test]
fn raw_bytes() {
    let (world, path) = world();
    let same = PLAIN.replace("Status: RO\n", "").replace("X-UID: 77\n", "");
    assert_eq!(world.ok(&["show", "--raw", &path, "1"]), same);
    assert_eq!(world.ok(&["show", "--raw=message", &path, "1"]), same);
    assert_eq!(world.ok(&["show", "--raw=stored", &path, "1"]), PLAIN);
    let stored = mbox(&[PLAIN, PARTS]);
    let path = world.write("box.mbox", stored.as_bytes());
    assert_eq!(world.ok(&["show", "--raw", &path, "1:*"]), format!("{same}{PARTS}"));
    let first = mbox(&[PLAIN]);
    assert!(world.ok(&["show", "--raw=stored", &path, "*"]).starts_with("From a@b.example "));
    assert!(first.starts_with(&world.ok(&["show", "--raw=stored", &path, "1"])));
    let unquoted = same.replace("\n>From me", "\nFrom me");
    assert_eq!(world.ok(&["show", "--raw", &format!("mboxrd:{path}"), "1"]), unquoted);
}

#[test]
fn all_headers_decoded() {
    let (world, path) = world();
    let text = world.ok(&["show", "--headers", &path, "1"]);
    assert!(text.starts_with("From: Jürg <j@a.example>\n"), "{text}");
    assert!(
        text.contains("\nReceived: from a by b\n") && text.contains("\nSubject: Grüße\n"),
        "{text}"
    );
    assert!(!text.contains("X-UID") && !text.contains("Sch"), "{text}");
    let lines = world.json(&["show", "--headers", &path, "1"]);
    assert_eq!(lines[0]["headers"][0], json!({"name": "From", "value": "Jürg <j@a.example>"}));
    assert_eq!(lines[0].get("text"), None);
}

#[test]
fn structure() {
    let (world, path) = world();
    let lines = world.json(&["show", "--structure", &path, "2"]);
    let parts = lines[0]["parts"].as_array().unwrap();
    let shape: Vec<_> = parts.iter().map(|p| json!([p["part"], p["depth"], p["type"]])).collect();
    let expected = [
        json!(["TEXT", 0, "multipart/mixed"]),
        json!(["1", 1, "multipart/alternative"]),
        json!(["1.1", 2, "text/plain"]),
        json!(["1.2", 2, "text/html"]),
        json!(["2", 1, "application/octet-stream"]),
        json!(["3", 1, "message/rfc822"]),
        json!(["3.1", 2, "text/plain"]),
    ];
    assert_eq!(shape, expected);
    assert_eq!(parts[4]["filename"], "data.bin");
    assert_eq!(parts[4]["disposition"], "attachment");
    assert_eq!(parts[4]["encoding"], "base64");
    let text = world.ok(&["show", "--structure", &path, "2"]);
    assert!(text.contains("├─ 2") && text.contains("application/octet-stream"), "{text}");
}

#[test]
fn bytes_that_are_not_text_are_fetched_as_base64() {
    let (world, path) = world();
    let lines = world.json(&["fetch", &path, "2", "BINARY[2]"]);
    let text = lines[0].to_string();
    assert!(text.contains(r#""base64":"AAEC/w==""#), "{text}");
}

#[test]
fn parts_are_decoded() {
    let (world, path) = world();
    let part = |number: &str| world.run(&["show", "--part", number, &path, "2"]);
    assert_eq!(part("2").stdout, [0, 1, 2, 255]);
    assert_eq!(part("1.1").text().trim_end(), "the plain text");
    assert_eq!(part("3.1").text().trim_end(), "inner body");
    let missing = part("9");
    assert_eq!(missing.code, 1);
    assert!(missing.stderr.contains("has no part 9") && missing.stderr.contains("--structure"));
    world.ok(&["show", "--part", "2", "-o", "out.bin", &path, "2"]);
    assert_eq!(world.read("out.bin"), [0, 1, 2, 255]);
    let raw = world.ok(&["show", "--raw", &path, "1"]);
    assert_eq!(world.ok(&["show", "--raw", "-o", "out.bin", &path, "1"]), "");
    assert_eq!(world.read("out.bin"), raw.as_bytes());
    let many = world.run(&["show", "--raw", "-o", "many", &path, "1:*"]);
    assert_eq!((many.code, world.has("many")), (2, false), "{}", many.stderr);
    // The transfer encoding is undone; the charset is the part's own.
    let plain = world.run(&["show", "--part", "1", &path, "1"]);
    assert_eq!(plain.stdout, b"Sch\xf6ne Gr\xfc\xdfe\n>From me to you\n");
}

#[test]
fn json() {
    let (world, path) = world();
    let lines = world.json(&["show", &path, "1:*"]);
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[0]["uid"], &lines[0]["seq"]), (&json!(1), &json!(1)));
    assert_eq!(lines[0]["text"], "Schöne Grüße\n>From me to you\n");
    let expected = json!({
        "part": "2", "type": "application/octet-stream", "filename": "data.bin", "size": 8,
    });
    assert_eq!(lines[1]["attachments"][0], expected);
}

#[test]
fn which_messages() {
    let (world, path) = world();
    let count = |uids: &[&str]| {
        let run = world.run(&[&["show", "--json", &path], uids].concat());
        (run.code, run.text().lines().count(), run.stderr.lines().count() > 0)
    };
    assert_eq!(count(&["1"]), (0, 1, false));
    assert_eq!(count(&["1", "3"]), (0, 2, false));
    assert_eq!(count(&["1,3"]), (0, 2, false));
    assert_eq!(count(&["2:*"]), (0, 2, false));
    assert_eq!(count(&["*"]), (0, 1, false));
    assert_eq!(count(&["99"]), (1, 0, true));
    assert_eq!(count(&["1", "99"]), (1, 1, true));
    assert_eq!(count(&["50:60"]), (1, 0, false));
    let run = world.run(&["show", &path, "99"]);
    assert!(run.stderr.contains("no message with UID 99\nhint: "), "{}", run.stderr);
}

#[test]
fn a_message_that_cannot_be_read_does_not_stop_the_others() {
    let (world, path) = world();
    world.ok(&["status", &path]);
    let name = "box/cur/1600000001.M1.host:2,S";
    world.remove(name);
    world.create_dir(name);
    let run = world.run(&["show", "--json", &path, "1:*"]);
    assert!(run.text().lines().count() >= 2, "{}", run.stderr);
    assert_ne!(run.code, 101);
}
