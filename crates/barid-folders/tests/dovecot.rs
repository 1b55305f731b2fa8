//! The same changes made by Dovecot and by barid, each on a Maildir++ of its own: the results, the
//! lists and the UIDVALIDITYs agree, and each reads what the other left.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid::message::encode_utf7;
use barid::{OpenOptions, at_rest};
use barid_folders::{FolderOptions, FolderTree, Layout, Renamed};
use barid_imap::command::{ListCommand, ListSelection, MailboxName};
use barid_testkit::peers::{Dovecot, Imap};
use barid_testkit::{Scratch, disk};
use barid_vfs::{OsVfs, Vfs};

/// Names that are used; some of them are not valid.
const NAMES: [&str; 18] = [
    "a",
    "b",
    "a.b",
    "a.b.c",
    "a.b.c.d",
    "b.x",
    "ä",
    "ä.€uro",
    "INBOX.s",
    "inbox.t",
    "Sent",
    "with space",
    "c&d",
    "a b",
    "~t",
    "x/y",
    "a..b",
    ".z",
];
/// Settings without which Dovecot lists what it remembers, and waits for the disk.
const SETTINGS: [(&str, &str); 2] = [("mailbox_list_index", "no"), ("mail_fsync", "never")];

/// Two accounts with the same changes.
struct Pair {
    imap: Imap,
    tree: FolderTree,
    vfs: Arc<dyn Vfs>,
    options: OpenOptions,
    compared: usize,
}

fn quoted(name: &str) -> String {
    let parts: Vec<String> = name.split('.').map(encode_utf7).collect();
    format!("\"{}\"", parts.join("."))
}

impl Pair {
    fn new(dovecot: &Dovecot, theirs: &Path, ours: &Scratch) -> Self {
        let location = format!("maildir:{}", theirs.display());
        let imap = dovecot.imap(&location, &SETTINGS).unwrap();
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
        let options = OpenOptions::new(None, ours.path().join("state"));
        let tree = tree_at(&vfs, &ours.path().join("mail"), &options);
        tree.create(&"INBOX".into(), false, &[]).unwrap();
        Self { imap, tree, vfs, options, compared: 0 }
    }

    /// Sends a command to Dovecot. Returns its status, and compares that with our result.
    fn compare(&mut self, command: &str, ours: barid_folders::Result<()>) {
        let status = match self.imap.command(command) {
            Ok(reply) => reply.status,
            Err(error) => error.to_string(),
        };
        let theirs = status.contains(": NO").then(|| {
            let code = status.split_once("NO [").and_then(|(_, rest)| rest.split_once(']'));
            code.map(|(code, _)| code.to_owned())
        });
        match (&ours, &theirs) {
            (Ok(()), None) => {}
            // Dovecot gives no code for some.
            (Err(_), Some(None)) => {}
            (Err(error), Some(Some(code))) => {
                // Which of two reasons counts, of a name that does not exist and another that
                // cannot, is open.
                let both = ["CANNOT", "NONEXISTENT"];
                let ours = error.code().unwrap_or_default();
                let is_either = both.contains(&ours) && both.contains(&code.as_str());
                assert!(ours == code || is_either, "{command}: {status}; {error}");
            }
            _ => panic!("{command}: {status}, and here {ours:?}"),
        }
        self.compared += 1;
    }

