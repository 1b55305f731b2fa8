//! The same script of operations produces the same bytes in c-client and in barid.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use barid_mailbox::{ChangeSet, FlagChange};
use barid_testkit::disk;
use barid_testkit::peers::CClient;
use barid_types::{Flag, FlagSet};
use barid_vfs::{Host as _, OsVfs, Vfs};

use super::support::{MixBox, add, new_message, uid, write_files};

/// Returns the files of a mailbox with times replaced by their ranks, and dates by one date.
fn normalized(mailbox: &MixBox) -> BTreeMap<String, String> {
    let text = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect::<String>();
    let mut files: BTreeMap<String, String> =
        mailbox.files().iter().map(|(name, bytes)| (name.clone(), text(bytes))).collect();
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let mut times = BTreeSet::new();
    for name in [".mixmeta", ".mixindex", ".mixstatus"] {
        for line in files[name].lines() {
            match line.as_bytes().first() {
                Some(b'S' | b'V' | b'N') => drop(times.insert(hex(&line[1..]))),
                Some(b':') if name == ".mixindex" => {
                    times.insert(hex(line.split(':').nth(4).unwrap()));
                }
                Some(b':') => drop(times.insert(hex(line.split(':').nth(4).unwrap()))),
                _ => {}
            }
        }
    }
    let data: Vec<String> = files.keys().filter(|name| name.len() == 12).cloned().collect();
    times.extend(data.iter().map(|name| hex(&name[4..])));
    let ranks: BTreeMap<u64, usize> = times.into_iter().zip(0..).collect();
    let rank = |text: &str| format!("<{:06}>", ranks[&hex(text)]);
    // Dates of the lines before messages, by the index.
    for line in files[".mixindex"].clone().lines().skip(1) {
        let fields: Vec<&str> = line.split(':').collect();
        let data = files.get_mut(&format!(".mix{}", fields[4])).unwrap();
        let at = hex(fields[5]) as usize + 14;
        data.replace_range(at..at + 19, "-------------------");
    }
    for name in [".mixmeta", ".mixindex", ".mixstatus"] {
        let lines = files[name].split_inclusive('\n').map(|line| match line.as_bytes()[0] {
            b'S' | b'V' | b'N' => format!("{}{}{}", &line[..1], rank(&line[1..9]), &line[9..]),
            b':' => {
                let mut fields: Vec<String> = line.split(':').map(str::to_owned).collect();
                fields[4] = rank(&fields[4]);
                if name == ".mixindex" {
                    "-------------------".clone_into(&mut fields[2]);
                }
                fields.join(":")
            }
            _ => line.to_owned(),
        });
        let lines = lines.collect();
        files.insert(name.to_owned(), lines);
    }
    for name in data {
        let text = files.remove(&name).unwrap();
        files.insert(format!("data {}", rank(&name[4..])), text);
    }
    files
}

struct Both {
    peer: CClient,
    theirs: MixBox,
    ours: MixBox,
    steps: u32,
}

impl Both {
    fn new() -> Option<Self> {
        let peer = CClient::new()?;
        peer.mailutil(&["create", "#driver.mix/theirs"]).unwrap();
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
        let theirs = MixBox::open(Arc::clone(&vfs), &peer.folder().join("theirs"));
        let path = peer.folder().join("ours");
        let files = theirs.files();
        write_files(&*vfs, &path, files.iter().map(|(name, bytes)| (&**name, &**bytes)));
        let ours = MixBox::open(vfs, &path);
        Some(Self { peer, theirs, ours, steps: 0 })
    }

    /// Waits until the next step gets a time of its own.
    fn wait(&self) {
        OsVfs.sleep(Duration::from_millis(2_100));
    }

    fn command(&mut self, text: &str) {
        self.peer.messages.clear();
        self.peer.command(text).unwrap();
        let bad = self.peer.messages.iter().find(|message| message.starts_with("2 "));
        assert_eq!(bad, None, "{text}");
    }

