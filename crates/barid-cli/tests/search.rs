//! `barid search`, from outside.

use barid::query::Day;
use barid::vfs::{Host as _, OsVfs};

use crate::support::World;

const ANN: &str = "From: Ann Lee <ann@x.example>\nTo: bob@y.example\n\
    Date: Mon, 1 Jan 2024 10:00:00 +0000\nSubject: release\n plan\nMessage-ID: <1@x>\n\n\
    The budget is caf\u{e9}.\n";
const BOB: &str = "From: bob@y.example\nDate: Tue, 2 Jan 2024 23:30:00 -0500\n\
    Subject: Re: release plan\nX-Loop: one\n\nNo budget.\n";
const PDF: &str = "From: carl@z\nSubject: paper\n\
    Content-Type: multipart/mixed; boundary=b\n\n--b\n\nsee file\n--b\n\
    Content-Type: application/pdf\n\nbudget\n--b--\n";

/// Searches three messages, and checks the output and the exit code.
fn check(world: &World, args: &[&str], expected: &str, code: i32) {
    let run = world.run(&[&["search"], args].concat());
    assert_eq!((run.text().as_str(), run.code), (expected, code), "{args:?}: {}", run.stderr);
}

fn world() -> (World, String) {
    let world = World::new();
    let mailbox = world.maildir("box", &[ANN, BOB, PDF]);
    (world, mailbox)
}

#[test]
fn the_short_form() {
    let (world, mailbox) = world();
    let found = |query: &[&str], expected: &str| {
        let code = i32::from(expected.is_empty());
        check(&world, &[&[&*mailbox], query].concat(), expected, code);
    };
    found(&["from:ann"], "1\n");
    found(&["subject:\"release plan\""], "1:2\n");
    found(&["subject:release plan"], "1:2\n");
    found(&["budget"], "1:2\n");
    found(&["budget", "-from:bob"], "1\n");
    found(&["-from:bob or from:bob"], "1:3\n");
    found(&["from:ann or from:carl"], "1,3\n");
    found(&["has:attachment"], "3\n");
    found(&["cafe"], "1\n");
    found(&["CAF\u{c9}"], "1\n");
    found(&["since:2024-01-02", "before:2024-01-03"], "2\n");
    found(&["is:unread"], "");
    found(&["larger:1M"], "");
    found(&["id:1@x"], "1\n");
    found(&["header:x-loop=ONE"], "2\n");
    found(&["seq:2:*"], "2:3\n");
}

#[test]
fn the_words_of_imap() {
    let (world, mailbox) = world();
    let found = |args: &[&str], expected: &str, code| {
        check(&world, &[&[&*mailbox], args].concat(), expected, code);
    };
    found(&["OR FROM ann BODY \"no budget\""], "1:2\n", 0);
    found(&["FROM", "bob"], "2\n", 0);
    found(&["--imap", "TEXT budget"], "* ESEARCH UID ALL 1:2\n", 0);
    found(&["--imap", "RETURN (MIN MAX COUNT) SEEN"], "* ESEARCH UID MIN 1 MAX 3 COUNT 3\n", 0);
    found(&["--imap", "--seq", "UNSEEN"], "* ESEARCH\n", 1);
    found(&["--count", "SENTSINCE 2-Jan-2024"], "1\n", 0);
}

#[test]
fn forms_of_the_answer() {
    let (world, mailbox) = world();
    let lines = world.ok(&["search", "--list", &mailbox, "budget"]);
    let all = world.ok(&["ls", &mailbox]);
    assert!(lines.lines().count() == 2 && all.starts_with(&lines), "{lines}");
    let found = world.json(&["search", &mailbox, "from:carl"]);
    assert_eq!((found.len(), &found[0]["uid"]), (1, &3.into()));
    let count = world.json(&["search", "--count", &mailbox, "budget"]);
    assert_eq!((&count[0]["type"], &count[0]["count"]), (&"search".into(), &2.into()));
}

#[test]
fn what_is_wrong_with_a_query_is_told() {
    let (world, mailbox) = world();
    for (query, message) in [
        ("form:ann", "unknown search key `form:`; did you mean `from:`?"),
        ("*", "a `*` stands only at the end of a word"),
        ("subject: foo", "`subject:` has no value"),
        ("/(/", "is not a valid regular expression: unclosed group"),
        ("/a", "a closing slash is missing"),
        ("in:archive", "chooses among several mailboxes"),
        ("since:soon", "`soon` is not a valid date"),
        ("FROM", "a value is missing after `FROM`"),
        ("(a", ") is missing"),
    ] {
        let run = world.run(&["search", &mailbox, query]);
        assert_eq!(run.code, 2, "{query}");
        assert!(run.stderr.contains(message) && run.stderr.contains("hint: "), "{}", run.stderr);
    }
}

#[test]
fn a_message_that_cannot_be_read_is_reported() {
    let (world, mailbox) = world();
    world.ok(&["status", &mailbox]);
    world.deliver("box", "cur/1600000009.M9.host:2,S", BOB);
    world.ok(&["status", &mailbox]);
    let gone = format!("box/cur/{}", world.list("box/cur")[3]);
    world.remove(&gone);
    check(&world, &[&mailbox, "--", "-budget"], "3\n", 0);
}

#[test]
fn today_is_the_day_that_clocks_show_here() {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let day = |hours: i16| Day::in_zone(OsVfs.now().unix_nanos / 1_000_000_000, hours * 60);
    // The dates in the two zones always differ.
    for (zone, hours) in [("<+14>-14", 14), ("<-12>12", -12)] {
        let mut today = day(hours);
        loop {
            let (year, month, day_of_month) = today.date();
            let month = MONTHS[month as usize - 1];
            let message = format!("Date: {day_of_month} {month} {year} 12:00:00 +0000\n\n");
            let world = World::new();
            let mailbox = world.maildir("box", &[&message]);
            let args = ["search", "--count", &mailbox, "on:today"];
            let output = world.command().env("TZ", zone).args(args).output().unwrap();
            let before = std::mem::replace(&mut today, day(hours));
            // Midnight may have passed.
            if before == today {
                assert_eq!(String::from_utf8(output.stdout).unwrap(), "1\n", "{zone}");
                break;
            }
        }
    }
}

#[test]
fn messages_are_lines_of_csv() {
    let world = World::new();
    let mailbox = world.maildir(
        "box",
        &["From: \"Lee, Ann\" <ann@x.example>\nTo: b@y.example\nSubject: =1+1\n\
         Message-ID: <1@x.example>\nDate: Fri, 17 May 2024 16:20:00 +0200\n\nx\n"],
    );
    let text = world.ok(&["search", "--output", "csv", &mailbox, "all"]);
    let expected = "uid,date,from,to,cc,subject,flags,keywords,size,message_id\r\n\
        1,2024-05-17T16:20:00+02:00,\"Lee, Ann <ann@x.example>\",b@y.example,,'=1+1,\\Seen,,";
    assert!(text.starts_with(expected) && text.ends_with(",1@x.example\r\n"), "{text}");
    let text = world.ok(&["search", "--output", "csv", "--in", &mailbox, "all"]);
    assert!(text.starts_with("mailbox,uid,") && text.contains("box,1,2024"), "{text}");
}