    fn change(&mut self, random: &mut fastrand::Rng) {
        let name = |random: &mut fastrand::Rng| NAMES[random.usize(..NAMES.len())];
        let (one, other) = (name(random), name(random));
        let (first, second): (MailboxName, MailboxName) = (one.into(), other.into());
        match random.u32(..10) {
            0..4 => {
                let ours = self.tree.create(&first, false, &[]);
                self.compare(&format!("CREATE {}", quoted(one)), ours);
            }
            4..6 => {
                let ours = self.tree.delete(&first);
                self.compare(&format!("DELETE {}", quoted(one)), ours);
            }
            6..8 => {
                let ours = self.tree.rename(&first, &second);
                let ours = ours.map(|renamed| assert_eq!(renamed, Renamed::Done));
                self.compare(&format!("RENAME {} {}", quoted(one), quoted(other)), ours);
            }
            8 => {
                let ours = self.tree.subscribe(&first, true);
                self.compare(&format!("SUBSCRIBE {}", quoted(one)), ours);
            }
            // Here, what was subscribed to elsewhere can be removed, whatever its name.
            _ if one.starts_with('~') => {}
            _ => {
                let ours = self.tree.subscribe(&first, false);
                self.compare(&format!("UNSUBSCRIBE {}", quoted(one)), ours);
            }
        }
    }

    /// Compares the answers to LIST and LSUB.
    fn compare_lists(&mut self) {
        for (command, ours) in commands() {
            self.compared += compare_list(&mut self.imap, &self.tree, &command, &ours);
        }
    }

    /// Returns the UIDVALIDITY of every mailbox: Dovecot's, and ours.
    fn uidvalidities(&mut self) -> BTreeMap<String, (u32, u32)> {
        let all = list(&["*"], ListSelection::default());
        let mut found = BTreeMap::new();
        for listed in self.tree.list(&all).unwrap().into_iter().filter(|l| l.is_selectable) {
            let command = format!("STATUS {} (UIDVALIDITY)", quoted(&listed.name));
            let reply = self.imap.command(&command).unwrap().find("STATUS").unwrap();
            let number = reply.rsplit_once("UIDVALIDITY ").unwrap().1.trim_end_matches(')');
            let spec = self.tree.spec_of(&listed.name.as_str().into()).unwrap();
            let ours = at_rest(&self.vfs, &spec, &self.options).unwrap().uidvalidity();
            // INBOX may have none before it is opened.
            let ours = ours.map_or(0, |uidvalidity| uidvalidity.get());
            found.insert(listed.name, (number.parse().unwrap(), ours));
        }
        found
    }
}

fn tree_at(vfs: &Arc<dyn Vfs>, root: &Path, options: &OpenOptions) -> FolderTree {
    let mut tree = FolderOptions::new(root.to_owned(), options.clone());
    tree.layout = Some(Layout::MaildirPlusPlus);
    FolderTree::open(Arc::clone(vfs), tree).unwrap()
}

fn list(patterns: &[&str], selection: ListSelection) -> ListCommand {
    let patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    ListCommand { response: "LIST", patterns, selection, ..ListCommand::default() }
}

/// Commands that are compared, for Dovecot and for us.
fn commands() -> Vec<(String, ListCommand)> {
    let mut commands = Vec::new();
    let subscribed = ListSelection { subscribed: true, ..ListSelection::default() };
    let recursive = ListSelection { recursive_match: true, ..subscribed };
    for pattern in ["*", "%", "a.%", "*b", "a.*", "inb*", "%.%", "a", "INBOX.%", "%b", "*%", "*.%"]
    {
        let lsub = ListCommand { response: "LSUB", ..list(&[pattern], ListSelection::default()) };
        commands.push((format!("LSUB \"\" \"{pattern}\""), lsub));
        let plain = list(&[pattern], ListSelection::default());
        commands.push((format!("LIST \"\" \"{pattern}\" RETURN (CHILDREN)"), plain));
        let command = format!("LIST (SUBSCRIBED) \"\" \"{pattern}\"");
        commands.push((command, list(&[pattern], subscribed)));
        let command = format!("LIST (SUBSCRIBED RECURSIVEMATCH) \"\" \"{pattern}\"");
        commands.push((command, list(&[pattern], recursive)));
    }
    let with_reference =
        ListCommand { reference: "a.".to_owned(), ..list(&["%"], ListSelection::default()) };
    commands.push(("LIST \"a.\" \"%\" RETURN (CHILDREN)".to_owned(), with_reference));
    commands
}

