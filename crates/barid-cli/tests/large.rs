//! Messages that do not fit into memory: read in part, in pieces, or refused by name and size.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the program is tested from outside, on real files"
)]

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
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

/// Bytes of random text in a message that is copied.
const RANDOM_LEN: u64 = 300 << 20;
/// Bytes of a message that is copied and has next to nothing in it.
const SPARSE_LEN: u64 = 1 << 30;

/// Writes a message of random lines, some of which are those that an mbox quotes.
fn write_random(path: &Path) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    let mut rng = fastrand::Rng::with_seed(11);
    file.write_all(b"Subject: random\nFrom: a@b\n\n").unwrap();
    let (mut written, mut block) = (0, vec![0; 64 << 10]);
    while written < RANDOM_LEN {
        block.fill_with(|| rng.u8(..));
        block.iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'x');
        file.write_all(&block).unwrap();
        let marks = ">".repeat(rng.usize(..3));
        writeln!(file, "\n{marks}From here").unwrap();
        written += block.len() as u64;
    }
}

/// Compares two files.
fn same(one: &Path, other: &Path) {
    let status = Command::new("cmp").args([one, other]).status().unwrap();
    assert!(status.success(), "{} {}", one.display(), other.display());
}

/// The messages of a Maildir by their sizes.
fn messages(maildir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = ["cur", "new"]
        .iter()
        .flat_map(|folder| barid_testkit::disk::list(&maildir.join(folder)).unwrap())
        .collect();
    all.sort_by_key(|path| path.metadata().unwrap().len());
    all
}

/// Runs the program with no more memory than it should need.
fn run(world: &World, args: &[&str]) -> Run {
    run_with(world, DATA_LEN_MAX, args)
}

/// Runs the program with so many bytes of data.
fn run_with(world: &World, data_len_max: u64, args: &[&str]) -> Run {
    let mut command = Command::new("sh");
    let own = world.command();
    let script = format!("ulimit -d {} && exec \"$@\"", data_len_max >> 10);
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
fn messages_of_any_size_are_copied_expunged_and_brought_back() {
    let world = World::new();
    let maildir = world.maildir("first", &["Subject: small\n\nx\n", "", "Subject: sparse\n\n"]);
    write_random(&world.path("first/cur/1600000001.M1.host:2,S"));
    let sparse = world.path("first/cur/1600000002.M2.host:2,S");
    barid_testkit::disk::set_len(&sparse, SPARSE_LEN).unwrap();
    let mut end = OpenOptions::new().append(true).open(&sparse).unwrap();
    end.write_all(b"end\n").unwrap();
    let mut source = maildir;
    for target in ["mboxrd:rd", "mbx:mbx", "mix:mix", "mh:mh", "maildir:last"] {
        ok(&world, &["convert", &source, target]);
        if target == "mboxrd:rd" {
            // Copies are kept, since there is one file.
            ok(&world, &["expunge", target, "1:3", "--keep-expunged", "3GB"]);
            ok(&world, &["undo", target]);
        }
        if source != world.path("first").to_str().unwrap() {
            world.remove(source.split_once(':').unwrap().1);
        }
        source = target.to_owned();
    }
    ok(&world, &["expunge", "last", "all"]);
    assert_eq!(messages(&world.path("last")).len(), 0);
    ok(&world, &["undo", "last"]);
    let (first, last) = (messages(&world.path("first")), messages(&world.path("last")));
    assert_eq!(last.len(), 3);
    for (one, other) in first.iter().zip(&last) {
        same(one, other);
    }
}

/// Bytes of a text that a small compressed file stands for.
const BOMB_LEN: u64 = 512 << 20;
/// Bytes of the largest window that a decoder takes.
const WINDOW_LEN: u64 = 128 << 20;

/// Compresses an mbox of two messages; `script` writes the rest of the second.
fn bomb(world: &World, name: &str, program: &str, script: &str) {
    let script = format!(
        "(printf 'From a@b Sat Jan  3 01:05:34 1996\\nSubject: small\\n\\nneedle\\n\\n'
          printf 'From a@b Sat Jan  3 01:05:35 1996\\nSubject: bomb'
          {script}) | {program} > {name}"
    );
    let made = Command::new("sh").args(["-c", &script]).current_dir(world.path("")).status();
    assert!(made.unwrap().success(), "{name}");
}

