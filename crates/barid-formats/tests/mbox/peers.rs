//! c-client and Dovecot show the same messages as barid.

use std::collections::BTreeMap;

use barid_formats::{FromProfile, MboxOptions, Variant};
use barid_mailbox::{NewMessage, Storage};
use barid_testkit::Scratch;
use barid_testkit::corpora;
use barid_testkit::peers::{CClient, Dovecot};
use barid_types::{Flag, FlagSet, InternalDate, Keyword};

use super::support::{Box_, Found, file_in, utc};

/// Returns From_ lines of every form that some program writes, and some that none accepts.
fn from_lines() -> Vec<String> {
    let mut lines = Vec::new();
    let senders = ["a@b", "a@b ", "a b@c", "\"a b\"@c", "", "a at b"];
    let zones = ["", "EST", "PDT", "GMT", "MET", "BST", "CEST", "+0100", "-0530"];
    for sender in senders {
        for day in
            ["Thu Nov 19", "Mon Nov  9", "Mon Nov 9", "Mon Nov 09", "mon nov 09", "Xxx Nov 19"]
        {
            for time in ["22:33:52", "22:33", "2:33:52"] {
                for zone in zones {
                    lines.push(format!("From {sender} {day} {time} {zone} 2009"));
                    lines.push(format!("From {sender} {day} {time} 2009 {zone}"));
                }
            }
        }
        lines.push(format!("From {sender} Thu, 9 Nov 2009 22:33:52"));
        lines.push(format!("From {sender} Thu, 19 Nov 2009 22:33 -0700"));
        lines.push(format!("From {sender} ??? ??? 19 22:33:52 2009"));
    }
    let zones =
        "EDT CST CDT MST MDT PST AST ADT HST HDT YST YDT NST NDT CET EET MSK MSD JST KST UTC";
    for zone in zones.split(' ') {
        lines.push(format!("From a@b Thu Nov 19 22:33:52 {zone} 2009"));
        lines.push(format!("From a@b Thu Nov 19 22:33:52 2009 {zone}"));
    }
    let lines: Vec<String> = lines
        .iter()
        .map(|line| line.replace("  2009", " 2009").trim_end().to_owned())
        .flat_map(|line| [format!("{line} remote from host"), line])
        .collect();
    lines
}

/// Returns a file with one message that all programs accept, followed by each line as the separator
/// of a message whose subject is its number.
fn file_of(lines: &[String]) -> Vec<u8> {
    let mut file = String::from("From a@b Thu Nov 19 10:00:00 2009\nSubject: first\n\nbody\n\n");
    for (number, line) in lines.iter().enumerate() {
        file.push_str(&format!("{line}\nSubject: s{number}\n\nbody\n\n"));
    }
    file.into_bytes()
}

type Dates = BTreeMap<String, i64>;

fn ours(file: &[u8], profile: FromProfile) -> Dates {
    let found = Box_::of_with(file, None, MboxOptions { profile, ..utc() }).scan();
    let pair = |message: &super::support::Message| {
        (message.subject.clone().unwrap(), message.date.unix_seconds)
    };
    found.messages.iter().map(pair).collect()
}

fn seconds(format: &str, text: &str) -> i64 {
    let parsed = jiff::fmt::strtime::parse(format, text.trim()).unwrap();
    match parsed.to_timestamp() {
        Ok(timestamp) => timestamp.as_second(),
        Err(_) => {
            let local = parsed.to_datetime().unwrap();
            local.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp().as_second()
        }
    }
}

fn c_client(file: &[u8]) -> Option<Dates> {
    let mut peer = CClient::new()?;
    barid_testkit_write(&peer.folder().join("box"), file);
    if let Err(error) = peer.open("box") {
        panic!("{error}: {:?}", peer.messages.last());
    }
    let subjects = peer.command("subjects").unwrap();
    let dates = peer.command("dates").unwrap();
    let pairs = subjects
        .iter()
        .zip(&dates)
        .map(|(subject, date)| (subject.trim().to_owned(), seconds("%d-%b-%Y %H:%M:%S %z", date)));
    Some(pairs.collect())
}

fn dovecot(file: &[u8]) -> Option<Dates> {
    let peer = Dovecot::new()?;
    let path = peer.folder().join("box");
    barid_testkit_write(&path, file);
    let location = peer.mbox_location(&path);
    let fields = "hdr.subject date.received";
    let args = ["-f", "tab", "fetch", fields, "mailbox", "INBOX"];
    let text = peer.doveadm(&location, &[], &args).unwrap();
    let pairs = text.lines().skip(1).map(|line| {
        let (subject, date) = line.split_once('\t').unwrap();
        (subject.to_owned(), seconds("%Y-%m-%d %H:%M:%S", date))
    });
    Some(pairs.collect())
}