/// Returns our answer as Dovecot would write it: the name, and its attributes in order.
fn in_words(tree: &FolderTree, command: &ListCommand) -> BTreeSet<String> {
    let is_lsub = command.response == "LSUB";
    let by_subscription = command.selection.subscribed;
    let word = |listed: barid_imap::backend::ListedMailbox| {
        let mut words = BTreeSet::new();
        let mut add = |has: bool, word: &'static str| words.extend(has.then_some(word));
        if is_lsub {
            add(!listed.is_subscribed, "\\noselect");
        } else if by_subscription {
            add(listed.is_subscribed, "\\subscribed");
            add(!listed.exists, "\\nonexistent");
            let recursive = command.selection.recursive_match && listed.has_subscribed_below;
            add(recursive, "childinfo");
        } else {
            add(!listed.exists, "\\nonexistent");
            add(listed.exists && !listed.is_selectable, "\\noselect");
            add(listed.has_children, "\\haschildren");
            add(!listed.has_children, "\\hasnochildren");
        }
        let words: Vec<_> = words.into_iter().collect();
        format!("{} {}", listed.name, words.join(" "))
    };
    tree.list(command).unwrap().into_iter().map(word).collect()
}

/// Returns an answer of Dovecot in the same words.
fn plain(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let (attributes, rest) = text.split_once('(').unwrap().1.split_once(") \".\" ").unwrap();
    let (name, has_info) = match rest.split_once(" (CHILDINFO") {
        Some((name, _)) => (name, true),
        None => (rest, false),
    };
    let name = name.trim_matches('"').split('.');
    let name: Vec<_> =
        name.map(|part| barid::message::decode_utf7(part.as_bytes()).unwrap()).collect();
    let mut words: BTreeSet<String> =
        attributes.split_ascii_whitespace().map(str::to_ascii_lowercase).collect();
    words.extend(has_info.then(|| "childinfo".to_owned()));
    let words: Vec<_> = words.into_iter().collect();
    format!("{} {}", name.join("."), words.join(" "))
}

/// Compares an answer of Dovecot with ours; returns the number of names.
///
/// Names that only begin others are compared where a pattern has no `*`: there, Dovecot names them
/// with its list index, which is the default and not used here, and otherwise only if what is below
/// them does not match.
fn compare_list(imap: &mut Imap, tree: &FolderTree, command: &str, ours: &ListCommand) -> usize {
    let reply = imap.command(command).unwrap();
    let mut theirs: BTreeSet<String> = reply.untagged.iter().map(|line| plain(line)).collect();
    let mut found = in_words(tree, ours);
    if ours.patterns[0].contains('*') && !ours.selection.subscribed && ours.response == "LIST" {
        theirs.retain(|name| !name.ends_with("\\nonexistent"));
        found.retain(|name| !name.ends_with("\\nonexistent"));
    }
    assert_eq!(found, theirs, "{command}");
    found.len()
}

fn run(seed: u64, changes: usize, dovecot: &Dovecot) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let theirs: PathBuf = dovecot.folder().join(format!("account-{seed}"));
    disk::create_dir(&theirs).unwrap();
    let ours = Scratch::new("folders").unwrap();
    let mut pair = Pair::new(dovecot, &theirs, &ours);
    let mut highest: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for _ in 0..changes {
        let before = pair.uidvalidities();
        pair.change(&mut random);
        pair.compare_lists();
        let after = pair.uidvalidities();
        for (name, (their, our)) in &after {
            let last = highest.entry(name.clone()).or_default();
            if !before.contains_key(name) {
                // Dovecot's may be lower after a rename; ours is always one that the name never
                // had.
                assert!(*our != last.1 || *our == 0, "{name} {our}");
            }
            *last = (last.0.max(*their), last.1.max(*our));
        }
    }
    let compared = pair.compared;
    let Pair { mut imap, tree, vfs, options, .. } = pair;
    // Each opens the account of the other.
    let swapped_options = OpenOptions { state_dir: ours.path().join("other"), ..options };
    let swapped = tree_at(&vfs, &theirs, &swapped_options);
    let location = format!("maildir:{}", ours.path().join("mail").display());
    let mut other = dovecot.imap(&location, &SETTINGS).unwrap();
    for (command, list) in commands() {
        compare_list(&mut imap, &swapped, &command, &list);
        compare_list(&mut other, &tree, &command, &list);
    }
    compared
}

