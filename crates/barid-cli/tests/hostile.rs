//! Mail that tries to control the terminal.

use crate::support::World;

const HOSTILE: &str = "\
From: \"\x1b]0;owned\x07\" <a\x1b[2J@b.example>
Subject: \x1b[31mred\x1b[0m \u{202e}gnp.exe\u{202c} =?utf-8?q?=1B=5D52=3Bc=3B=07=C2=9B2J=0A=0Aline?=
To: =?utf-8?q?=E2=80=AE=00?= <t@b.example>
Date: Tue, 5 Mar 2024 12:22:10 +0000
Message-ID: <\x1b[1m@b>
X-Bell: \x07

body \x1b[31m\u{202e}\u{9b}31m \x08\x08 end\r\nlast
";

fn assert_harmless(text: &str) {
    let steers = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(c, '\u{2066}'..='\u{2069}')
    };
    assert!(!text.chars().any(steers), "{text:?}");
}

fn world() -> (World, String) {
    let world = World::new();
    let path = world.maildir("box", &[HOSTILE]);
    (world, path)
}

#[test]
fn lists_are_harmless() {
    let (world, path) = world();
    for args in [&["ls"][..], &["thread"], &["ls", "--json"], &["thread", "--json"]] {
        let text = world.ok(&[args, &[path.as_str()]].concat());
        assert_harmless(&text);
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    assert!(
        world
            .ok(&["ls", &path])
            .contains("^[[31mred^[[0m <U+202E>gnp.exe<U+202C> ^[]52;c;^G<U+009B>2J line")
    );
    let json = world.json(&["ls", &path]);
    assert!(json[0]["subject"].as_str().unwrap().starts_with("\u{1b}[31mred\u{1b}[0m \u{202e}gnp"));
}

#[test]
fn messages_are_harmless() {
    let (world, path) = world();
    for args in [&[][..], &["--headers"], &["--structure"], &["--json"], &["--structure", "--json"]]
    {
        let text = world.ok(&[&["show", path.as_str(), "1"], args].concat());
        assert_harmless(&text);
    }
    assert!(
        world.ok(&["show", &path, "1"]).contains("body ^[[31m<U+202E><U+009B>31m ^H^H end\nlast\n")
    );
    assert_eq!(world.run(&["show", "--raw", &path, "1"]).stdout, HOSTILE.as_bytes());
}

#[test]
fn names_of_files_are_harmless() {
    let world = World::new();
    let path = world.create_dir("\u{1b}[31m\u{202e}box");
    let run = world.run(&["status", &path]);
    assert_eq!(run.code, 2);
    assert_harmless(&run.stderr);
    assert!(run.stderr.contains("^[[31m<U+202E>box"), "{}", run.stderr);
}

#[test]
fn what_is_no_utf8_is_replaced() {
    let world = World::new();
    let mut mail = b"From a@b Tue Mar  5 12:22:10 2024\nSubject: =?utf-8?q?=FF=FE?= \xff\nFrom: \xe9\xff <a@b>\n".to_vec();
    mail.extend_from_slice(b"Message-ID: <\xff@x>\n\nbody \xff\xfe\n\n");
    let path = world.write("box.mbox", &mail);
    let lines = world.json(&["ls", &path]);
    assert!(lines[0]["subject"].as_str().unwrap().contains('\u{fffd}'));
    world.ok(&["ls", &path]);
    world.ok(&["show", &path, "1"]);
    world.json(&["show", &path, "1"]);
}
