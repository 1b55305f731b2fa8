//! `barid thread`.

use serde_json::json;

use crate::support::World;

fn message(id: &str, references: &str, subject: &str, minute: u32) -> String {
    format!(
        "Message-ID: <{id}@x>\nReferences: {references}\nSubject: {subject}\nFrom: {id}@x\n\
         Date: Tue, 5 Mar 2024 12:{minute:02}:00 +0000\n\nx\n"
    )
}

/// Threads 1 ─ 2 ─ 3 and 1 ─ 4; messages 5 and 6 reply to a missing message.
fn world() -> (World, String) {
    let world = World::new();
    let messages = [
        message("a", "", "first", 0),
        message("b", "<a@x>", "Re: first", 1),
        message("c", "<a@x> <b@x>", "Re: first", 2),
        message("d", "<a@x>", "Re: first", 30),
        message("e", "<gone@x>", "Re: other", 4),
        message("f", "<gone@x>", "Re: other", 5),
        message("g", "", "alone", 6),
    ];
    let path = world.maildir("box", &messages.each_ref().map(String::as_str));
    (world, path)
}

#[test]
fn imap_reply() {
    let (world, path) = world();
    let check = |args: &[&str], expected: &str| {
        let text = world.ok(&[&["thread", "--imap", &path], args].concat());
        assert_eq!(text, format!("* THREAD {expected}\n"), "{args:?}");
    };
    check(&[], "(1 (2 3)(4))((5)(6))(7)");
    check(&["--algorithm", "refs"], "((5)(6))(7)(1 (2 3)(4))");
    check(&["--algorithm", "orderedsubject"], "(1 (2)(3)(4))(5 6)(7)");
    world.remove("box/cur/1600000000.M0.host:2,S");
    check(&["--uid"], "((2 3)(4))((5)(6))(7)");
    check(&[], "((1 2)(3))((4)(5))(6)");
}

#[test]
fn trees() {
    let (world, path) = world();
    let text = world.ok(&["thread", &path]);
    let shapes: Vec<_> = text.lines().map(|line| &line[line.len().min(54)..]).collect();
    let expected = [
        "first",
        "├─ Re: first",
        "│  └─ Re: first",
        "└─ Re: first",
        "(not here)",
        "├─ Re: other",
        "└─ Re: other",
        "alone",
    ];
    assert_eq!(shapes, expected, "{text}");
    let mut plain = world.command();
    let output = plain.env("LC_ALL", "C").args(["thread", &path]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("|- Re: first\n") && text.is_ascii(), "{text}");
}

#[test]
fn json_is_flat() {
    let (world, path) = world();
    let threads = world.json(&["thread", &path]);
    assert_eq!(threads.len(), 3);
    let pairs = |at: usize| {
        let messages = threads[at]["messages"].as_array().unwrap();
        messages.iter().map(|m| json!([m["uid"], m["depth"]])).collect::<Vec<_>>()
    };
    assert_eq!(pairs(0), [json!([1, 0]), json!([2, 1]), json!([3, 2]), json!([4, 1])]);
    assert_eq!(pairs(1), [json!([null, 0]), json!([5, 1]), json!([6, 1])]);
    let first = &threads[0]["messages"][0];
    assert_eq!(first["subject"], "first");
    assert_eq!(first["from"], json!([{"name": null, "address": "a@x"}]));
    assert_eq!(first["date"], "2024-03-05T12:00:00Z");
}

#[test]
fn the_newest_are_the_last() {
    let (world, path) = world();
    let newest = world.json(&["thread", "--algorithm", "refs", "--newest", "1", &path]);
    assert_eq!(newest.len(), 1);
    assert_eq!(newest[0]["messages"][0]["uid"], 1);
    assert_eq!(world.ok(&["thread", "-n", "1", &path]).lines().count(), 1);
    assert_eq!(world.ok(&["thread", "-n", "0", &path]), "");
}

#[test]
fn a_deep_thread_is_no_deep_json() {
    let world = World::new();
    let messages: Vec<_> = (0..2000)
        .map(|n| {
            let parent = if n == 0 { String::new() } else { format!("<m{}@x>", n - 1) };
            message(&format!("m{n}"), &parent, "deep", 0)
        })
        .collect();
    let path = world.write(
        "box.mbox",
        crate::support::mbox(&messages.iter().map(String::as_str).collect::<Vec<_>>()).as_bytes(),
    );
    let threads = world.json(&["thread", &path]);
    assert_eq!(threads.len(), 1);
    assert_eq!(threads[0]["messages"][1999]["depth"], 1999);
    let text = world.ok(&["thread", &path]);
    assert!(text.lines().all(|line| line.chars().count() < 200));
    assert!(
        text.ends_with("└─ deep\n") && text.contains("+1967 "),
        "{}",
        &text[text.len() - 300..]
    );
}
