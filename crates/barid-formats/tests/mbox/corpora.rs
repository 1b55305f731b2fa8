//! Real mail in every variant.

use barid_formats::Variant;
use barid_testkit::corpora;
use barid_types::Flag;

use super::support::{Box_, Message, render};

const LIST: &str = "dev-list-man";

/// Returns the messages of the list as files, in order of their names.
fn list_man() -> Option<Vec<Vec<u8>>> {
    let files = corpora::files(LIST)?;
    Some(files.iter().map(|path| corpora::read(path).unwrap()).collect())
}

/// Removes one `>` from each line that is `>From `, `>>From ` and so on; returns `true` if there
/// was one.
fn unquote(bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut text = Vec::with_capacity(bytes.len());
    let mut quoted = false;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let marks = line.iter().take_while(|byte| **byte == b'>').count();
        let is_quoted = marks > 0 && line[marks..].starts_with(b"From ");
        quoted |= is_quoted;
        text.extend_from_slice(if is_quoted { &line[1..] } else { line });
    }
    (text, quoted)
}

fn without_length(bytes: &[u8]) -> Vec<u8> {
    let Some(field) = barid_message::field(bytes, b"Content-Length") else {
        return bytes.to_vec();
    };
    [&bytes[..field.offset], &bytes[field.end..]].concat()
}

#[test]
fn a_list_in_every_variant_comes_back() {
    let Some(messages) = list_man() else { return };
    assert_eq!(messages.len(), corpora::either(LIST, 17_885, 600));
    for variant in Variant::ALL {
        let file = render(variant, messages.iter().map(Vec::as_slice));
        for forced in [Some(variant), None] {
            if variant == Variant::Mmdf && forced.is_none() {
                continue;
            }
            let mailbox = Box_::of(&file, forced);
            let found = mailbox.scan();
            assert_eq!(found.messages.len(), messages.len(), "{variant:?} {forced:?}");
            let (mut equal, mut quoted, mut ended) = (0, 0, 0);
            for (message, expected) in found.messages.iter().zip(&messages) {
                let read = without_length(&mailbox.same_bytes(message));
                let expected = barid_message::strip_owned(expected).into_owned();
                let (unquoted, was_quoted) = unquote(&read);
                if read == expected {
                    equal += 1;
                } else if was_quoted && (unquoted == expected || unquoted == unquote(&expected).0) {
                    quoted += 1;
                } else if read == [&expected[..], b"\n"].concat() {
                    ended += 1;
                } else {
                    panic!("{variant:?} {:?}", message.message_id);
                }
            }
            println!("{variant:?} as {forced:?}: {equal} equal, {quoted} quoted, {ended} ended");
            let lossless = match (variant, forced) {
                (Variant::Mboxcl2 | Variant::Mmdf, _) => true,
                (variant, forced) => variant == Variant::Mboxrd && forced.is_some(),
            };
            let expected = match variant {
                _ if lossless => 0,
                Variant::Mboxrd => corpora::either(LIST, 180, 61),
                _ => corpora::either(LIST, 134, 32),
            };
            assert_eq!(quoted, expected, "{variant:?} {forced:?}");
            assert_eq!(equal + quoted + ended, messages.len());
        }
    }
}

/// A line of `manifest.tsv`.
struct Row {
    status: String,
    xstatus: String,
    keywords: Vec<String>,
    message_id: String,
}

fn manifest() -> Option<Vec<Row>> {
    let path = corpora::find("dev-formats")?.join("manifest.tsv");
    let text = String::from_utf8(corpora::read(&path).unwrap()).unwrap();
    // A Message-ID with a line end inside makes two lines of one.
    let is_row = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit());
    let rows = text.lines().filter(is_row).map(|line| {
        let mut columns = line.split('\t').skip(1).map(str::to_owned);
        let mut next = || columns.next().unwrap_or_default();
        let (status, xstatus, keywords) = (next(), next(), next());
        let keywords = keywords.split_whitespace().map(str::to_owned).collect();
        Row { status, xstatus, keywords, message_id: next().trim().to_owned() }
    });
    Some(rows.collect())
}

fn sample(name: &str, variant: Option<Variant>) -> Option<Vec<Message>> {
    let path = corpora::find("dev-formats")?.join(name);
    Some(Box_::open(&path, variant).scan().messages)
}

