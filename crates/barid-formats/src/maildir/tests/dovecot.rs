//! barid and a Dovecot on one Maildir: both see the same UIDs, flags and keywords, regardless of
//! the writer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{ChangeSet, FlagChange};
use barid_testkit::peers::Dovecot;
use barid_types::{Flag, FlagSet, Keyword, Uid};
use barid_vfs::{OsVfs, Vfs};

use super::support::{World, flagged, keyword, message};

type Flags = BTreeMap<u32, BTreeSet<String>>;

/// /// A Maildir that both programs use, and the number of compared answers.
struct Both {
    dovecot: Dovecot,
    world: World,
    location: String,
    compared: u32,
}

impl Both {
    fn new(name: &str) -> Option<Self> {
        let dovecot = Dovecot::new()?;
        let root = dovecot.folder().join(name);
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
        for dir in ["new", "cur", "tmp"] {
            vfs.create_dir_all(&root.join(dir), 0o755).unwrap();
        }
        let world = World::at(vfs, &root, &dovecot.folder().join("state"));
        let location = format!("maildir:{}", root.display());
        Some(Self { dovecot, world, location, compared: 0 })
    }

    /// Runs a command on the messages of a query.
    fn doveadm(&self, args: &[&str], query: &str) -> String {
        let query = ["mailbox", "INBOX"].into_iter().chain(query.split(' '));
        let args: Vec<&str> = args.iter().copied().chain(query).collect();
        self.dovecot.doveadm(&self.location, &[], &args).unwrap()
    }

    /// Returns the flags according to Dovecot.
    fn theirs(&self) -> Flags {
        let text = self.doveadm(&["-f", "tab", "fetch", "uid flags"], "all");
        let line = |line: &str| {
            let (uid, flags) = line.split_once('\t').unwrap();
            let flags = flags.split(' ').filter(|flag| !flag.is_empty() && *flag != "\\Recent");
            (uid.parse().unwrap(), flags.map(str::to_owned).collect())
        };
        text.lines().skip(1).map(line).collect()
    }

    /// Returns the flags according to a scan.
    fn ours(&mut self) -> Flags {
        self.world.scan();
        let table = self.world.cache.report.as_ref().unwrap().keywords.clone();
        let messages = self.world.cache.messages.iter();
        messages
            .map(|(uid, message)| {
                let system =
                    message.flags.without(Flag::Recent).iter().map(|f| f.name().to_owned());
                let keywords = table.select(message.mask).map(|k| k.as_str().to_owned());
                (uid.get(), system.chain(keywords).collect())
            })
            .collect()
    }

    /// /// Queries both programs, in either order.
    fn agree(&mut self, ours_first: bool, what: &str) {
        let (ours, theirs) = if ours_first {
            let ours = self.ours();
            (ours, self.theirs())
        } else {
            let theirs = self.theirs();
            (self.ours(), theirs)
        };
        assert_eq!(ours, theirs, "{what}\n{}", self.dovecot.log());
        self.compared += ours.len() as u32;
    }

    fn uidlist(&self) -> String {
        self.world.text("dovecot-uidlist")
    }

    fn put_some(&self, from: u32, count: u32) {
        for number in from..from + count {
            let text = format!("Subject: {number}\n\nbody\n");
            self.world.put(&format!("new/{number}.M1P1.h"), text.as_bytes());
        }
    }

    fn finish(self, least: u32) {
        println!("{} answers compared and equal", self.compared);
        assert!(self.compared >= least, "only {} answers compared", self.compared);
    }
}