    fn same(&mut self, what: &str) {
        self.steps += 1;
        let (ours, theirs) = (normalized(&self.ours), normalized(&self.theirs));
        let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&ours), names(&theirs), "{what}");
        for (name, text) in &ours {
            let short = |text: &str| text.chars().take(3_000).collect::<String>();
            assert!(
                text == &theirs[name],
                "{what}: {name}: ours\n{}\ntheirs\n{}",
                short(text),
                short(&theirs[name])
            );
        }
    }

    fn append(&mut self, texts: &[Vec<u8>], at_once: bool) {
        self.wait();
        let path = self.peer.folder().join("batch");
        let mut batch = Vec::new();
        for text in texts {
            batch.extend_from_slice(format!("{}\n", text.len()).as_bytes());
            batch.extend_from_slice(text);
        }
        disk::write(&path, &batch).unwrap();
        let verb = if at_once { "multiappend" } else { "append" };
        self.command(&format!("{verb} theirs {}", path.display()));
        let messages: Vec<_> = texts
            .iter()
            .map(|text| {
                let mut message = new_message(text);
                message.internal_date = None;
                message
            })
            .collect();
        self.ours.sync(&ChangeSet::default(), &messages).unwrap();
        self.same("append");
    }

    fn change(&mut self, command: &str, changes: ChangeSet) {
        self.wait();
        self.command(command);
        self.ours.sync(&changes, &[]).unwrap();
        self.same(command);
    }
}

fn text(number: usize, len: usize) -> Vec<u8> {
    let mut text = format!("Subject: message {number}\r\n\r\n").into_bytes();
    while text.len() < len {
        text.extend_from_slice(b"some line of the message\r\n");
    }
    text
}

#[test]
fn the_same_operations_make_the_same_bytes() {
    let Some(mut both) = Both::new() else { return };
    let seen = FlagSet::EMPTY.with(Flag::Seen);
    let flags = |flags: Vec<_>| ChangeSet { flags: flags.into(), ..ChangeSet::default() };
    both.append(&[text(0, 100)], false);
    both.append(&[text(1, 3000), text(2, 700), text(3, 40), text(4, 900)], true);
    let drop = ChangeSet { drop_recent: true, ..ChangeSet::default() };
    both.change("open theirs", drop.clone());
    both.change("flag 1:2 \\Seen", flags(vec![add(1, seen, &[]), add(2, seen, &[])]));
    both.change(
        "flag 2:3 todo",
        flags(vec![add(2, FlagSet::EMPTY, &["todo"]), add(3, FlagSet::EMPTY, &["todo"])]),
    );
    let remove = FlagChange { remove: seen, ..FlagChange::default() };
    both.change("unflag 1 \\Seen", flags(vec![(uid(1), remove)]));
    let deleted = FlagSet::EMPTY.with(Flag::Deleted);
    both.change("flag 2,5 \\Deleted", flags(vec![add(2, deleted, &[]), add(5, deleted, &[])]));
    let expunge = |uids: &[u32]| ChangeSet {
        expunge: uids.iter().map(|number| uid(*number)).collect(),
        ..ChangeSet::default()
    };
    both.change("expunge", expunge(&[2, 5]));
    both.command("close");
    // New data files, and removed ones.
    both.append(&[text(5, 600_000)], false);
    both.append(&[text(6, 500_000)], false);
    both.append(&[text(7, 1_100_000)], false);
    both.append(&[text(8, 500)], false);
    both.change("open theirs", drop);
    both.change(
        "flag 1:5 \\Deleted",
        flags([1, 3, 4, 6, 7].map(|n| add(n, deleted, &[])).to_vec()),
    );
    both.change("expunge", expunge(&[1, 3, 4, 6, 7]));
    both.command("close");
    both.same("the end");
    println!("mix: {} steps, the same bytes", both.steps);
    // Each program opens the other's mailbox.
    assert_eq!(both.ours.now().len(), 2);
    assert_eq!(texts(&both.ours), texts(&both.theirs));
    assert_eq!(both.peer.open("ours").unwrap(), 2);
    assert_eq!(both.peer.command("uids").unwrap(), ["8", "9"]);
    both.command("close");
}

fn texts(mailbox: &MixBox) -> Vec<Vec<u8>> {
    mailbox.now().into_values().map(|content| content.text).collect()
}