/// Compares the properties that do not depend on the variant.
fn check_same(messages: &[Message], expected: &[Message], name: &str) {
    assert_eq!(messages.len(), expected.len(), "{name}");
    for (message, expected) in messages.iter().zip(expected) {
        assert_eq!(message.subject, expected.subject, "{name}");
        assert_eq!(message.message_id, expected.message_id, "{name}");
        assert_eq!(message.date, expected.date, "{name}");
        assert_eq!(message.flags, expected.flags, "{name}");
        assert_eq!(message.keywords, expected.keywords, "{name}");
    }
}

/// Returns the first of the messages with CRLF, whose flags were written after their bodies when
/// the source was made.
fn first_odd_row() -> usize {
    corpora::either("dev-formats", 400, 120)
}

/// Compares flags and keywords with the manifest.
fn check_flags(messages: &[Message], rows: &[Row], name: &str) {
    assert_eq!(messages.len(), rows.len(), "{name}");
    let mut with_keywords = 0;
    for (row, message) in rows.iter().zip(messages).take(first_odd_row()) {
        let has = |flag| message.flags.contains(flag);
        assert_eq!(has(Flag::Seen), row.status.contains('R'), "{name} {}", row.message_id);
        for (flag, letter) in
            [(Flag::Deleted, 'D'), (Flag::Answered, 'A'), (Flag::Flagged, 'F'), (Flag::Draft, 'T')]
        {
            assert_eq!(has(flag), row.xstatus.contains(letter), "{name} {}", row.message_id);
        }
        let keywords = &message.keywords;
        let mut wanted = row.keywords.clone();
        wanted.sort();
        // c-client lost the keywords of the messages that it appended before it knew their names.
        if !keywords.is_empty() || name == "source" {
            assert_eq!(*keywords, wanted, "{name} {}", row.message_id);
            with_keywords += u32::from(!keywords.is_empty());
        }
    }
    println!("{name}: {with_keywords} messages have keywords");
    let expected = corpora::either("dev-formats", 200, 70);
    assert!(with_keywords > expected, "{name}: {with_keywords}");
}

#[test]
fn the_samples_of_four_variants_agree() {
    let Some(expected) = sample("sample.mboxo", None) else { return };
    assert_eq!(expected.len(), corpora::either("dev-formats", 411, 120));
    for (name, variant) in [
        ("sample.mboxrd", Variant::Mboxrd),
        ("sample.mboxcl", Variant::Mboxcl),
        ("sample.mboxcl2", Variant::Mboxcl2),
    ] {
        for variant in [None, Some(variant)] {
            check_same(&sample(name, variant).unwrap(), &expected, name);
        }
    }
}

#[test]
fn what_c_client_wrote_has_the_flags_of_its_source() {
    let Some(rows) = manifest() else { return };
    let Some(source) = sample("source-flagged.mboxo", None) else { return };
    let (count, expected) = corpora::either("dev-formats", (411, 170), (120, 40));
    assert_eq!(rows.len(), count);
    check_flags(&source, &rows, "source");
    for (name, variant) in [("uw.unix", None), ("uw.mmdf", Some(Variant::Mmdf))] {
        let found = sample(name, variant).unwrap();
        check_flags(&found, &rows, name);
        let unseen = found.iter().filter(|message| !message.flags.contains(Flag::Seen)).count();
        assert_eq!(unseen, expected, "{name}");
        for (message, expected) in found.iter().zip(&source) {
            assert_eq!(message.subject, expected.subject, "{name}");
            assert_eq!(message.date, expected.date, "{name}");
        }
    }
}

#[test]
fn no_file_of_the_torture_corpora_makes_trouble() {
    let mut files = Vec::new();
    for name in ["dev-torture", "spamassassin", "dev-formats"] {
        files.extend(corpora::files(name).into_iter().flatten());
    }
    let (mut mailboxes, mut refused, mut messages) = (0, 0, 0);
    for path in &files {
        for variant in [None, Some(Variant::Mboxrd), Some(Variant::Mmdf)] {
            let mailbox = Box_::open(path, variant);
            match mailbox.try_scan() {
                Ok(found) => {
                    mailboxes += 1;
                    messages += found.messages.len();
                    for message in &found.messages {
                        mailbox.same_bytes(message);
                    }
                }
                Err(barid_mailbox::Error::NotAMailbox { .. }) => refused += 1,
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }
    println!("{} files: {mailboxes} read, {refused} refused, {messages} messages", files.len());
    let (mailboxes_min, refused_min) = corpora::either("dev-torture", (10_000, 10_000), (20, 900));
    assert!(mailboxes > mailboxes_min && refused > refused_min, "{mailboxes} {refused}");
}
