//! Messages that do not fit into memory: read in part, in pieces, or refused by name and size.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the program is tested from outside, on real files"
)]

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read as _, Write as _};
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

/// Size in bytes of texts that do not fit into the limit, nor does half of one.
const BEYOND_LEN: u64 = 2 * DATA_LEN_MAX + (4 << 20);
/// Enough for both, named so that the test passes on a disk that is more than 90 % full, too.
const KEPT_MAX: &str = "3GB";

/// Writes a message of random lines, some of which are those that an mbox quotes.
fn write_random(path: &Path) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    let mut rng = fastrand::Rng::with_seed(11);
    file.write_all(b"Subject: random\nFrom: a@b\n\n").unwrap();
    let (mut written, mut block) = (0, vec![0; 64 << 10]);
    while written < BEYOND_LEN {
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
    Run::of(limited(world, data_len_max, args).output().unwrap())
}

/// Returns the program with so many bytes of data.
fn limited(world: &World, data_len_max: u64, args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let own = world.command();
    let script = format!("ulimit -d {} && exec \"$@\"", data_len_max >> 10);
    command.args(["-c", &script, "sh"]).arg(own.get_program()).args(args).env_clear();
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(world.path(""));
    command
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
    barid_testkit::disk::set_len(&sparse, BEYOND_LEN).unwrap();
    let mut end = OpenOptions::new().append(true).open(&sparse).unwrap();
    end.write_all(b"end\n").unwrap();
    let mut source = maildir;
    for target in ["mboxrd:rd", "mbx:mbx", "mix:mix", "mh:mh", "maildir:last"] {
        ok(&world, &["convert", &source, target]);
        if target == "mboxrd:rd" {
            // Copies are kept, since there is one file.
            ok(&world, &["expunge", target, "1:3", "--keep-expunged", KEPT_MAX]);
            ok(&world, &["undo", target]);
        }
        if source != world.path("first").to_str().unwrap() {
            world.remove(source.split_once(':').unwrap().1);
        }
        source = target.to_owned();
    }
    ok(&world, &["expunge", "last", "all", "--keep-expunged", KEPT_MAX]);
    assert_eq!(messages(&world.path("last")).len(), 0);
    ok(&world, &["undo", "last"]);
    let (first, last) = (messages(&world.path("first")), messages(&world.path("last")));
    assert_eq!(last.len(), 3);
    for (one, other) in first.iter().zip(&last) {
        same(one, other);
    }
}

#[test]
fn mailboxes_with_large_messages_are_appended() {
    let world = World::new();
    world.maildir("maildir", &["Subject: small\n\nx\n", &large(), "Subject: last\n\n"]);
    for (target, source) in [
        ("mboxrd:rd", "maildir"),
        ("mbx:mbx", "mboxrd:rd"),
        ("mix:mix", "mbx"),
        ("mh:mh", "mix"),
        ("maildir:copy", "mh"),
    ] {
        ok(&world, &["append", "--create", "--mbox", target, source]);
        ok(&world, &["append", "--mbox", target, source]);
        assert_eq!(ok(&world, &["search", target, "BODY \"last needle\""]), b"2,5\n", "{target}");
        ok(&world, &["expunge", target, "4:6", "--forget"]);
    }
    let (first, last) = (messages(&world.path("maildir")), messages(&world.path("copy")));
    assert_eq!(last.len(), 3);
    for (one, other) in first.iter().zip(&last) {
        let text = std::fs::read_to_string(one).unwrap();
        let copied = std::fs::read_to_string(other).unwrap().replace("\r\n", "\n");
        assert!(text == copied, "{} {}", one.display(), other.display());
    }
}

#[test]
fn an_append_that_fails_midway_says_how_to_go_on() {
    let world = World::new();
    let endless = format!("Subject: endless\n{}", "X: y\n".repeat(4 << 20));
    let texts = ["Subject: one\n\nx\n", &large(), &endless, "Subject: four\n\n"];
    world.maildir("source", &texts);
    world.maildir("first", &["Subject: zero\n\n"]);
    for target in ["mboxrd:rd", "mh:mh", "maildir:copy"] {
        let failed = run(&world, &["append", "--create", "--mbox", target, "first", "source"]);
        assert_eq!(failed.code, 2, "{target}: {}", failed.stderr);
        assert!(failed.text().contains("appended 3 messages, UIDs 1:3"), "{}", failed.text());
        assert!(failed.stderr.contains("too large"), "{target}: {}", failed.stderr);
        let note = "note: 3 messages were appended before that: the same command with `--from 3` \
                    and without the files before source appends the others\n";
        assert!(failed.stderr.ends_with(note), "{target}: {}", failed.stderr);
        let again = run(&world, &["append", "--mbox", target, "--from", "3", "source"]);
        assert_eq!((again.code, &*again.text()), (2, ""), "{target}: {}", again.stderr);
        ok(&world, &["append", "--mbox", target, "--from", "4", "source", "first"]);
        let listed = String::from_utf8(ok(&world, &["ls", "--json", target])).unwrap();
        let mut lines = crate::support::parse_lines(&listed);
        lines.sort_by_key(|line| line["uid"].as_u64());
        let subjects: Vec<&str> =
            lines.iter().filter_map(|line| line["subject"].as_str()).collect();
        assert_eq!(subjects, ["zero", "one", "large", "four", "zero"], "{target}");
    }
}

