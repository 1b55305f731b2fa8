//! `barid convert` and `barid copy`: proof files, reports, kills, and the ring of formats with real
//! mail.

use std::process::Stdio;
use std::time::Instant;

use barid::vfs::{OsVfs, Vfs as _};
use barid_testkit::corpus::Corpus;
use serde_json::{Value, json};

use crate::real_mail::Mail;
use crate::support::{Running, World, mbox, parse_lines};

/// The formats of the ring; for mbox the variant whose quoting can be undone.
const RING: [&str; 6] = ["maildir", "mboxrd", "mbx", "mix", "mh", "maildir"];
/// Least number of messages in the corpus of the ring.
const LIST_MIN: usize = 17_000;
/// Number of kills of a conversion to each format.
const KILLS: u32 = 25;
/// Messages of a killed conversion, besides a large one.
const KILLED_LEN: u64 = 200;
/// Bytes that a conversion writes in one batch.
const BATCH_LEN: usize = 32 << 20;

/// Returns the lines of a proof file.
fn proof(world: &World, name: &str) -> Vec<Value> {
    parse_lines(&String::from_utf8(world.read(name)).unwrap())
}

/// Returns one side of every message of a proof file.
fn side(lines: &[Value], key: &str) -> Vec<Value> {
    let told = lines.iter().filter(|line| line["type"] == "proof");
    told.map(|line| {
        let side = &line[key];
        let mut keywords: Vec<&str> =
            side["keywords"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        keywords.sort_unstable();
        json!([side["uid"], side["sha256"], side["flags"], keywords, side["internal_date"]])
    })
    .collect()
}

#[test]
fn a_proof_has_a_line_for_each_message() {
    let world = World::new();
    let text = |n: u32| format!("Subject: number {n}\nMessage-ID: <{}@x>\n\ntext\n", n % 2);
    let texts: Vec<String> = (0..3).map(text).collect();
    let box_path = world.maildir("box", &texts.iter().map(String::as_str).collect::<Vec<_>>());
    let line = world.ok(&["convert", &box_path, "mix:new", "--proof", "proof"]);
    assert!(line.contains("copied 3 messages, verified 3 as identical"), "{line}");
    let lines = proof(&world, "proof");
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(kinds, ["mailbox", "proof", "proof", "proof", "proven"]);
    assert_eq!(lines[1]["differences"], json!([]));
    assert_eq!(lines[1]["before"], lines[1]["after"]);
    assert_eq!(lines[1]["before"]["flags"], json!(["\\Seen"]));
    assert_eq!(lines[4]["same"], 3);
    let again = world.run(&["convert", &box_path, "mix:new"]);
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("already exists, with messages"), "{}", again.stderr);

    let told = world.json(&["convert", &box_path, "mbx:less", "--dedupe", "message-id"]);
    assert_eq!(
        (&told[0]["type"], &told[0]["uid"], &told[0]["like"]),
        (&json!("dropped"), &json!(3), &json!(1))
    );
    assert_eq!((&told[1]["copied"], &told[1]["dropped"]), (&json!(2), &json!(1)));
    assert_eq!(told[1]["losses"]["uids"], 0);
    let line = world.ok(&["convert", &box_path, "maildir:short", "--dedupe", "content"]);
    assert!(!line.contains("left out"), "{line}");
}

