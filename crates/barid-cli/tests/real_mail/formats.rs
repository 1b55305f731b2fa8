//! The sample mailboxes of c-client, and the four mbox variants of the same messages.

use std::collections::BTreeSet;

use barid_testkit::peers::{CClient, Dovecot};
use barid_testkit::{corpora, disk};
use serde_json::Value;

use super::{Tally, in_mailbox_order, run};
use crate::support::{World, parse_lines};

/// Returns the number of messages in each sample.
fn count() -> usize {
    corpora::either("dev-formats", 411, 120)
}

/// Returns the first of the messages with CRLF, whose flags were put behind their bodies when the
/// source was made.
fn first_odd_row() -> usize {
    corpora::either("dev-formats", 400, 120)
}

/// Returns the messages of a sample mailbox in order, a JSON object each.
fn list(world: &World, format: &str, name: &str) -> Option<Vec<Value>> {
    let path = corpora::find("dev-formats")?.join(name);
    let spec = format!("{format}{}", path.display());
    let run = run(world, &["ls", "--json", "--read-only", &spec]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{spec}");
    Some(in_mailbox_order(parse_lines(&run.text())))
}

/// Returns the lines of `manifest.tsv`: Status, X-Status, keywords, message id.
fn manifest() -> Option<Vec<[String; 4]>> {
    let path = corpora::find("dev-formats")?.join("manifest.tsv");
    let text = String::from_utf8(corpora::read(&path).unwrap()).unwrap();
    // A Message-ID that contains a line end is split over two lines.
    let is_row = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit());
    let row = |line: &str| {
        let mut columns = line.split('\t').skip(1).map(|column| column.trim().to_owned());
        [(); 4].map(|()| columns.next().unwrap_or_default())
    };
    Some(text.lines().filter(is_row).map(row).collect())
}

/// Returns the values that are equal in every variant. Keywords have no order: that of their slots
/// depends on which thread of a scan met them first.
fn identity(message: &Value) -> ([&Value; 7], BTreeSet<&str>) {
    let keywords = message["keywords"].as_array().unwrap();
    let keys = ["seq", "date", "internal_date", "subject", "flags", "message_id", "from"];
    (keys.map(|key| &message[key]), keywords.iter().filter_map(Value::as_str).collect())
}

#[test]
fn four_variants_tell_the_same() {
    let world = World::new();
    let Some(expected) = list(&world, "", "sample.mboxo") else { return };
    let Some(rows) = manifest() else { return };
    assert_eq!((expected.len(), rows.len()), (count(), count()));
    let mut tally = Tally::new("samples of mbox, by subject, dates, flags");
    for (format, name) in [
        ("mbox:", "sample.mboxo"),
        ("mboxo:", "sample.mboxo"),
        ("", "sample.mboxrd"),
        ("mboxrd:", "sample.mboxrd"),
        ("", "sample.mboxcl"),
        ("mboxcl:", "sample.mboxcl"),
        ("", "sample.mboxcl2"),
        ("mbox:", "sample.mboxcl2"),
        ("mboxcl2:", "sample.mboxcl2"),
    ] {
        let found = list(&world, format, name).unwrap();
        assert_eq!(found.len(), count(), "{format}{name}");
        for (found, expected) in found.iter().zip(&expected) {
            if identity(found) == identity(expected) {
                tally.equal();
            } else {
                tally.different(format!("{format}{name}: {found}\n{expected}"));
            }
        }
    }
    tally.report(9 * count());
    let mut tally = Tally::new("samples of mbox, ids against the manifest");
    for (message, [.., id]) in expected.iter().zip(&rows) {
        let ours = message["message_id"].as_str().unwrap_or_default();
        let theirs = id.trim_start_matches('<').trim_end_matches('>');
        match (ours, theirs) {
            (ours, theirs) if ours == theirs => tally.equal(),
            ("", _) => tally.explained("no valid id"),
            (_, "") => tally.explained("the manifest lost a folded id"),
            (_, theirs) if !theirs.is_ascii() => tally.explained("an id in 8 bits"),
            _ => tally.different(format!("{ours:?} {id:?}")),
        }
    }
    tally.report(count());
}