#[test]
fn what_we_write_dovecot_reads_and_leaves() {
    let Some(mut both) = Both::new("ours") else { return };
    both.put_some(1000, 10);
    // All kinds of names, in Dovecot's order.
    for name in
        ["12.R5.h", "12.M7P1.h", "x", "12.M70P1.h", "9999999999.h", "12.M7P1.g:2,S", "1:2,a"]
    {
        both.world.put(&format!("cur/{name}"), b"Subject: x\n\n");
    }
    let mut tagged = message(b"Subject: t\n\n");
    tagged.flags = FlagSet::EMPTY.with(Flag::Seen);
    tagged.keywords = vec![keyword("$Forwarded"), keyword("todo")];
    both.world.scan();
    both.world.sync(&ChangeSet::default(), &[tagged, message(b"\n")]).unwrap();
    both.agree(true, "first");
    let uidlist = both.uidlist();
    let keywords = both.world.text("dovecot-keywords");
    both.agree(false, "again");
    assert_eq!(both.uidlist(), uidlist, "Dovecot has nothing to correct");
    assert_eq!(both.world.text("dovecot-keywords"), keywords);
    assert_eq!(both.dovecot.log(), "", "Dovecot has nothing to complain of");
    both.finish(38);
}

#[test]
fn what_dovecot_writes_we_read_and_leave() {
    let Some(mut both) = Both::new("theirs") else { return };
    both.put_some(1000, 30);
    for name in ["12.R5.h", "12.M7P1.h", "x", "12.M70P1.h", "9999999999.h", "12.M7P1.g:2,S"] {
        both.world.put(&format!("cur/{name}"), b"Subject: x\n\n");
    }
    both.theirs();
    both.doveadm(&["flags", "add", "\\Flagged $Junk one two"], "uid 3:9");
    both.doveadm(&["expunge"], "uid 5,7");
    let uidlist = both.uidlist();
    both.agree(false, "first");
    assert_eq!(both.uidlist(), uidlist, "there is nothing to correct");
    both.finish(30);
}

#[test]
fn names_are_ordered_as_dovecot_orders_them() {
    let Some(mut both) = Both::new("order") else { return };
    let mut random = fastrand::Rng::with_seed(5);
    for number in 0..400 {
        // // The names of one second either all have microseconds or all lack them: otherwise
        // Dovecot's order is inconsistent.
        let second = random.u32(10..14);
        let kind = ["M", "PxM"][random.usize(..2)];
        let kind = if second < 12 { kind } else { "V" };
        let unique = format!("{kind}{}P{}", random.u32(..50), random.u32(..5));
        let flags = ["", ":2,", ":2,S"][random.usize(..3)];
        both.world.put(&format!("cur/{second}.{unique}.h{number}{flags}"), b"\n");
    }
    both.theirs();
    let theirs = both.uidlist();
    both.world.remove("dovecot-uidlist");
    both.world.scan();
    let names = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let (ours, theirs) = (names(&both.uidlist()), names(&theirs));
    both.compared = ours.len() as u32;
    let bases = |lines: &[String]| {
        let base = |line: &String| line.split_once(':').unwrap().1.to_owned();
        lines.iter().map(base).collect::<Vec<_>>()
    };
    assert_eq!(bases(&ours), bases(&theirs));
    both.finish(300);
}

