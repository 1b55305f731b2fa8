//! Sent dates of old mail, compared with Dovecot's.

use barid_testkit::peers::Dovecot;
use serde_json::Value;

use super::{Mail, Tally, in_mailbox_order};
use crate::support::parse_lines;

/// Returns the reason why Dovecot parses the date of a message differently.
fn cause(date: &str) -> Option<&'static str> {
    const ZONES: [&str; 5] = ["BST", "CEST", "EET", "MET-1", "S"];
    let words: Vec<&str> = date.split_ascii_whitespace().collect();
    let clock = words.iter().find(|word| word.contains(':'))?;
    if clock.split(':').skip(1).any(|part| part.len() == 1) {
        return Some("minutes or seconds of one digit");
    }
    let zone = words.iter().any(|word| ZONES.contains(word));
    zone.then_some("a zone that Dovecot takes for UTC")
}

/// Parses `2024-03-05T12:22:10+01:00` to seconds since 1970.
fn unix_seconds(text: &str) -> i64 {
    let number = |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap();
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    let (march_year, march_month) =
        if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * march_year + march_year.div_euclid(4) - march_year.div_euclid(100)
        + march_year.div_euclid(400)
        + (153 * march_month + 2) / 5
        + day
        - 1
        - 719_468;
    let local = days * 86_400 + number(11..13) * 3600 + number(14..16) * 60 + number(17..19);
    match &text[19..] {
        "Z" => local,
        zone => {
            let minutes = number(20..22) * 60 + number(23..25);
            local - if zone.starts_with('-') { -minutes } else { minutes } * 60
        }
    }
}

#[test]
fn dates_of_json() {
    assert_eq!(unix_seconds("1970-01-01T00:00:00Z"), 0);
    assert_eq!(unix_seconds("2024-02-29T23:59:59-05:30"), 1_709_270_999);
    assert_eq!(unix_seconds("1999-12-31T01:00:00+01:00"), 946_598_400);
}

#[test]
fn every_date_of_old_mail() {
    let Some(mail) = Mail::of("dev-old-mips", 9151) else { return };
    let count = mail.messages.len();
    let Some(peer) = Dovecot::new() else { return };
    let maildir = mail.maildir();
    let listed = String::from_utf8(mail.run(&["ls", "--json", &maildir])).unwrap();
    let listed = in_mailbox_order(parse_lines(&listed));
    let fields = "uid date.sent.unixtime date.received.unixtime";
    let arguments = ["-f", "tab", "fetch", fields, "mailbox", "INBOX", "all"];
    let theirs = peer.doveadm(&format!("maildir:{maildir}"), &[], &arguments).unwrap();
    let theirs: Vec<&str> = theirs.lines().skip(1).collect();
    assert_eq!((listed.len(), theirs.len()), (count, count));
    let mut tally = Tally::new("sent dates of old mail against Dovecot's");
    let mut arrivals = Tally::new("internal dates of old mail against Dovecot's");
    for ((ours, theirs), message) in listed.iter().zip(theirs).zip(&mail.messages) {
        let numbers: Vec<i64> = theirs.split('\t').map(|number| number.parse().unwrap()).collect();
        let [uid, sent, arrival] = numbers[..] else { panic!("{theirs}") };
        assert_eq!(ours["uid"], uid);
        let text = barid::message::HeaderFields::scan(&message.bytes).date.unwrap_or_default();
        let text = String::from_utf8_lossy(text);
        match (date(&ours["date"]), cause(&text)) {
            (Some(date), _) if date == sent => tally.equal(),
            (None, _) if text.is_empty() && sent == 0 => {
                tally.explained("a message without a date")
            }
            (_, Some(cause)) => tally.explained(cause),
            (date, None) => tally.different(format!("{uid}: {date:?}, {sent}: {text}")),
        }
        match date(&ours["internal_date"]) {
            Some(date) if date == arrival => arrivals.equal(),
            date => arrivals.different(format!("{uid}: {date:?}, {arrival}")),
        }
    }
    tally.report(count);
    arrivals.report(count);
}

fn date(value: &Value) -> Option<i64> {
    value.as_str().map(unix_seconds)
}
