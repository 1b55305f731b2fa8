//! The sample mailboxes of c-client, and the four mbox variants of the same messages.

use barid_testkit::corpora;
use serde_json::Value;

use super::{Tally, in_mailbox_order, run};
use crate::support::{World, parse_lines};

const COUNT: usize = 411;

/// The first of the messages with CRLF, whose flags were put behind their bodies when the source
/// was made.
const FIRST_ODD_ROW: usize = 400;

/// The messages of a mailbox of the samples in its order, a JSON object each.
fn list(world: &World, format: &str, name: &str) -> Option<Vec<Value>> {
    let path = corpora::find("dev-formats")?.join(name);
    let spec = format!("{format}{}", path.display());
    let run = run(world, &["ls", "--json", "--read-only", &spec]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{spec}");
    Some(in_mailbox_order(parse_lines(&run.text())))
}

/// A line of `manifest.tsv`: Status, X-Status, keywords, message id.
fn manifest() -> Option<Vec<[String; 4]>> {
    let path = corpora::find("dev-formats")?.join("manifest.tsv");
    let text = String::from_utf8(corpora::read(&path).unwrap()).unwrap();
    // A Message-ID with a line end inside makes two lines of one.
    let is_row = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit());
    let row = |line: &str| {
        let mut columns = line.split('\t').skip(1).map(|column| column.trim().to_owned());
        [(); 4].map(|()| columns.next().unwrap_or_default())
    };
    Some(text.lines().filter(is_row).map(row).collect())
}

/// What is the same in every variant.
fn identity(message: &Value) -> [&Value; 8] {
    ["seq", "date", "internal_date", "subject", "flags", "keywords", "message_id", "from"]
        .map(|key| &message[key])
}

#[test]
fn four_variants_tell_the_same() {
    let world = World::new();
    let Some(expected) = list(&world, "", "sample.mboxo") else { return };
    let Some(rows) = manifest() else { return };
    assert_eq!((expected.len(), rows.len()), (COUNT, COUNT));
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
        assert_eq!(found.len(), COUNT, "{format}{name}");
        for (found, expected) in found.iter().zip(&expected) {
            if identity(found) == identity(expected) {
                tally.equal();
            } else {
                tally.different(format!("{format}{name}: {found}\n{expected}"));
            }
        }
    }
    tally.report(9 * COUNT);
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
    tally.report(COUNT);
}

#[test]
fn what_c_client_wrote_has_the_flags_of_the_manifest() {
    let world = World::new();
    let Some(rows) = manifest() else { return };
    for name in ["source-flagged.mboxo", "uw.unix", "uw.mmdf"] {
        let Some(found) = list(&world, "", name) else { return };
        assert_eq!(found.len(), COUNT, "{name}");
        let mut tally = Tally::new(format!("{name}, flags and keywords against the manifest"));
        for (at, (message, row)) in found.iter().zip(&rows).enumerate() {
            check_flags(&mut tally, name, at, message, row);
        }
        tally.report(COUNT);
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
    } else if at >= FIRST_ODD_ROW {
        tally.explained("the source has its flags behind the body");
    } else if flags == wanted && held.is_empty() && name != "source-flagged.mboxo" {
        tally.explained("c-client lost the keywords that it did not know yet");
    } else {
        tally.different(format!("{name} {}: {flags:?} {wanted:?} {held:?} {named:?}", at + 1));
    }
}
