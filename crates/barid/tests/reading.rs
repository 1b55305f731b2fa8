//! Reading messages that are stored in another form, or that have changed.

use barid::fetch::FetchItems;
use barid::query::parse_imap;
use barid::{Error, Mailbox, MailboxSpec, ReadAs, Uid, UidSet};

use crate::world::World;

/// A header and a body with lines that an mboxrd quotes.
const QUOTED: &[u8] = b"From a@b Mon Jan  1 00:00:00 2024\n\
    Subject: one\n>From old headers: x\n>>From older: y\nTo: c@d\n\nneedle\n>From the body\n";

fn world(format: &str, text: &[u8]) -> World {
    let mut world = World::mbox(51);
    world.spec = MailboxSpec::parse(&format!("{format}:/mail/box"));
    world.write_mbox(text);
    world.wait();
    world
}

fn text_search(mailbox: &mut Mailbox, text: &str) -> barid::Result<Vec<u32>> {
    let program = parse_imap(text.as_bytes()).unwrap().program;
    let found = mailbox.search(&program, &UidSet::new())?;
    assert!(found.unreadable.is_empty());
    Ok(found.rows)
}

fn fetch(mailbox: &mut Mailbox, wanted: &str) -> barid::Result<Vec<u8>> {
    let (uids, wanted) = ([Uid::MIN], FetchItems::parse(wanted).unwrap());
    let mut out = Vec::new();
    mailbox.fetch(&uids, &wanted, &|fetched, out| fetched.write_imap(out), &mut |bytes| {
        out.extend_from_slice(bytes);
        true
    })?;
    Ok(out)
}

#[test]
fn a_header_with_quoted_lines_is_read_and_searched() {
    for (format, quote) in [("mboxrd", ""), ("mboxo", ">")] {
        let mut mailbox = world(format, QUOTED).open();
        let header =
            format!("Subject: one\n{quote}From old headers: x\n{quote}>From older: y\nTo: c@d\n\n");
        let message = mailbox.read(Uid::MIN, ReadAs::Message).unwrap();
        let expected = format!("{header}needle\n{quote}From the body\n");
        assert_eq!(String::from_utf8(message.bytes).unwrap(), expected, "{format}");
        assert_eq!(message.header_len, header.len());
        assert_eq!(mailbox.read(Uid::MIN, ReadAs::Stored).unwrap().bytes, QUOTED);
        assert_eq!(text_search(&mut mailbox, "TEXT needle").unwrap(), [0], "{format}");
        assert!(!fetch(&mut mailbox, "BODY[]").unwrap().is_empty());
    }
}

/// Returns an mbox of one message under a UIDVALIDITY.
fn numbered(validity: u32, text: &str) -> Vec<u8> {
    format!(
        "From a@b Mon Jan  1 00:00:00 2024\nX-IMAPbase: {validity} 1\nX-UID: 1\n\
         Subject: {text}\n\n{text}\n\n"
    )
    .into_bytes()
}

#[test]
fn what_has_other_uids_meanwhile_is_not_taken_for_what_was_asked() {
    type Ask = fn(&mut Mailbox) -> Option<Error>;
    let asks: [Ask; 3] = [
        |mailbox| mailbox.read(Uid::MIN, ReadAs::Message).err(),
        |mailbox| fetch(mailbox, "BODY[]").err(),
        |mailbox| text_search(mailbox, "UID 1 NOT TEXT nothing").err(),
    ];
    for ask in asks {
        let world = world("mboxrd", &numbered(1_600_000_000, "one"));
        let mut mailbox = world.open();
        assert!(ask(&mut mailbox).is_none());
        world.write_mbox(&numbered(1_600_000_001, "another"));
        world.wait();
        let error = ask(&mut mailbox);
        assert!(matches!(error, Some(Error::Renumbered { .. })), "{error:?}");
        mailbox.refresh().unwrap();
        assert!(ask(&mut mailbox).is_none());
    }
}