#[test]
fn c_client_reads_what_we_wrote() {
    let Some(mut peer) = CClient::new() else { return };
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let mut mailbox = super::support::create(&vfs, &peer.folder().join("box"));
    let texts: Vec<_> = (0..40).map(|n| text(n, 97 * n * n)).collect();
    for (number, text) in texts.iter().enumerate() {
        let mut message = new_message(text);
        message.flags = FlagSet::from_bits(number as u8 & 0x1f);
        message.keywords =
            (number % 5 == 0).then(|| super::support::keyword("Junk")).into_iter().collect();
        mailbox.sync(&ChangeSet::default(), &[message]).unwrap();
    }
    let changes = ChangeSet { expunge: vec![uid(7), uid(30)], ..ChangeSet::default() };
    mailbox.sync(&changes, &[]).unwrap();
    let contents = mailbox.now();
    assert_eq!(peer.open("box").unwrap(), 38, "{:?}", peer.messages);
    let uids = peer.command("uids").unwrap();
    let flags = peer.command("flags").unwrap();
    let dates = peer.command("dates").unwrap();
    for (number, (id, content)) in contents.iter().enumerate() {
        assert_eq!(uids[number], id.to_string());
        let of = |flag, letter| if content.flags.contains(flag) { letter } else { "" };
        let letters = [
            of(Flag::Answered, "A"),
            of(Flag::Deleted, "D"),
            of(Flag::Flagged, "F"),
            of(Flag::Seen, "S"),
            of(Flag::Draft, "T"),
        ]
        .concat();
        let theirs = flags[number].replace(['R', '-'], " ");
        let theirs = theirs.trim();
        let junk = if content.keywords.is_empty() { "" } else { "Junk" };
        let ours = format!("{letters} {junk}");
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeeze(theirs), squeeze(&ours), "{}", flags[number]);
        assert!(dates[number].contains("+0100"), "{}", dates[number]);
        let lines = peer.command(&format!("text {}", number + 1)).unwrap();
        let body = String::from_utf8_lossy(&content.text).into_owned();
        let body = body.split_once("\r\n\r\n").unwrap().1.to_owned();
        assert_eq!(lines.len(), body.lines().count());
    }
    assert!(peer.messages.iter().all(|message| !message.starts_with("2 ")), "{:?}", peer.messages);
    peer.command("close").unwrap();
}

#[test]
fn a_session_of_c_client_sees_what_we_change() {
    let Some(mut peer) = CClient::new() else { return };
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let mut mailbox = super::support::create(&vfs, &peer.folder().join("box"));
    let texts: Vec<_> = (0..5).map(|n| text(n, 300 * (n + 1))).collect();
    let messages: Vec<_> = texts.iter().map(|text| new_message(text)).collect();
    mailbox.sync(&ChangeSet::default(), &messages).unwrap();
    assert_eq!(peer.open("box").unwrap(), 5);
    let size = |mailbox: &MixBox| mailbox.files()[".mix5f000000"].len();
    let before = size(&mailbox);
    // Our flag changes and expunges, which must not move anything under a session.
    let flagged = FlagSet::EMPTY.with(Flag::Flagged);
    let flags = vec![add(4, flagged, &["todo"])];
    let changes =
        ChangeSet { flags: flags.into(), expunge: vec![uid(1), uid(3)], ..ChangeSet::default() };
    mailbox.sync(&changes, &[new_message(&texts[0])]).unwrap();
    assert!(size(&mailbox) > before);
    peer.command("ping").unwrap();
    peer.command("check").unwrap();
    assert_eq!(peer.command("uids").unwrap(), ["2", "4", "5", "6"], "{:?}", peer.messages);
    let theirs = peer.command("flags").unwrap();
    assert!(theirs[1].contains('F') && theirs[1].contains("todo"), "{theirs:?}");
    peer.command("close").unwrap();
    let bad = peer.messages.iter().find(|message| message.starts_with("2 "));
    assert_eq!(bad, None);
    // Now that no session is open, c-client has reclaimed the space.
    let cached = mailbox.scan();
    assert_eq!(cached.report.defects, []);
    assert_eq!(size(&mailbox) as u64, cached.report.size_bytes);
    let contents = mailbox.contents(&cached);
    assert_eq!(contents.keys().copied().collect::<Vec<_>>(), [2, 4, 5, 6]);
    assert_eq!((&contents[&4].text, &contents[&6].text), (&texts[3], &texts[0]));
}