#[test]
fn random_changes_agree() {
    let Some(dovecot) = Dovecot::new() else { return };
    let compared: usize = (0..6).map(|seed| run(seed, 60, &dovecot)).sum();
    eprintln!("Dovecot: {compared} results and listed names compared");
    assert!(compared > 12_000, "{compared}");
}

/// A message that Dovecot appends.
const MESSAGE: &[u8] = b"Subject: x\r\n\r\ntext\r\n";

/// Returns UIDVALIDITY and UIDs of a mailbox, as Dovecot shows them.
fn shown(imap: &mut Imap, name: &str) -> (u32, Vec<String>) {
    let status = imap.command(&format!("STATUS {} (UIDVALIDITY)", quoted(name))).unwrap();
    let number = status.find("STATUS").unwrap();
    let number = number.rsplit_once("UIDVALIDITY ").unwrap().1.trim_end_matches(')').to_owned();
    imap.command(&format!("EXAMINE {}", quoted(name))).unwrap();
    let uids = imap.command("UID SEARCH ALL").unwrap().find("SEARCH").unwrap_or_default();
    // Dovecot leaves a session whose mailbox is deleted.
    imap.command("CLOSE").unwrap();
    (number.parse().unwrap(), uids.split(' ').map(str::to_owned).collect())
}

/// A site changes from Dovecot to barid, and back: clients see the same UIDs under the same
/// UIDVALIDITYs, and UIDVALIDITYs go on rising.
#[test]
fn a_site_goes_back_and_forth() {
    let Some(dovecot) = Dovecot::new() else { return };
    let account = dovecot.folder().join("back-and-forth");
    disk::create_dir(&account).unwrap();
    let location = format!("maildir:{}", account.display());
    // With its list index, as it is installed.
    let open = || dovecot.imap(&location, &[]).unwrap();
    let mut imap = open();
    for name in ["x", "x.y", "Entwürfe"] {
        imap.command(&format!("CREATE {}", quoted(name))).unwrap();
        imap.append(&quoted(name), "(\\Seen keyword)", MESSAGE).unwrap();
        imap.append(&quoted(name), "", MESSAGE).unwrap();
        imap.command(&format!("SUBSCRIBE {}", quoted(name))).unwrap();
    }
    let before: Vec<_> = ["x", "x.y", "Entwürfe"].map(|name| shown(&mut imap, name)).into();
    imap.logout().unwrap();

    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let state = Scratch::new("folders").unwrap();
    let options = OpenOptions::new(None, state.path().join("state"));
    let tree = tree_at(&vfs, &account, &options);
    let renamed = tree.rename(&"x".into(), &"z".into()).unwrap();
    assert_eq!(renamed, Renamed::Done);
    tree.create(&"x".into(), false, &[]).unwrap();
    tree.delete(&"Entwürfe".into()).unwrap();
    tree.undelete(&"Entwürfe".into()).unwrap();
    tree.subscribe(&"z.y".into(), true).unwrap();
    for (name, (uidvalidity, _)) in ["z", "z.y", "Entwürfe"].iter().zip(&before) {
        let spec = tree.spec_of(&(*name).into()).unwrap();
        let mailbox = barid::Mailbox::open_in(Arc::clone(&vfs), &spec, &options).unwrap();
        assert_eq!(mailbox.status().uidvalidity.get(), *uidvalidity, "{name}");
        assert_eq!(mailbox.status().messages, 2);
    }

    let mut imap = open();
    for (name, before) in ["z", "z.y", "Entwürfe"].iter().zip(&before) {
        assert_eq!(shown(&mut imap, name), *before, "{name}");
    }
    let highest = before.iter().map(|(uidvalidity, _)| *uidvalidity).max().unwrap();
    let (ours, _) = shown(&mut imap, "x");
    assert!(ours > highest);
    imap.command("DELETE x").unwrap();
    imap.command("CREATE x").unwrap();
    let (theirs, _) = shown(&mut imap, "x");
    assert!(theirs > ours, "{theirs} {ours}");
    let subscribed = imap.command("LSUB \"\" \"*\"").unwrap();
    let subscribed: BTreeSet<String> = subscribed.untagged.iter().map(|line| plain(line)).collect();
    let names = ["Entwürfe ", "x ", "x.y ", "z.y "].map(str::to_owned);
    assert_eq!(subscribed, names.into());
}

