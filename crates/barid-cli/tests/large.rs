//! Messages that do not fit into memory: read in part, in pieces, or refused by name and size.

use std::process::Command;

use crate::support::{Run, World};

/// Data limit of the program in bytes: 64 MB for messages, the rest for itself and its threads.
const DATA_LEN_MAX: u64 = 88 << 20;
/// Size of the attachment of the large message in bytes.
const ATTACHED_LEN: usize = 40 << 20;
/// Size of a sparse file in bytes, larger than any memory limit.
const HOLE_LEN: u64 = 3 << 30;

fn large() -> String {
    let line = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVpBQkNERUZHSElKS0xNTk9QUVJTVFVWV1hZWkFCQ0RFRkdI\n";
    format!(
        "Subject: large\nContent-Type: multipart/mixed; boundary=b\n\n\
         --b\n\nfirst needle\n>From here\n--b\nContent-Type: application/x-y; name=z\n\
         Content-Transfer-Encoding: base64\n\n{}--b\n\nlast needle\n--b--\n",
        line.repeat(ATTACHED_LEN / line.len())
    )
}

/// Runs the program with no more memory than it should need.
fn run(world: &World, args: &[&str]) -> Run {
    let mut command = Command::new("sh");
    let own = world.command();
    let script = format!("ulimit -d {} && exec \"$@\"", DATA_LEN_MAX >> 10);
    command.args(["-c", &script, "sh"]).arg(own.get_program()).args(args).env_clear();
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Run::of(command.current_dir(world.path("")).output().unwrap())
}

/// Runs the program, which must succeed.
fn ok(world: &World, args: &[&str]) -> Vec<u8> {
    let run = run(world, args);
    assert_eq!((run.code, &*run.stderr), (0, ""), "{args:?}");
    run.stdout
}

/// Runs the program, which must refuse a message because of its size and continue.
fn refused(world: &World, size: &str, args: &[&str]) {
    let run = run(world, args);
    assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
    assert!(
        run.stderr.contains(size) && run.stderr.contains("too large"),
        "{args:?}: {}",
        run.stderr
    );
}

/// Runs all reading verbs on the second message of a mailbox.
fn check(world: &World, mailbox: &str) {
    let has = |bytes: &[u8], text: &str| String::from_utf8_lossy(bytes).contains(text);
    assert_eq!(ok(world, &["search", mailbox, "BODY \"last needle\""]), b"2\n", "{mailbox}");
    assert_eq!(ok(world, &["search", mailbox, "BODY needle"]), b"1:2\n", "{mailbox}");
    assert_eq!(run(world, &["search", mailbox, "BODY QUJDREVG"]).code, 1, "{mailbox}");
    assert_eq!(ok(world, &["search", mailbox, "LARGER 41000000"]), b"2\n", "{mailbox}");
    let shown = ok(world, &["show", mailbox, "1:2"]);
    assert!(has(&shown, "last needle") && has(&shown, "small"), "{mailbox}");
    assert!(has(&ok(world, &["show", "--structure", mailbox, "2"]), "MB"), "{mailbox}");
    let part = ok(world, &["show", "--part", "3", mailbox, "2"]);
    assert_eq!(part.trim_ascii_end(), b"last needle", "{mailbox}");
    let raw = ok(world, &["show", "--raw", mailbox, "2"]);
    let raw = String::from_utf8(raw).unwrap().replace('\r', "");
    assert!(raw.trim_end() == large().trim_end(), "{mailbox}: {} bytes", raw.len());
    let fetched = ok(world, &["fetch", mailbox, "1:2", "BODY[]<0.10>", "BODY[3]", "RFC822.SIZE"]);
    assert!(has(
        &fetched,
        "BODY[]<0> {10}\r\nSubject: l BODY[3] {11}\r\nlast needle RFC822.SIZE 42461032"
    ));
    refused(world, "too large", &["fetch", mailbox, "2", "BODY[]"]);
    check_ranges(world, mailbox);
}

/// Fetches byte ranges from the middle and the end of the second message of a mailbox.
fn check_ranges(world: &World, mailbox: &str) {
    let wire = large().replace('\n', "\r\n");
    let body = wire.find("\r\n\r\n").unwrap() + 4;
    let part = wire.find("QUJD").unwrap();
    for (item, from, first, count) in [
        ("BODY[]", 0, 20_000_000, 1000),
        ("BODY[]", 0, wire.len() - 500, 500),
        ("BODY[TEXT]", body, 30_000_000, 77),
        ("BODY[2]", part, 41_000_000, 300),
    ] {
        let text = &wire[from + first..][..count];
        let expected = format!("{item}<{first}> {{{count}}}\r\n{text})\r\n");
        let range = format!("{item}<{first}.1000>");
        let range = if count == 500 { range } else { format!("{item}<{first}.{count}>") };
        let fetched = String::from_utf8(ok(world, &["fetch", mailbox, "2", &range])).unwrap();
        assert!(fetched.ends_with(&expected), "{mailbox} {range}: {fetched}");
    }
}

#[test]
fn large_messages_are_read_in_part() {
    let world = World::new();
    let small = "Subject: small\n\nneedle\n";
    let maildir = world.maildir("maildir", &[small, &large()]);
    for target in ["mboxrd:rd", "mbx:mbx", "mix:mix", "mh:mh"] {
        world.ok(&["convert", &maildir, target]);
    }
    let gzip = Command::new("gzip").args(["-1k", "rd"]).current_dir(world.path("")).status();
    assert!(gzip.unwrap().success());
    for mailbox in ["maildir", "mboxrd:rd", "mboxrd:rd.gz", "mbx", "mix", "mh"] {
        check(&world, mailbox);
    }
}

#[test]
fn holes_are_refused() {
    let world = World::new();
    let small = "Subject: small\n\nneedle\n";
    let maildir = world.maildir("maildir", &[small, "Subject: hole\n\n"]);
    let hole = world.path("maildir/cur/1600000001.M1.host:2,S");
    barid_testkit::disk::set_len(hole.as_ref(), HOLE_LEN).unwrap();
    let size = HOLE_LEN.to_string();
    for args in [
        &["show", &maildir, "1:2"][..],
        &["search", &maildir, "BODY needle"],
        &["fetch", &maildir, "1:2", "BODY[]"],
        &["convert", &maildir, "mix:mix"],
        &["spam", "train", "--spam", &maildir],
    ] {
        refused(&world, &size, args);
    }
    let fetched = ok(&world, &["fetch", &maildir, "2", "BODY[]<0.13>", "BODY[HEADER]"]);
    assert!(fetched.starts_with(b"* 2 FETCH (UID 2 BODY[]<0> {13}\r\nSubject: hole BODY[HEADER]"));
}
