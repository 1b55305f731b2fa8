//! The peers read generated mailboxes as intended.

use barid_testkit::Scratch;
use barid_testkit::boxes::{MboxOptions, MboxVariant};
use barid_testkit::corpus::Corpus;
use barid_testkit::peers::{CClient, Dovecot};

const COUNT: u64 = 400;

/// Returns the subjects in the order of the mailbox, from the raw lines of the headers.
fn subjects(dovecot: &Dovecot, location: &str) -> Vec<String> {
    let mut imap = dovecot.imap(location, &[]).unwrap();
    assert_eq!(imap.command("SELECT INBOX").unwrap().number("EXISTS"), Some(COUNT as u32));
    let reply = imap.command("FETCH 1:* (FLAGS BODY.PEEK[HEADER.FIELDS (Subject Date)])").unwrap();
    let text =
        |line: &Vec<u8>| String::from_utf8_lossy(line).replace("\\Recent", "").replace(" )", ")");
    reply.untagged.iter().filter(|line| line.contains(&b'(')).map(text).collect()
}

#[test]
fn maildir_and_mbox_hold_the_same() {
    let Some(dovecot) = Dovecot::new() else { return };
    let scratch = Scratch::new("boxes").unwrap();
    let corpus = Corpus::new(11, COUNT);
    let maildir = scratch.path().join("maildir");
    assert_eq!(corpus.write_maildir(&maildir).unwrap().messages, COUNT);
    let expected = subjects(&dovecot, &format!("maildir:{}", maildir.display()));
    assert_eq!(expected.len() as u64, COUNT);
    for variant in [MboxVariant::Mboxo, MboxVariant::Mboxcl, MboxVariant::Mboxcl2] {
        let mbox = scratch.path().join(variant.name());
        corpus.write_mbox(&mbox, MboxOptions::new(variant)).unwrap();
        let found = subjects(&dovecot, &dovecot.mbox_location(&mbox));
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "{variant:?}");
        }
    }
}

#[test]
fn c_client_counts_the_same() {
    let Some(mut peer) = CClient::new() else { return };
    let corpus = Corpus::new(11, COUNT);
    for variant in [MboxVariant::Mboxo, MboxVariant::Mboxrd, MboxVariant::Mmdf] {
        let name = variant.name();
        corpus.write_mbox(&peer.folder().join(name), MboxOptions::new(variant)).unwrap();
        assert_eq!(u64::from(peer.open(name).unwrap()), COUNT, "{name}");
    }
}
