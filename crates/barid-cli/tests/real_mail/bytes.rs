//! `show --raw` prints the same bytes from every mailbox.

use barid_testkit::boxes::MboxVariant;
use barid_testkit::corpora;

use super::{Mail, Tally};

const LIST: &str = "dev-list-man";

/// Returns a message as stored in an mbox of `variant`, without the separator.
fn stored(file: &[u8], variant: MboxVariant) -> Vec<u8> {
    let is_quoted = matches!(variant, MboxVariant::Mboxo | MboxVariant::Mboxcl);
    let has_length = matches!(variant, MboxVariant::Mboxcl | MboxVariant::Mboxcl2);
    let mut text = Vec::with_capacity(file.len() + 80);
    for line in file.split_inclusive(|byte| *byte == b'\n') {
        if is_quoted && line.starts_with(b"From ") {
            text.push(b'>');
        }
        text.extend_from_slice(line);
    }
    if !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    if has_length {
        let body = barid::message::body_offset(&text);
        let end = if text[..body].ends_with(b"\n\n") { body - 1 } else { body };
        let length = format!("Content-Length: {}\n", text.len() - body);
        text.splice(end..end, length.into_bytes());
    }
    text
}

fn without_length(text: &[u8]) -> Vec<u8> {
    let header = &text[..barid::message::body_offset(text)];
    let found = barid::message::fields(header)
        .filter(|field| field.name.eq_ignore_ascii_case(b"content-length"))
        .last();
    match found {
        Some(field) => [&text[..field.offset], &text[field.end..]].concat(),
        None => text.to_vec(),
    }
}

/// Compares the output for all messages with the files.
fn compare(mail: &Mail, title: &str, variant: Option<MboxVariant>, printed: &[u8]) -> Tally {
    let mut tally = Tally::new(title);
    let mut rest = printed;
    for message in &mail.messages {
        let file = barid::message::strip_owned(&message.bytes);
        let expected = variant.map_or_else(|| file.to_vec(), |variant| stored(&file, variant));
        let Some(next) = rest.strip_prefix(&expected[..]) else {
            let shared = rest.iter().zip(&expected).take_while(|(one, two)| one == two).count();
            let context = &expected[shared.saturating_sub(200)..expected.len().min(shared + 100)];
            panic!("{title}: message {}: {}", tally.compared + 1, context.escape_ascii());
        };
        rest = next;
        let plain = match variant {
            Some(MboxVariant::Mboxcl | MboxVariant::Mboxcl2) => without_length(&expected),
            _ => expected,
        };
        if plain == *file {
            tally.equal();
        } else if plain == [&file[..], b"\n"].concat() {
            tally.explained("the last line got its end");
        } else {
            tally.explained("From lines are quoted");
        }
    }
    assert!(rest.is_empty(), "{title}: {} bytes too many", rest.len());
    tally
}

#[test]
fn a_list_is_the_same_in_every_mailbox() {
    let Some(mail) = Mail::of(LIST, 17_885) else { return };
    // The number of messages, and of those with a line that mboxo quotes.
    let (count, quoted_count) = corpora::either(LIST, (17_885, 134), (600, 32));
    assert_eq!(mail.messages.len(), count);
    let maildir = mail.maildir();
    let check_count = |mailbox: &str| {
        let text = String::from_utf8(mail.run(&["status", "--json", mailbox])).unwrap();
        assert!(text.contains(&format!("\"messages\":{count},")), "{mailbox}: {text}");
    };
    check_count(&maildir);
    let printed = mail.run(&["show", "--raw", &maildir, "1:*"]);
    let tally = compare(&mail, "raw from a Maildir", None, &printed);
    tally.report(count);
    assert_eq!(tally.equal, count);
    for variant in
        [MboxVariant::Mboxo, MboxVariant::Mboxrd, MboxVariant::Mboxcl, MboxVariant::Mboxcl2]
    {
        let name = variant.name();
        let path = mail.write_mbox(mail.world.path(&format!("list.{name}")), variant);
        check_count(&path);
        let forced = format!("{name}:{path}");
        check_count(&forced);
        let printed = mail.run(&["show", "--raw", &forced, "1:*"]);
        let tally = compare(&mail, &format!("raw from an {name}"), Some(variant), &printed);
        tally.report(count);
        let is_quoted = matches!(variant, MboxVariant::Mboxo | MboxVariant::Mboxcl);
        let quoted = if is_quoted { quoted_count } else { 0 };
        assert_eq!(tally.count("From lines are quoted"), quoted, "{name}");
        mail.world.remove(&format!("list.{name}"));
    }
}