/// Message counts of the servers: c-client does not support Content-Length and sees more messages
/// if bodies contain unquoted From_ lines.
#[test]
fn servers_count_the_samples() {
    let Some(folder) = corpora::find("dev-formats") else { return };
    let Some(dovecot) = Dovecot::new() else { return };
    let Some(mut c_client) = CClient::new() else { return };
    let mut tally = Tally::new("samples of mbox, counted by servers");
    for name in ["sample.mboxo", "sample.mboxrd", "sample.mboxcl", "sample.mboxcl2"] {
        let copy = dovecot.folder().join(name);
        disk::copy(&folder.join(name), &copy).unwrap();
        disk::copy(&folder.join(name), &c_client.folder().join(name)).unwrap();
        let mut imap = dovecot.imap(&dovecot.mbox_location(&copy), &[]).unwrap();
        let by_dovecot = imap.command("SELECT INBOX").unwrap().number("EXISTS").unwrap() as usize;
        let by_c_client = c_client.open(name).unwrap() as usize;
        for (server, found) in [("Dovecot", by_dovecot), ("c-client", by_c_client)] {
            match found {
                found if found == count() => tally.equal(),
                found
                    if found == count() + 4 && (name, server) == ("sample.mboxcl2", "c-client") =>
                {
                    tally.explained("c-client knows no Content-Length: four From_ lines in bodies");
                }
                found => tally.different(format!("{name}: {server} counts {found}")),
            }
        }
    }
    tally.report(8);
}

#[test]
fn what_c_client_wrote_has_the_flags_of_the_manifest() {
    let world = World::new();
    let Some(rows) = manifest() else { return };
    for name in ["source-flagged.mboxo", "uw.unix", "uw.mmdf"] {
        let Some(found) = list(&world, "", name) else { return };
        assert_eq!(found.len(), count(), "{name}");
        let mut tally = Tally::new(format!("{name}, flags and keywords against the manifest"));
        for (at, (message, row)) in found.iter().zip(&rows).enumerate() {
            check_flags(&mut tally, name, at, message, row);
        }
        tally.report(count());
    }
}

fn check_flags(
    tally: &mut Tally,
    name: &str,
    at: usize,
    message: &Value,
    [status, xstatus, keywords, _]: &[String; 4],
) {
    let texts = |key: &str| {
        let texts = message[key].as_array().unwrap().iter();
        let mut texts: Vec<&str> = texts.map(|text| text.as_str().unwrap()).collect();
        texts.sort_unstable();
        texts
    };
    let mut wanted = Vec::new();
    wanted.extend(status.contains('R').then_some("\\Seen"));
    let letters = [('A', "\\Answered"), ('D', "\\Deleted"), ('F', "\\Flagged"), ('T', "\\Draft")];
    wanted.extend(letters.iter().filter(|(letter, _)| xstatus.contains(*letter)).map(|it| it.1));
    wanted.sort_unstable();
    let mut flags = texts("flags");
    flags.retain(|flag| *flag != "\\Recent");
    let mut named: Vec<&str> = keywords.split_whitespace().collect();
    named.sort_unstable();
    let held = texts("keywords");
    if (&flags, &held) == (&wanted, &named) {
        tally.equal();
    } else if at >= first_odd_row() {
        tally.explained("the source has its flags behind the body");
    } else if flags == wanted && held.is_empty() && name != "source-flagged.mboxo" {
        tally.explained("c-client lost the keywords that it did not know yet");
    } else {
        tally.different(format!("{name} {}: {flags:?} {wanted:?} {held:?} {named:?}", at + 1));
    }
}

/// Many threads read a file in parallel, and each first takes the next From_ line as a separator.
/// Here nearly all of these lines are inside bodies, as only a Content-Length shows.
#[test]
fn wrong_guesses_lose_nothing() {
    const MESSAGES: usize = 1500;
    let world = World::new();
    let from = "From a@b.example Tue Mar  5 12:22:10 2024\n";
    let mut mbox = String::new();
    for number in 0..MESSAGES {
        let body = format!("{from}Subject: in {number}\n\nx\n\n").repeat(150 + number % 300);
        mbox.push_str(&format!(
            "{from}Subject: {number}\nMessage-ID: <{number}@x>\nContent-Length: {}\n\n{body}\n",
            body.len()
        ));
    }
    let path = world.write("box.mbox", mbox.as_bytes());
    let mut tally = Tally::new("messages behind wrong guesses");
    for round in 0..6 {
        let spec = format!("{}{path}", ["", "mboxcl2:"][round % 2]);
        let cache = format!("cache{round}");
        let found = run(&world, &["ls", "--json", "--cache-dir", &cache, &spec]);
        assert_eq!((found.code, found.stderr.as_str()), (0, ""));
        let found = in_mailbox_order(parse_lines(&found.text()));
        assert_eq!(found.len(), MESSAGES, "{spec}");
        for (number, message) in found.iter().enumerate() {
            let id = message["message_id"].as_str() == Some(&format!("{number}@x"));
            match message["subject"].as_str() == Some(&number.to_string()) && id {
                true => tally.equal(),
                false => tally.different(format!("{number}: {message}")),
            }
        }
    }
    tally.report(6 * MESSAGES);
}