#[test]
fn an_append_that_fails_after_a_large_last_message_says_how_to_go_on() {
    let world = World::new();
    world.maildir("source", &["Subject: one\n\nx\n", &large()]);
    world.maildir("second", &["Subject: two\n\n"]);
    let note = |rest: &str| {
        format!(
            "appended before that: the same command without the files before second{rest} appends \
             the others\n"
        )
    };
    for target in ["mboxrd:rd", "mh:mh", "maildir:copy"] {
        let append = ["append", "--create", "--mbox", target];
        world.rename("second", "elsewhere");
        let failed = run(&world, &[&append[..], &["source", "second"]].concat());
        assert_eq!(failed.code, 2, "{target}: {}", failed.stderr);
        assert!(failed.stderr.ends_with(&note("")), "{target}: {}", failed.stderr);
        let failed = run(&world, &[&append[..], &["--from", "2", "source", "second"]].concat());
        let and_from = note(" and without `--from`");
        assert!(failed.stderr.ends_with(&and_from), "{target}: {}", failed.stderr);
        // What would be named after the last message appends nothing.
        ok(&world, &[&append[..], &["--from", "3", "source"]].concat());
        world.rename("elsewhere", "second");
        ok(&world, &[&append[..], &["second"]].concat());
        let listed = String::from_utf8(ok(&world, &["ls", "--json", target])).unwrap();
        let lines = crate::support::parse_lines(&listed);
        let mut found: Vec<&str> =
            lines.iter().filter_map(|line| line["subject"].as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, ["large", "large", "one", "two"], "{target}");
    }
}

/// Size in bytes of the largest window that a decoder takes.
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
        let body = format!("printf '\\n\\n'; head -c {BEYOND_LEN} /dev/zero; echo");
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
        assert_eq!(lens, [23, 16 + BEYOND_LEN], "{name}");
        world.remove(&format!("{name}.copy"));
    }
}

