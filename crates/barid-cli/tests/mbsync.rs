//! mbsync between two Maildirs that both change: it adds `,U=` to file names; UIDs, flags and
//! counts stay as barid reported them.

use std::collections::BTreeMap;
use std::process::Command;

use barid_testkit::peers::program;
use barid_testkit::skip_or_fail;

use crate::support::{World, parse_lines};

const ROUNDS: usize = 50;

const RC: &str = "\
MaildirStore near
Path ROOT/
Inbox ROOT/near
SubFolders Verbatim

MaildirStore far
Path ROOT/
Inbox ROOT/far
SubFolders Verbatim

Channel both
Near :near:
Far :far:
Sync All
Create None
Expunge Both
CopyArrivalDate yes
SyncState ROOT/state/
";

/// UID and flags of each message by its subject, as listed by barid.
type Listed = BTreeMap<String, (u64, Vec<String>)>;

struct Pair {
    world: World,
    mbsync: std::path::PathBuf,
    rng: fastrand::Rng,
    made: usize,
}

impl Pair {
    fn new(mbsync: std::path::PathBuf) -> Self {
        let world = World::new();
        world.maildir("near", &[]);
        world.maildir("far", &[]);
        world.create_dir("state");
        world.create_dir("home");
        let root = world.path("").to_str().unwrap().trim_end_matches('/').to_owned();
        world.write("rc", RC.replace("ROOT", &root).as_bytes());
        Self { world, mbsync, rng: fastrand::Rng::with_seed(50), made: 0 }
    }

    fn path(&self, side: &str) -> String {
        self.world.path(side).to_str().unwrap().to_owned()
    }

    fn listed(&self, side: &str) -> Listed {
        let lines = parse_lines(&self.world.ok(&["ls", "--json", &self.path(side)]));
        let listed = lines.iter().filter(|line| line["subject"].is_string()).map(|line| {
            let flags = line["flags"].as_array().unwrap().iter();
            let mut flags: Vec<String> =
                flags.map(|flag| flag.as_str().unwrap().to_ascii_lowercase()).collect();
            flags.retain(|flag| !flag.contains("recent"));
            flags.sort();
            let subject = line["subject"].as_str().unwrap().to_owned();
            (subject, (line["uid"].as_u64().unwrap(), flags))
        });
        listed.collect()
    }

    fn message(&mut self) -> String {
        self.made += 1;
        let n = self.made;
        format!("From: a@b.example\nSubject: number {n}\nMessage-ID: <{n}@b>\n\nbody {n}\n")
    }

    /// Changes a side with barid: appends, flags, expunges.
    fn change(&mut self, side: &str) {
        let path = self.path(side);
        for _ in 0..self.rng.usize(..3) {
            let message = self.message();
            let flags: &[&str] = if self.rng.bool() { &["--flags", "seen,flagged"] } else { &[] };
            let args = [&["append", path.as_str()], flags].concat();
            let run = self.world.run_with_input(&args, message.as_bytes());
            assert_eq!(run.code, 0, "{}", run.stderr);
        }
        let listed = self.listed(side);
        let uids: Vec<String> = listed.values().map(|(uid, _)| uid.to_string()).collect();
        if let Some(uid) = self.rng.choice(&uids) {
            let flag = self.rng.choice(["+answered", "-flagged", "+seen", "+draft"]).unwrap();
            self.world.ok(&["flag", &path, uid, flag]);
        }
        if let Some(uid) = self.rng.choice(&uids).filter(|_| self.rng.usize(..4) == 0) {
            self.world.ok(&["expunge", &path, uid]);
        }
    }

    /// Delivers to a side like a mail transport.
    fn deliver(&mut self, side: &str) {
        let message = self.message();
        let file = format!("new/{}.P9Q{}.mta", 1_700_000_000 + self.made, self.made);
        self.world.deliver(side, &file, &message);
    }

    fn sync(&self) {
        let mut command = Command::new(&self.mbsync);
        command.args(["-q", "-c"]).arg(self.world.path("rc")).arg("both");
        let output = command.env("HOME", self.world.path("home")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
    }
}

/// Checks that messages in both listings keep their UIDs; returns their number.
fn check_uids(before: &Listed, after: &Listed, at: &str) -> usize {
    let both = before.iter().filter_map(|(subject, (uid, _))| Some((uid, after.get(subject)?.0)));
    both.inspect(|(before, after)| assert_eq!(*before, after, "{at}: a UID changed")).count()
}

#[test]
fn uids_survive_fifty_rounds() {
    let Some(mbsync) = program("mbsync") else {
        return skip_or_fail("mbsync (Debian package isync)");
    };
    let mut pair = Pair::new(mbsync);
    let (mut compared, mut renamed) = (0, 0);
    for round in 0..ROUNDS {
        pair.change("near");
        pair.deliver("far");
        if round % 3 == 0 {
            pair.deliver("near");
            pair.change("far");
        }
        let before = ["near", "far"].map(|side| pair.listed(side));
        pair.sync();
        let after = ["near", "far"].map(|side| pair.listed(side));
        for (side, at) in ["near", "far"].iter().zip(0..) {
            compared += check_uids(&before[at], &after[at], &format!("round {round}, {side}"));
        }
        let flags = |listed: &Listed| -> BTreeMap<String, Vec<String>> {
            listed.iter().map(|(subject, (_, flags))| (subject.clone(), flags.clone())).collect()
        };
        assert_eq!(flags(&after[0]), flags(&after[1]), "round {round}");
        let list = String::from_utf8(pair.world.read("near/dovecot-uidlist")).unwrap();
        renamed = list.lines().filter(|line| line.contains(",U=")).count();
    }
    for side in ["near", "far"] {
        let known = pair.listed(side);
        let path = pair.path(side);
        pair.world.ok(&["check", &path]);
        pair.world.ok(&["cache", "clear", &path]);
        compared += check_uids(&known, &pair.listed(side), side);
    }
    println!("{compared} UIDs compared, {renamed} names with a number of mbsync");
    assert!(compared > 1000 && renamed > 20, "{compared} {renamed}");
}