#[test]
fn a_proof_that_cannot_be_written_can_be_had_again() {
    let world = World::new();
    let path = world.maildir("box", &["Subject: a\n\n1\n", "Subject: b\n\n2\n"]);
    let failed = |args: &[&str], hint: &str| {
        let run = world.run(args);
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.text().contains("copied 2 messages"), "{}", run.text());
        assert!(run.stderr.contains("/dev/full: the proof cannot be written"), "{}", run.stderr);
        assert!(run.stderr.contains(hint), "{}", run.stderr);
    };
    let to_full = ["convert", &path, "mix:new", "--proof", "/dev/full"];
    failed(&to_full, "give the command again");
    let line = world.ok(&["convert", &path, "mix:new", "--proof", "proof"]);
    assert!(line.contains("copied 0 messages, found 2 there, verified 2 as"), "{line}");
    let mode = OsVfs.metadata(&world.path("proof")).unwrap().mode & 0o777;
    assert_eq!(mode, 0o600, "{mode:o}");
    let run = world.run(&["convert", &path, "mix:new"]);
    assert!(run.code == 2 && run.stderr.contains("already exists"), "{}", run.stderr);
    let to_full = ["copy", &path, "all", "new", "--proof", "/dev/full"];
    failed(&to_full, "the messages are copied");
    world.write("tree/one.mbox", mbox(&["Subject: a\n\n"]).as_bytes());
    world.write("tree/two.mbox", mbox(&["Subject: b\n\n"]).as_bytes());
    let run = world.run(&["convert", "tree", "maildir:all", "--proof", "/dev/full"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    let text = world.ok(&["convert", "tree", "maildir:all", "--proof", "proof"]);
    assert_eq!(text.matches("found 1 there").count(), 2, "{text}");
}

#[test]
fn a_copy_that_is_given_again_adds_nothing() {
    let world = World::new();
    let path = world.maildir("box", &["Message-ID: <a@b>\n\n1\n", "Subject: b\n\nFrom 2\n"]);
    for by in ["message-id", "content"] {
        let to = format!("{by}.mbox");
        let copy = ["copy", "--create", &path, "all", &to, "--dedupe", by];
        assert!(world.ok(&copy).contains("copied 2 messages"), "{by}");
        let text = world.ok(&copy);
        assert!(text.contains("copied 0 messages, left out 2"), "{by}: {text}");
        assert!(text.contains(" that of UID 1 there"), "{by}: {text}");
        assert_eq!(world.json(&["ls", &to]).len(), 2);
    }
}

#[test]
fn what_differs_is_a_failure() {
    let world = World::new();
    let quoted = "Subject: x\n\nFrom here on\n";
    let path = world.maildir("box", &["Subject: y\n\ntext\n", quoted]);
    let run = world.run(&["convert", &path, "mboxo:new", "--proof", "proof"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("1 message not proven to be the same"), "{}", run.stderr);
    assert!(run.stderr.contains("mboxrd:PATH"), "{}", run.stderr);
    let lines = proof(&world, "proof");
    assert_eq!(lines[2]["differences"], json!(["content"]));
    let run = world.run(&["convert", &path, "mboxo:unproven"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.text().contains("not kept: lines that begin with `From ` of 1 message"));
    assert_eq!(world.run(&["--read-only", "convert", &path, "mix:no"]).code, 2);
}

#[test]
fn messages_are_copied() {
    let world = World::new();
    let path =
        world.maildir("box", &["Subject: a\n\n1\n", "Subject: b\n\n2\n", "Subject: c\n\n3\n"]);
    let copied = world.json(&["copy", "--create", &path, "2:*", "mh:there", "--proof", "proof"]);
    assert_eq!(copied[0]["uids"], json!([[2, 1], [3, 2]]));
    assert_eq!(copied[0]["proven"], json!({"same": 2, "differing": 0}));
    assert_eq!(proof(&world, "proof").len(), 4);
    let run = world.run(&["copy", &path, "1,9", "there"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("no message with UID 9"), "{}", run.stderr);
    let listed = world.json(&["ls", "there"]);
    let subjects: Vec<&str> = listed.iter().filter_map(|line| line["subject"].as_str()).collect();
    assert_eq!(subjects.len(), 3, "{subjects:?}");
}

#[test]
fn a_folder_of_mailboxes_becomes_a_tree() {
    let world = World::new();
    world.maildir("tree/lists", &["Subject: a\n\n1\n"]);
    world.maildir("tree/lists/.old.2019", &["Subject: b\n\n2\n", "Subject: c\n\n3\n"]);
    world.write("tree/some/file.mbox", mbox(&["Subject: d\n\n4\n"]).as_bytes());
    let told = world.json(&["convert", "tree", "mix:new", "--proof", "proof"]);
    let copied: Vec<_> = told.iter().map(|line| (&line["target"], &line["copied"])).collect();
    assert_eq!(
        copied,
        [
            (&json!("new/lists"), &json!(1)),
            (&json!("new/lists/old/2019"), &json!(2)),
            (&json!("new/some/file.mbox"), &json!(1)),
        ]
    );
    let kinds = proof(&world, "proof").iter().filter(|line| line["type"] == "proven").count();
    assert_eq!(kinds, 3);
    world.ok(&["convert", "tree", "mbx:files"]);
    assert_eq!(world.list("files"), ["lists", "lists.sbd", "some"]);
    assert_eq!(world.list("files/lists.sbd/old"), ["2019"]);
    assert_eq!(world.json(&["ls", "files/lists.sbd/old/2019"]).len(), 2);
    // An existing target does not stop the others; once it is gone, the rest is converted.
    world.write("late/some/file.mbox", mbox(&["Subject: x\n\n4\n"]).as_bytes());
    let run = world.run(&["convert", "tree", "mboxrd:late", "--json"]);
    assert_eq!((run.code, parse_lines(&run.text()).len()), (2, 2), "{}", run.stderr);
    world.remove("late/some/file.mbox");
    let told = world.json(&["convert", "tree", "mboxrd:late"]);
    let found: Vec<_> = told.iter().map(|line| (&line["found"], &line["copied"])).collect();
    let (none, one, two) = (&json!(0), &json!(1), &json!(2));
    assert_eq!(found, [(one, none), (two, none), (none, one)]);
    assert!(!world.list("home/.local/state/barid").iter().any(|name| name.starts_with("convert")));
}

#[test]
fn around_the_ring_real_mail_comes_back_as_it_was() {
    let Some(mail) = Mail::of("dev-list-man", LIST_MIN) else { return };
    let world = World::new();
    let mut proofs: Vec<Vec<Value>> = Vec::new();
    for (at, hop) in RING.windows(2).enumerate() {
        let from = if at == 0 { mail.maildir() } else { format!("{}:ring{at}", hop[0]) };
        let (to, file) = (format!("{}:ring{}", hop[1], at + 1), format!("proof{at}"));
        let told = world.json(&["convert", &from, &to, "--proof", &file]);
        let told = &told[0];
        let losses = &told["losses"];
        assert_eq!((&losses["uids"], &losses["uidvalidity"]), (&json!(0), &json!(false)), "{to}");
        assert_eq!((&losses["quoted"], &losses["keywords"]), (&json!(0), &json!([])), "{to}");
        proofs.push(proof(&world, &file));
        // Without this, all of them would need space at once.
        if at > 0 {
            world.remove(&format!("ring{at}"));
        }
    }
    let (first, last) = (side(&proofs[0], "before"), side(&proofs[4], "after"));
    assert_eq!(first.len(), mail.messages.len());
    let equal = first.iter().zip(&last).filter(|(first, last)| first == last).count();
    println!("ring of five formats: {} messages, {equal} equal", first.len());
    assert_eq!(first, last);
}

/// Returns the listing of a mailbox by UID, with everything that a conversion preserves.
fn listed(world: &World, path: &str) -> Vec<[Value; 4]> {
    let lines = world.json(&["ls", "--no-cache", path]);
    let of = |line: &Value| {
        let flags = line["flags"].as_array().unwrap().iter();
        let flags: Vec<&Value> = flags.filter(|flag| **flag != json!("\\Recent")).collect();
        [line["uid"].clone(), line["message_id"].clone(), json!(flags), line["keywords"].clone()]
    };
    let mut listed: Vec<_> = lines.iter().map(of).collect();
    listed.sort_by_key(|message| message[0].as_u64());
    listed
}

/// Kills conversions to a format at random moments; the same command completes each.
#[expect(clippy::print_stdout, reason = "how often they went on is worth a look")]
fn check_killed(format: &str) {
    let world = World::new();
    Corpus::new(5, KILLED_LEN).write_maildir(&world.path("box")).unwrap();
    // The message fills a batch, so that there are batches before and after it.
    let large = format!("Message-ID: <large@x>\n\n{}", "large\n".repeat(BATCH_LEN / 6));
    let middle = Corpus::FIRST_DATE + i64::try_from(KILLED_LEN).unwrap() / 2 * 3_600;
    world.deliver("box", &format!("cur/{middle}.large.host:2,S"), &large);
    let expected = listed(&world, "box");
    let target = format!("{format}:new");
    let args = ["convert", "box", &target, "--proof", "proof"];
    let started = Instant::now();
    world.ok(&args);
    let whole = started.elapsed();
    let texts = side(&proof(&world, "proof"), "before");
    assert_eq!(texts.len() as u64, KILLED_LEN + 1);
    world.remove("new");
    let mut rng = fastrand::Rng::with_seed(12);
    let (mut killed, mut went_on, mut late) = (0, 0, 0);
    while killed < KILLS {
        let mut command = world.command();
        command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = Running::spawn(&mut command);
        std::thread::sleep(whole.mul_f32(rng.f32()));
        child.kill().unwrap();
        if child.wait().unwrap().code().is_none() {
            killed += 1;
        } else {
            late += 1;
            assert!(late < 4 * KILLS, "{format}: it ends before it is killed");
        }
        let context = format!("{format}, kill {killed}");
        let again = world.run(&[&args[..], &["--json"]].concat());
        if again.code == 0 {
            let told = &parse_lines(&again.text())[0];
            went_on += u32::from(told["found"] != json!(0));
            assert_eq!(told["losses"]["uids"], 0, "{context}");
        } else {
            // The target was complete when the conversion was killed.
            let is_done = again.stderr.contains("already exists");
            assert!(is_done, "{context}: {}", again.stderr);
            world.ok(&["convert", &target, "maildir:copy", "--proof", "proof"]);
            world.remove("copy");
        }
        let lines = proof(&world, "proof");
        assert_eq!(side(&lines, "before"), texts, "{context}");
        assert_eq!(side(&lines, "after"), texts, "{context}");
        assert_eq!(listed(&world, &target), expected, "{context}");
        for name in world.list(".").iter().filter(|name| name.starts_with("new")) {
            world.remove(name);
        }
    }
    println!("{format}: killed {killed} times, went on {went_on} times, {late} too late");
    assert!(went_on > 0, "{format}");
}

#[test]
fn a_killed_conversion_to_mbox_goes_on() {
    check_killed("mboxrd");
}

#[test]
fn a_killed_conversion_to_mbx_goes_on() {
    check_killed("mbx");
}

#[test]
fn a_killed_conversion_to_mix_goes_on() {
    check_killed("mix");
}

#[test]
fn a_killed_conversion_to_mh_goes_on() {
    check_killed("mh");
}

#[test]
fn a_killed_conversion_to_a_maildir_goes_on() {
    check_killed("maildir");
}