#[test]
fn windows_beyond_the_bound_are_refused() {
    let world = World::new();
    for (name, program) in
        [("w.zst", "zstd -q -1 --ultra --long=31"), ("w.xz", "xz -0 --lzma2=preset=0,dict=512MiB")]
    {
        bomb(&world, name, program, &format!("printf '\\n\\n'; head -c {BEYOND_LEN} /dev/zero"));
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
        bomb(&world, name, program, &format!("head -c {BEYOND_LEN} /dev/zero"));
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

/// Size in bytes of a message that is appended by itself.
const APPENDED_LEN: u64 = 300 << 20;

/// Writes a message with CRLF, each block of which differs; returns the length of its header.
fn write_numbered(path: &Path) -> u64 {
    let mut file = BufWriter::new(File::create(path).unwrap());
    let (header, mut block) = ("Subject: numbered\r\n\r\n", vec![0; 64 << 10]);
    let mut rng = fastrand::Rng::with_seed(12);
    block.fill_with(|| rng.u8(b'0'..));
    file.write_all(header.as_bytes()).unwrap();
    for number in 0..APPENDED_LEN / block.len() as u64 {
        write!(file, "{number:08}").unwrap();
        file.write_all(&block).unwrap();
        file.write_all(b"\r\n").unwrap();
    }
    file.flush().unwrap();
    header.len() as u64
}

/// Returns the data file of a mailbox that has only one.
fn data_file(world: &World, mailbox: &str) -> PathBuf {
    let path = world.path(mailbox.split_once(':').unwrap().1);
    if path.is_file() {
        return path;
    }
    let folders = [path.clone(), path.join("cur"), path.join("new")];
    let files = folders.iter().filter_map(|folder| barid_testkit::disk::list_files(folder).ok());
    files.flatten().max_by_key(|file| file.metadata().unwrap().len()).unwrap()
}

#[test]
fn one_message_of_any_size_is_appended() {
    let world = World::new();
    let source = world.path("numbered");
    let header_len = write_numbered(&source);
    let body_len = source.metadata().unwrap().len() - header_len;
    for (target, is_file, end_len) in [
        ("maildir:md", true, 0),
        ("maildir:md-input", false, 0),
        ("mboxrd:rd", true, 1),
        ("mboxcl2:cl2", false, 1),
        ("mbx:x", true, 0),
        ("mix:m", false, 0),
        ("mh:h", true, 0),
    ] {
        let args = ["append", "--create", target, "numbered"];
        let mut command = limited(&world, DATA_LEN_MAX, &args[..if is_file { 4 } else { 3 }]);
        command.stdin(File::open(&source).unwrap());
        let run = Run::of(command.output().unwrap());
        assert_eq!((run.code, &*run.stderr), (0, ""), "{target}");
        let file = data_file(&world, target);
        let offset = file.metadata().unwrap().len() - end_len - body_len;
        let skip = format!("{header_len}:{offset}");
        let mut compare = Command::new("cmp");
        compare.args(["-i", &skip, "-n", &body_len.to_string()]).args([&source, &file]);
        assert!(compare.status().unwrap().success(), "{target}");
        let head = &barid_testkit::disk::open(&file).unwrap();
        let mut start = String::new();
        head.take(offset).read_to_string(&mut start).unwrap();
        assert!(start.contains("Subject: numbered"), "{target}: {start}");
        world.remove(target.split_once(':').unwrap().1);
    }
    let left = world.list("home/.cache/barid");
    assert!(!left.iter().any(|name| name.contains("spill")), "{left:?}");
}

#[test]
fn a_mailbox_of_any_size_is_read_from_standard_input() {
    let world = World::new();
    let source = world.maildir("source", &["Subject: small\n\nx\n", "", "Subject: last\n\ny\n"]);
    write_random(&world.path("source/cur/1600000001.M1.host:2,S"));
    ok(&world, &["convert", &source, "mboxrd:rd"]);
    let with_input = |args: &[&str]| {
        let mut command = limited(&world, DATA_LEN_MAX, args);
        Run::of(command.stdin(File::open(world.path("rd")).unwrap()).output().unwrap())
    };
    for target in ["maildir:copy", "mboxo:o", "mh:mh"] {
        let run = with_input(&["append", "--create", "--mbox", target, "-"]);
        assert_eq!((run.code, &*run.stderr), (0, ""), "{target}");
    }
    let subjects = String::from_utf8(ok(&world, &["ls", "mh:mh"])).unwrap();
    assert!(["small", "random", "last"].iter().all(|subject| subjects.contains(subject)));
    let quoted = ["search", "maildir:copy", "TEXT \">From here\""];
    assert_eq!(run(&world, &quoted).code, 2, "the random message is too large to be searched");
    let copied = messages(&world.path("copy"));
    let lens: Vec<u64> = copied.iter().map(|path| path.metadata().unwrap().len()).collect();
    assert_eq!(lens.len(), 3);
    assert!(lens[2] > BEYOND_LEN, "{lens:?}");

    let learned = with_input(&["spam", "train", "--spam"]);
    assert_eq!(learned.text(), "2 messages learned as spam\n", "{}", learned.stderr);
    assert!(learned.stderr.contains("too large"), "{}", learned.stderr);
    let left = world.list("home/.cache/barid");
    assert!(!left.iter().any(|name| name.contains("spill")), "{left:?}");
}

#[test]
fn a_message_that_no_mbox_stores_is_refused_by_name() {
    let world = World::new();
    world.write("small", b"Subject: small\n\nx\n");
    for (name, start, len, says) in [
        ("huge", "Subject: huge\n\n", 5 << 30, "huge: 5.37 GB: too large"),
        ("endless", "Subject: endless\n", 20 << 20, "endless: 21.0 MB: no blank line in the first"),
    ] {
        world.write(name, start.as_bytes());
        barid_testkit::disk::set_len(&world.path(name), len).unwrap();
        let refused = run(&world, &["append", "--create", "mboxrd:rd", "small", name]);
        assert_eq!((refused.code, &*refused.text()), (2, ""), "{}", refused.stderr);
        assert!(refused.stderr.contains(says), "{}", refused.stderr);
        assert!(refused.stderr.contains("hint: append it to a Maildir"), "{}", refused.stderr);
        assert_eq!(world.read("rd"), b"", "{name}");
    }
    let too_large = run(&world, &["append", "--create", "mix:m", "small", "huge"]);
    assert!(too_large.stderr.contains("huge: 5.37 GB: too large"), "{}", too_large.stderr);
    ok(&world, &["append", "--create", "maildir:md", "small", "endless"]);
    same(&messages(&world.path("md"))[1], &world.path("endless"));
}

#[test]
fn a_large_file_of_several_messages_is_warned_of() {
    let world = World::new();
    let first = format!("From a@b Sat Jan  3 01:05:34 1996\n{}", large());
    for (text, is_warned) in [
        (first.clone(), false),
        (format!("{first}\nFrom a@b Sat Jan  3 01:05:34 1996\nSubject: two\n\n"), true),
    ] {
        world.write("one", text.as_bytes());
        let run = run(&world, &["append", "--create", "maildir:md", "one"]);
        assert_eq!((run.code, run.stderr.contains("looks like an mbox")), (0, is_warned));
        let stored = std::fs::read_to_string(data_file(&world, "maildir:md")).unwrap();
        assert!(stored == text[text.find('\n').unwrap() + 1..], "{} bytes", stored.len());
        world.remove("md");
    }
}