#[test]
fn bombs_are_read_in_bounded_memory() {
    let world = World::new();
    for (name, program, window) in [
        ("b.gz", "gzip -1", 0),
        ("b.bz2", "bzip2 -9", 0),
        ("b.zst", "zstd -q -1 --long=27", WINDOW_LEN),
        ("b.xz", "xz -0 --lzma2=preset=0,dict=128MiB", WINDOW_LEN),
    ] {
        let body = format!("printf '\\n\\n'; head -c {BOMB_LEN} /dev/zero; echo");
        bomb(&world, name, program, &body);
        assert!(world.path(name).metadata().unwrap().len() < 4 << 20, "{name}");
        let ok = |args: &[&str]| {
            let run = run_with(&world, DATA_LEN_MAX + window, args);
            assert_eq!((run.code, &*run.stderr), (0, ""), "{args:?}");
            String::from_utf8(run.stdout).unwrap()
        };
        let mailbox = format!("mboxrd:{name}");
        assert!(ok(&["ls", &mailbox]).contains("bomb"), "{name}");
        let search = ["search", &mailbox, "BODY needle"];
        let found = run_with(&world, DATA_LEN_MAX + window, &search);
        assert_eq!((found.code, &*found.stdout), (2, &b"1\n"[..]), "{name}: {}", found.stderr);
        assert!(found.stderr.contains("too large"), "{name}: {}", found.stderr);
        assert!(ok(&["show", &mailbox, "1"]).contains("needle"), "{name}");
        let target = format!("maildir:{name}.copy");
        ok(&["convert", &mailbox, &target]);
        let copied = messages(&world.path(&format!("{name}.copy")));
        let lens: Vec<u64> = copied.iter().map(|path| path.metadata().unwrap().len()).collect();
        assert_eq!(lens, [23, 16 + BOMB_LEN], "{name}");
        world.remove(&format!("{name}.copy"));
    }
}

#[test]
fn windows_beyond_the_bound_are_refused() {
    let world = World::new();
    for (name, program) in
        [("w.zst", "zstd -q -1 --ultra --long=31"), ("w.xz", "xz -0 --lzma2=preset=0,dict=512MiB")]
    {
        bomb(&world, name, program, &format!("printf '\\n\\n'; head -c {BOMB_LEN} /dev/zero"));
        let run = run_with(&world, DATA_LEN_MAX, &["ls", &format!("mboxrd:{name}")]);
        assert_ne!(run.code, 0, "{name}");
        assert!(run.stderr.contains(name), "{name}: {}", run.stderr);
        assert!(!run.stderr.contains("alloc"), "{name}: {}", run.stderr);
    }
}

#[test]
fn headers_without_an_end_are_cut() {
    let world = World::new();
    for (name, program) in [("h.gz", "gzip -1"), ("h.zst", "zstd -q -1"), ("h.xz", "xz -0")] {
        bomb(&world, name, program, &format!("head -c {BOMB_LEN} /dev/zero"));
        let run = run(&world, &["ls", &format!("mboxrd:{name}")]);
        assert!(run.stdout.len() > 20 && !run.stderr.contains("alloc"), "{name}: {}", run.stderr);
    }
    let maildir = world.maildir("maildir", &["Subject: hole"; 24]);
    for path in messages(&world.path("maildir")) {
        barid_testkit::disk::set_len(&path, 40 << 20).unwrap();
    }
    let listed = run(&world, &["ls", "--no-cache", &maildir]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    assert!(String::from_utf8(listed.stdout).unwrap().lines().count() >= 24);
    let listed = run(&world, &["ls", &maildir]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
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
        &["spam", "train", "--spam", &maildir],
    ] {
        refused(&world, &size, args);
    }
    let fetched = ok(&world, &["fetch", &maildir, "2", "BODY[]<0.13>", "BODY[HEADER]"]);
    assert!(fetched.starts_with(b"* 2 FETCH (UID 2 BODY[]<0> {13}\r\nSubject: hole BODY[HEADER]"));
}