/// Dovecot lists what barid makes in its other layouts, and reads the subscriptions.
#[test]
fn dovecot_lists_other_layouts() {
    let Some(dovecot) = Dovecot::new() else { return };
    let format = barid::FormatName::named("mboxrd").unwrap().format();
    for (layout, how) in
        [(Layout::NestedMaildirs, "maildir:ROOT:LAYOUT=fs"), (Layout::Files(format), "mbox:ROOT")]
    {
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
        let scratch = Scratch::new("folders").unwrap();
        let root = scratch.path().join("mail");
        let options = OpenOptions::new(None, scratch.path().join("state"));
        let mut tree_options = FolderOptions::new(root.clone(), options);
        tree_options.layout = Some(layout);
        let tree = FolderTree::open(Arc::clone(&vfs), tree_options).unwrap();
        for name in ["INBOX", "a/b/c", "a/d", "ä.ö/x y", "INBOX/below", "other", "gone"] {
            tree.create(&name.into(), false, &[]).unwrap();
            tree.subscribe(&name.into(), true).unwrap();
        }
        let _ = tree.rename(&"a".into(), &"new place/a".into()).unwrap();
        tree.delete(&"gone".into()).unwrap();
        let location = how.replace("ROOT", &root.display().to_string());
        let mut imap = dovecot.imap(&location, &SETTINGS).unwrap();
        let all = list(&["*"], ListSelection::default());
        let ours: BTreeSet<String> = tree
            .list(&all)
            .unwrap()
            .into_iter()
            .map(|listed| {
                let noselect = if listed.is_selectable { "" } else { "\\Noselect " };
                let children = match (listed.has_children, listed.may_have_children) {
                    (true, _) => "\\HasChildren",
                    (false, true) => "\\HasNoChildren",
                    (false, false) => "\\NoInferiors",
                };
                format!("({noselect}{children}) {}", listed.name)
            })
            .collect();
        let read = |imap: &mut Imap, command: &str, name: &str| -> BTreeSet<String> {
            let reply = imap.command(command).unwrap();
            let line = |line: &Vec<u8>| {
                let text = String::from_utf8_lossy(line).into_owned();
                let (attributes, name) =
                    text.strip_prefix(name).unwrap().split_once(" \"/\" ").unwrap();
                let parts = name.trim_matches('"').split('/');
                let parts: Vec<_> = parts
                    .map(|part| barid::message::decode_utf7(part.as_bytes()).unwrap())
                    .collect();
                let attributes =
                    attributes.trim().replace(" \\UnMarked", "").replace(" \\Marked", "");
                format!("{attributes} {}", parts.join("/"))
            };
            reply.untagged.iter().map(line).collect()
        };
        assert_eq!(read(&mut imap, "LIST \"\" \"*\"", "LIST"), ours, "{layout:?}");
        let subscribed = ListSelection { subscribed: true, ..ListSelection::default() };
        let ours = tree.list(&list(&["*"], subscribed)).unwrap().into_iter();
        let ours: BTreeSet<String> = ours.map(|listed| format!("() {}", listed.name)).collect();
        assert_eq!(read(&mut imap, "LSUB \"\" \"*\"", "LSUB"), ours, "{layout:?}");
        assert_eq!(ours.len(), 7);
    }
}
