//! Mailboxes that c-client itself has written.

use std::sync::Arc;

use barid_testkit::corpora;
use barid_vfs::OsVfs;

use super::support::World;

/// Parses a line of `manifest.tsv`: the number of a message, and its flags as the tests show them.
/// (One Message-ID there has a line end, and divides its line.)
fn manifest_line(line: &str) -> Option<(usize, String, String)> {
    let columns: Vec<&str> = line.split('\t').collect();
    let number: usize = columns[0].parse().ok().filter(|_| columns.len() == 6)?;
    let (status, xstatus, keywords, id) = (columns[1], columns[2], columns[3], columns[4]);
    let letters = [('A', 'A'), ('D', 'D'), ('F', 'F'), ('R', 'S'), ('T', 'T')];
    let has = |letter: &char| status.contains(*letter) || xstatus.contains(*letter);
    let mut text: String =
        letters.iter().filter(|(letter, _)| has(letter)).map(|(_, shown)| *shown).collect();
    text.push('-');
    for keyword in keywords.split_ascii_whitespace() {
        text.push(' ');
        text.push_str(keyword);
    }
    Some((number, text, id.to_owned()))
}

#[test]
fn what_c_client_wrote_is_read() {
    let Some(folder) = corpora::find("dev-formats") else { return };
    let manifest = corpora::read(&folder.join("manifest.tsv")).unwrap();
    let manifest = String::from_utf8(manifest).unwrap();
    let expected: Vec<_> = manifest.lines().skip(1).filter_map(manifest_line).collect();
    let (all, pruned) = corpora::either("dev-formats", (411, (528, 825)), (120, (100, 251)));
    // In the real corpus, a message that c-client split in two comes after these.
    let plain = corpora::either("dev-formats", 400, all);
    for (name, count, uidnext) in [
        ("uw.mbx", all, all as u32 + 2),
        ("uw-pruned.mbx", pruned.0, pruned.1),
        ("uw-empty.mbx", 0, 1),
        ("test.mbx", 3, 4),
    ] {
        let mut world = World::on(Arc::new(OsVfs), &folder.join(name));
        world.read_only = true;
        let found = world.scan();
        assert_eq!(found.seen.len(), count, "{name}");
        assert_eq!(found.report.uidnext.get(), uidnext, "{name}");
        assert_eq!(found.report.defects, []);
        for seen in &found.seen {
            assert_eq!(world.read(seen).unwrap().len() as u64, seen.size);
        }
        if name != "uw.mbx" {
            continue;
        }
        for (number, flags, id) in &expected[..plain] {
            // c-client had not yet defined the keywords of the first message.
            let seen = &found.seen[number - 1];
            let without = flags.split_inclusive('-').next().unwrap();
            let flags = if *number == 1 { without } else { flags };
            let shown = found.flags_of(seen).replace('R', "");
            let sorted = |text: &str| {
                let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
                words[1..].sort_unstable();
                words
            };
            assert_eq!(sorted(&shown), sorted(flags), "{number}");
            let header = String::from_utf8_lossy(&seen.header);
            assert!(!id.is_ascii() || header.contains(id.trim()), "{number} {id}");
        }
    }
}

#[test]
fn what_is_malformed_is_refused() {
    let Some(folder) = corpora::find("dev-formats") else { return };
    let mut world = World::on(Arc::new(OsVfs), &folder.join("malformed.mbx"));
    world.read_only = true;
    let error = world.try_scan(&barid_mailbox::EmptyKnown::default()).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("damaged at offset 2048: its flags and UID"), "{error}");
}