#[test]
fn both_take_turns() {
    let Some(mut both) = Both::new("turns") else { return };
    let mut random = fastrand::Rng::with_seed(11);
    both.put_some(1000, 5);
    both.agree(true, "start");
    for round in 0..60 {
        let known: Vec<Uid> = both.world.cache.messages.keys().copied().collect();
        let chosen = (!known.is_empty()).then(|| known[random.usize(..known.len())]);
        let at = format!("round {round}");
        match (random.u32(0..7), chosen) {
            (0, _) => both.put_some(2000 + round * 10, 3),
            (1, _) => {
                let text = format!("Subject: ours {round}\n\n");
                both.world.sync(&ChangeSet::default(), &[message(text.as_bytes())]).unwrap();
            }
            (2, Some(uid)) => {
                let flags = FlagSet::from_bits(random.u8(..) & 0x1f);
                let not = FlagSet::from_bits(random.u8(..) & 0x1f & !flags.bits());
                both.world.sync(&flagged(uid.get(), flags, not), &[]).unwrap();
            }
            (3, Some(uid)) => {
                let mut change = FlagChange::default();
                change.add_keywords.push(keyword(["todo", "$Junk", "work"][random.usize(..3)]));
                let expunge = known.iter().copied().filter(|other| *other != uid).take(1).collect();
                let flags = vec![(uid, change)];
                let drop_recent = random.bool();
                let changes =
                    ChangeSet { flags: flags.into(), expunge, drop_recent, ..ChangeSet::default() };
                both.world.sync(&changes, &[]).unwrap();
            }
            (4, Some(uid)) => {
                let flags = ["\\Seen todo", "\\Flagged other", "\\Deleted"][random.usize(..3)];
                let verb = ["add", "remove", "replace"][random.usize(..3)];
                both.doveadm(&["flags", verb, flags], &format!("uid {uid}"));
            }
            (5, Some(uid)) if random.bool() => {
                both.doveadm(&["expunge"], &format!("uid {uid}"));
            }
            _ => both.put_some(2000 + round * 10, 1),
        }
        both.agree(random.bool(), &at);
    }
    assert!(!both.world.cache.report.as_ref().unwrap().reset);
    both.finish(300);
}

#[test]
fn keywords_beyond_the_letters_stay_dovecots() {
    let Some(mut both) = Both::new("keywords") else { return };
    both.put_some(1000, 2);
    both.agree(true, "start");
    for number in 0..26 {
        let name = format!("k{number}");
        both.doveadm(&["flags", "add", &name], "uid 1");
    }
    both.agree(false, "26");
    assert_eq!(both.ours()[&1].len(), 26);
    both.doveadm(&["flags", "add", "k26"], "uid 1");
    let (ours, mut theirs) = (both.ours(), both.theirs());
    assert!(theirs.get_mut(&1).unwrap().remove("k26"), "the index has the 27th");
    assert_eq!(ours, theirs);
    let change = FlagChange {
        remove_keywords: vec![keyword("k3")],
        add_keywords: vec![keyword("k4")],
        ..FlagChange::default()
    };
    let uid = Uid::new(1).unwrap();
    let changes = ChangeSet { flags: vec![(uid, change)].into(), ..ChangeSet::default() };
    both.world.sync(&changes, &[]).unwrap();
    let (ours, mut theirs) = (both.ours(), both.theirs());
    theirs.get_mut(&1).unwrap().remove("k26");
    assert_eq!(ours, theirs);
    assert!(Keyword::new("k3").is_some() && !ours[&1].contains("k3"));
    both.compared += 8;
    both.finish(12);
}

#[test]
fn corrupt_uidlists_end_in_agreement() {
    let Some(mut both) = Both::new("corrupt") else { return };
    both.put_some(1000, 6);
    both.agree(false, "start");
    let good = both.uidlist();
    let lines: Vec<&str> = good.lines().collect();
    let swapped = format!("{}\n{}\n{}\n", lines[0], lines[2], lines[1]);
    let slashed = good.replacen(" :", " :a/", 1);
    let repeated = format!("{good}90 :1000.M1P1.h\n");
    let torn = good[..good.len() - 5].to_owned();
    let bad_field = good.replacen(" :", " x :", 1);
    let first = format!("1 {} 7\n1 1000.M1P1.h\n2 1003.M1P1.h\n", 1_600_000_000);
    let cases = [
        "", "junk\n", &swapped, &slashed, &repeated, &torn, &bad_field, &first, lines[0], "3 V1\n",
    ];
    for ours_first in [true, false] {
        for (number, case) in cases.iter().enumerate() {
            both.world.put("dovecot-uidlist", case.as_bytes());
            both.put_some(3000 + number as u32 * 2 + u32::from(ours_first), 1);
            // // The program that is second may still have to read what the first one wrote.
            both.ours();
            both.theirs();
            both.agree(ours_first, &format!("case {number}, ours first: {ours_first}"));
        }
    }
    assert!(both.world.path.starts_with(Path::new("/")));
    both.finish(150);
}