fn barid_testkit_write(path: &std::path::Path, bytes: &[u8]) {
    use barid_vfs::{OpenOptions, OsVfs, Vfs};
    let file = OsVfs.open(path, OpenOptions::create(0o666)).unwrap();
    file.write_all_at(bytes, 0).unwrap();
}

/// Compares which lines separate messages, and their dates; `explained` returns `true` for dates
/// that may differ.
fn check(
    name: &str,
    lines: &[String],
    (ours, theirs): (&Dates, &Dates),
    explained: impl Fn(&str) -> bool,
) {
    let (mut dates, mut wrong) = (0, Vec::new());
    for (number, line) in lines.iter().enumerate() {
        let subject = format!("s{number}");
        let (our, their) = (ours.get(&subject), theirs.get(&subject));
        assert_eq!(our.is_some(), their.is_some(), "{name}: {line:?}");
        if our != their {
            dates += 1;
            if !explained(line) {
                wrong.push(format!("{line:?} is {our:?}, theirs {their:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    let accepted = theirs.len() - 1;
    println!(
        "{name}: {} lines, {accepted} separate messages for both, {dates} dates differ as explained",
        lines.len()
    );
    assert!(accepted > 300);
}

#[test]
fn c_client_takes_the_same_lines_for_separators() {
    let lines = from_lines();
    let file = file_of(&lines);
    let Some(theirs) = c_client(&file) else { return };
    check("c-client", &lines, (&ours(&file, FromProfile::CClient), &theirs), |_| false);
}

#[test]
fn dovecot_takes_the_same_lines_for_separators() {
    let lines = from_lines();
    let file = file_of(&lines);
    let Some(theirs) = dovecot(&file) else { return };
    // Dovecot takes the minutes of a zone for seconds.
    let explained = |line: &str| line.contains(" -0530");
    check("Dovecot", &lines, (&ours(&file, FromProfile::Dovecot), &theirs), explained);
}

#[test]
fn every_line_that_a_program_accepts_is_in_the_union() {
    let lines = from_lines();
    let file = file_of(&lines);
    let union = ours(&file, FromProfile::Union);
    let profiles = [FromProfile::CClient, FromProfile::Dovecot, FromProfile::Mutt];
    let each = profiles.map(|profile| ours(&file, profile));
    for subject in each.iter().flat_map(BTreeMap::keys) {
        assert!(union.contains_key(subject));
    }
    for subject in union.keys() {
        assert!(each.iter().any(|one| one.contains_key(subject)));
    }
    println!("{} of {} lines are in the union", union.len() - 1, lines.len());
    assert!(each.iter().all(|one| one.len() < union.len()));
}

/// Returns the messages of the samples, appended by barid.
fn appended(variant: Variant) -> Option<(Scratch, Box_, usize)> {
    let path = corpora::find("dev-formats")?.join("sample.mboxcl2");
    let source = Box_::open(&path, Some(Variant::Mboxcl2));
    let found = source.scan();
    let texts: Vec<_> =
        found.messages.iter().take(100).map(|message| source.same_bytes(message)).collect();
    let keywords: Vec<Keyword> = ["todo", "Junk"].iter().filter_map(|k| Keyword::new(k)).collect();
    let messages: Vec<_> = texts
        .iter()
        .enumerate()
        .map(|(number, bytes)| NewMessage {
            rest: None,
            bytes,
            internal_date: Some(InternalDate {
                unix_seconds: 1_000_000_000 + number as i64,
                zone_minutes: 0,
            }),
            flags: [Flag::Seen, Flag::Flagged, Flag::Answered, Flag::Deleted, Flag::Draft]
                .into_iter()
                .enumerate()
                .filter(|(bit, _)| number >> bit & 1 == 1)
                .map(|(_, flag)| flag)
                .collect::<FlagSet>(),
            keywords: if number % 7 == 0 { keywords.clone() } else { Vec::new() },
            sender: Some("someone@example.org"),
            stored: None,
            uid: None,
            uidnext: None,
        })
        .collect();
    let scratch = Scratch::new("appended").unwrap();
    let path = file_in(&scratch, "box", b"");
    let mailbox = Box_::open(&path, Some(variant));
    let known = barid_mailbox::EmptyKnown::default();
    for batch in messages.chunks(30) {
        let mut context = barid_mailbox::SyncContext::new(&known);
        mailbox.mailbox.sync(&Default::default(), batch, &mut context).unwrap();
    }
    Some((scratch, mailbox, messages.len()))
}

fn letters(flags: FlagSet) -> String {
    let of = [
        (Flag::Answered, 'A'),
        (Flag::Deleted, 'D'),
        (Flag::Flagged, 'F'),
        (Flag::Seen, 'S'),
        (Flag::Draft, 'T'),
    ];
    of.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, letter)| letter).collect()
}

#[test]
fn what_we_append_is_read_by_c_client() {
    for variant in [Variant::Mboxo, Variant::Mboxrd, Variant::Mboxcl, Variant::Mmdf] {
        let Some((_scratch, mailbox, count)) = appended(variant) else { return };
        let Found { messages, .. } = mailbox.scan();
        assert_eq!(messages.len(), count);
        let Some(mut peer) = CClient::new() else { return };
        barid_testkit_write(&peer.folder().join("box"), &mailbox.bytes());
        assert_eq!(peer.open("box").unwrap() as usize, count, "{variant:?}");
        let subjects = peer.command("subjects").unwrap();
        let flags = peer.command("flags").unwrap();
        let dates = peer.command("dates").unwrap();
        for (number, message) in messages.iter().enumerate() {
            let date = seconds("%d-%b-%Y %H:%M:%S %z", &dates[number]);
            assert_eq!(date, message.date.unix_seconds, "{variant:?} {number}");
            let flags = flags[number].split(' ').next().unwrap().replace(['-', 'R'], "");
            let mut flags: Vec<char> = flags.chars().collect();
            flags.sort_unstable();
            assert_eq!(flags.iter().collect::<String>(), letters(message.flags), "{number}");
            let subject = message.subject.as_deref().unwrap_or_default();
            if subject.is_ascii() && !subjects[number].contains("=?") {
                assert_eq!(subjects[number].trim(), subject.trim(), "{variant:?} {number}");
            }
        }
        println!("c-client: {count} messages of {variant:?}, all equal");
        // c-client rewrites the file; the next scan continues from the known state.
        peer.command("close").unwrap();
        let rewritten = corpora::read(&peer.folder().join("box")).unwrap();
        let again = Box_::of(&rewritten, Some(variant)).scan();
        assert_eq!(again.messages.len(), count);
        let base = rewritten.windows(8).any(|window| window == b"X-IMAPba");
        assert!(base, "c-client has given UIDs");
        let uids: Vec<u32> = again.report.new_uids.iter().map(|uid| uid.get()).collect();
        assert_eq!(uids, (1..=count as u32).collect::<Vec<_>>());
        assert!(again.messages.iter().all(|message| !message.flags.contains(Flag::Recent)));
    }
}

#[test]
fn what_we_append_is_read_by_dovecot() {
    for variant in [Variant::Mboxo, Variant::Mboxrd, Variant::Mboxcl, Variant::Mboxcl2] {
        let Some((_scratch, mailbox, count)) = appended(variant) else { return };
        let Found { messages, .. } = mailbox.scan();
        let Some(peer) = Dovecot::new() else { return };
        let path = peer.folder().join("box");
        barid_testkit_write(&path, &mailbox.bytes());
        let location = peer.mbox_location(&path);
        let args = ["-f", "tab", "fetch", "uid date.received flags", "mailbox", "INBOX"];
        let text = peer.doveadm(&location, &[], &args).unwrap();
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(lines.len(), count, "{variant:?}");
        for (line, message) in lines.iter().zip(&messages) {
            let mut columns = line.split('\t').skip(1);
            let date = seconds("%Y-%m-%d %H:%M:%S", columns.next().unwrap());
            assert_eq!(date, message.date.unix_seconds, "{variant:?}");
            let flags = columns.next().unwrap();
            let has = |name| flags.contains(name);
            let theirs = [
                (has("\\Answered"), 'A'),
                (has("\\Deleted"), 'D'),
                (has("\\Flagged"), 'F'),
                (has("\\Seen"), 'S'),
                (has("\\Draft"), 'T'),
            ];
            let theirs: String = theirs.iter().filter(|(has, _)| *has).map(|(_, l)| l).collect();
            assert_eq!(theirs, letters(message.flags), "{variant:?} {line}");
        }
        println!("Dovecot: {count} messages of {variant:?}, all equal");
    }
}
