//! Mailboxes that c-client wrote.

use std::sync::Arc;

use barid_testkit::corpora;
use barid_types::Flag;
use barid_vfs::OsVfs;

use super::support::MixBox;

fn open(name: &str) -> Option<MixBox> {
    let path = corpora::find("dev-formats")?.join(name);
    Some(MixBox::open(Arc::new(OsVfs), &path))
}

#[test]
fn all_of_c_client_s_messages_are_there() {
    let Some(mailbox) = open("uw.mix") else { return };
    let manifest = corpora::find("dev-formats").unwrap().join("manifest.tsv");
    let manifest = String::from_utf8(corpora::read(&manifest).unwrap()).unwrap();
    let cached = mailbox.scan();
    assert_eq!(cached.report.defects, []);
    let contents = mailbox.contents(&cached);
    assert_eq!(contents.len(), corpora::either("dev-formats", 411, 120));
    // c-client has rotated the messages by one, and does not preserve the order of keywords.
    let lines: Vec<&str> = manifest.lines().skip(1).collect();
    let first = *contents.keys().min().unwrap();
    let mut matched = 0;
    for (uid, content) in &contents {
        let text = String::from_utf8_lossy(&content.text).into_owned();
        let line = lines.iter().find(|line| {
            let id = line.split('\t').nth(4).unwrap();
            !id.is_empty()
                && text.contains(id)
                && text.to_lowercase().contains("message-id:")
                && text.split("\r\n\r\n").next().unwrap().contains(&format!("{id}\r\n"))
                && header_id(&text).is_some_and(|found| found == id)
        });
        let Some(line) = line else { continue };
        matched += 1;
        let fields: Vec<&str> = line.split('\t').collect();
        let letters = [fields[1], fields[2]].concat();
        for (letter, flag) in [
            ('R', Flag::Seen),
            ('A', Flag::Answered),
            ('F', Flag::Flagged),
            ('D', Flag::Deleted),
            ('T', Flag::Draft),
        ] {
            assert_eq!(letters.contains(letter), content.flags.contains(flag), "{line}");
        }
        let mut keywords: Vec<&str> = fields[3].split_whitespace().collect();
        let mut found: Vec<&str> = content.keywords.iter().map(String::as_str).collect();
        keywords.sort_unstable();
        found.sort_unstable();
        // The first message came before the mailbox had the keywords, so c-client dropped them.
        if *uid == first {
            keywords.clear();
        }
        assert_eq!(found, keywords, "{line}");
    }
    assert!(matched > corpora::either("dev-formats", 300, 80), "{matched}");
}

/// Returns the Message-ID of a text.
fn header_id(text: &str) -> Option<String> {
    let header = text.split("\r\n\r\n").next()?;
    let at = header.to_lowercase().find("\r\nmessage-id:")?;
    let value = header[at + 13..].trim_start();
    value.split_whitespace().next().map(str::to_owned)
}

#[test]
fn pruned_and_empty_mailboxes_are_read() {
    let Some(pruned) = open("uw-pruned.mix") else { return };
    let cached = pruned.scan();
    let (count, expected) = corpora::either("dev-formats", (528, 267), (100, 33));
    assert_eq!((cached.seen.len(), cached.report.defects.len()), (count, 0));
    assert_eq!(pruned.contents(&cached).len(), count);
    let unseen = cached.seen.iter().filter(|m| !m.flags.contains(Flag::Seen)).count();
    assert_eq!(unseen, expected);
    let (report, _) = pruned.rescan(&cached);
    assert_eq!((report.reset, report.stats.messages_read), (false, 0));
    let empty = open("uw-empty.mix").unwrap();
    assert_eq!(empty.scan().seen, []);
    assert!(empty.scan().report.defects.is_empty());
}
