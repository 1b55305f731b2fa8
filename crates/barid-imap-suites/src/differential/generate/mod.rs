//! Random command scripts.
//!
//! A script is determined by its seed and the capabilities that both servers have. The generator
//! follows roughly what its commands do, so that most of them name messages and mailboxes that
//! exist.

mod fetching;
mod folders;
mod searching;
mod sets;
mod storing;

use std::collections::BTreeSet;

use fastrand::Rng;

use crate::mail::{MailPool, MailboxPlan, MessagePlan, PoolMessage};

/// Stands for the mod-sequence that a server has announced last.
pub(super) const MODSEQ: &str = "@MODSEQ@";
/// First UIDVALIDITY of the mailboxes that exist from the start.
pub(super) const UIDVALIDITY: u32 = 1_000_001;
/// Most commands of a script.
const COMMANDS_MAX: usize = 12;
/// Keywords in use.
const KEYWORDS: [&str; 4] = ["$Forwarded", "Junk", "todo", "$label1"];
/// Mailboxes that exist from the start, and their most messages.
const MAILBOXES: [(&str, usize); 4] =
    [("INBOX", 30), ("Archive", 8), ("lists/dev", 12), ("lists/empty", 0)];
/// Names of mailboxes that may come to exist.
const NEW_NAMES: [&str; 5] = ["new1", "new2", "lists/sub", "lists/dev/deep", "&ANw-bung"];

/// Commands that are wrong.
const WRONG: [&str; 10] = [
    "FETCH 1 (NOTHING)",
    "FETCH x FLAGS",
    "FETCH 1 BODY[",
    // Some servers take it for an empty list, which adds nothing.
    "STORE 1 +FLAGS",
    "STORE 1 +KEYWORDS (x)",
    "COPY 1",
    "SEARCH NOTHING",
    "SEARCH CHARSET NO-SUCH-CHARSET SUBJECT x",
    "UID NOOP",
    "NONSENSE",
];

/// A script of commands without tags, and the mailboxes that it begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandScript {
    /// The seed.
    pub seed: u64,
    /// `true` if the messages are malformed ones.
    pub is_broken: bool,
    /// The mailboxes.
    pub mailboxes: Vec<MailboxPlan>,
    /// The commands; literals are non-synchronising.
    pub commands: Vec<Vec<u8>>,
}

impl CommandScript {
    /// Returns the messages that the mailboxes are made of.
    pub(super) fn messages<'p>(&self, pool: &'p MailPool) -> &'p [PoolMessage] {
        if self.is_broken { &pool.broken } else { &pool.regular }
    }
}

/// A mailbox as the generator believes it to be.
#[derive(Clone, Debug)]
struct Believed {
    name: String,
    uids: Vec<u32>,
    uidnext: u32,
}

/// State of the generator.
pub(super) struct Generator<'p> {
    rng: Rng,
    capabilities: &'p BTreeSet<String>,
    messages: &'p [PoolMessage],
    boxes: Vec<Believed>,
    /// Index of the selected mailbox.
    selected: Option<usize>,
    is_read_only: bool,
    has_condstore: bool,
    has_saved_search: bool,
}

/// Generates a script.
pub(super) fn generate(
    seed: u64,
    pool: &MailPool,
    broken_percent: u32,
    capabilities: &BTreeSet<String>,
) -> CommandScript {
    let mut rng = Rng::with_seed(seed);
    let is_broken = rng.u32(0..100) < broken_percent;
    let messages = if is_broken { &pool.broken } else { &pool.regular };
    let mailboxes = mailboxes(&mut rng, messages.len());
    let boxes = mailboxes.iter().map(|plan| Believed {
        name: plan.name.clone(),
        uids: plan.messages.iter().map(|message| message.uid).collect(),
        uidnext: plan.uidnext(),
    });
    let mut generator = Generator {
        boxes: boxes.collect(),
        rng,
        capabilities,
        messages,
        selected: None,
        is_read_only: false,
        has_condstore: false,
        has_saved_search: false,
    };
    let count = generator.rng.usize(1..=COMMANDS_MAX);
    let mut commands = Vec::new();
    while commands.len() < count {
        commands.push(generator.command());
    }
    CommandScript { seed, is_broken, mailboxes, commands }
}

/// Returns the mailboxes of a script.
fn mailboxes(rng: &mut Rng, messages: usize) -> Vec<MailboxPlan> {
    let mut plans = Vec::new();
    for (number, (name, most)) in MAILBOXES.into_iter().enumerate() {
        let count = if most == 0 { 0 } else { rng.usize(most / 3..=most) }.min(messages);
        let first = rng.usize(0..=messages - count);
        let mut uid = 0;
        let message = |offset| {
            uid += if rng.u32(0..4) == 0 { rng.u32(2..9) } else { 1 };
            let is_new = rng.u32(0..8) == 0;
            let letters = "DFRST".chars().filter(|_| !is_new && rng.u32(0..4) == 0).collect();
            let keywords = KEYWORDS.iter().filter(|_| !is_new && rng.u32(0..6) == 0);
            let keywords = keywords.map(|keyword| (*keyword).to_owned()).collect();
            MessagePlan { message: first + offset, uid, flags: letters, keywords, is_new }
        };
        let messages = (0..count).map(message).collect();
        let uidvalidity = UIDVALIDITY + number as u32;
        plans.push(MailboxPlan { name: name.to_owned(), uidvalidity, messages });
    }
    plans
}

impl Generator<'_> {
    /// Returns `true` if both servers have a capability.
    fn has(&self, capability: &str) -> bool {
        self.capabilities.contains(capability)
    }

    /// Returns `true` in one of `n` cases.
    fn one_in(&mut self, n: u32) -> bool {
        self.rng.u32(0..n) == 0
    }

    fn pick<'t>(&mut self, table: &[&'t str]) -> &'t str {
        table[self.rng.usize(0..table.len())]
    }

    /// Returns some of the texts of a table, in its order; at least one.
    fn some<'t>(&mut self, table: &[&'t str], percent: u32) -> Vec<&'t str> {
        let mut some: Vec<&str> =
            table.iter().copied().filter(|_| self.rng.u32(0..100) < percent).collect();
        if some.is_empty() {
            some.push(self.pick(table));
        }
        some
    }

    fn command(&mut self) -> Vec<u8> {
        let text = match self.selected {
            None => match self.rng.u32(0..10) {
                0..6 => self.select(),
                6..9 => self.folder_command(),
                _ => return self.append(),
            },
            Some(_) => match self.rng.u32(0..100) {
                0..30 => self.fetch(),
                30..46 => return self.search(),
                46..52 => return self.sort_or_thread(),
                52..64 => self.store(),
                64..73 => self.copy_or_move(),
                73..79 => self.expunge(),
                79..84 => return self.append(),
                84..90 => self.folder_command(),
                90..94 => self.select(),
                94..96 => self.pick(&WRONG).to_owned(),
                _ => self.leave(),
            },
        };
        text.into_bytes()
    }

    fn select(&mut self) -> String {
        let mut index = self.rng.usize(0..self.boxes.len());
        if self.boxes[index].uids.is_empty() && !self.one_in(5) {
            index = 0;
        }
        self.is_read_only = self.one_in(6);
        let verb = if self.is_read_only { "EXAMINE" } else { "SELECT" };
        let name = self.boxes[index].name.clone();
        self.selected = Some(index);
        self.has_saved_search = false;
        let condstore = self.has("CONDSTORE") && self.one_in(4);
        self.has_condstore |= condstore;
        let parameter = if condstore { " (CONDSTORE)" } else { "" };
        if self.one_in(40) {
            self.selected = None;
            return format!("{verb} nowhere{parameter}");
        }
        format!("{verb} {}{parameter}", self.spelled(&name))
    }

    /// Returns a name, sometimes in quotes or as a literal; INBOX in any case.
    fn spelled(&mut self, name: &str) -> String {
        let name =
            if name == "INBOX" { self.pick(&["INBOX", "INBOX", "inbox", "Inbox"]) } else { name };
        match self.rng.u32(0..6) {
            0 => format!("\"{name}\""),
            1 => format!("{{{}+}}\r\n{name}", name.len()),
            _ => name.to_owned(),
        }
    }

    /// Returns the name of a mailbox, mostly of one that exists.
    fn mailbox_name(&mut self) -> String {
        match self.rng.u32(0..20) {
            0 => "nowhere".to_owned(),
            1 => self.pick(&NEW_NAMES).to_owned(),
            _ => {
                let index = self.rng.usize(0..self.boxes.len());
                self.boxes[index].name.clone()
            }
        }
    }

    fn leave(&mut self) -> String {
        let verb = self.pick(&["NOOP", "NOOP", "CHECK", "CLOSE", "UNSELECT"]);
        if verb == "CLOSE" || verb == "UNSELECT" {
            self.selected = None;
        }
        verb.to_owned()
    }

    /// Returns the index of the selected mailbox; INBOX if there is none.
    fn current(&self) -> usize {
        self.selected.unwrap_or(0)
    }

    /// Adds messages to a mailbox that the generator knows.
    fn believe_added(&mut self, name: &str, count: usize) {
        if let Some(known) = self.boxes.iter_mut().find(|known| known.name == name) {
            for _ in 0..count {
                known.uids.push(known.uidnext);
                known.uidnext += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Vec<PoolMessage> {
        let bytes = b"Subject: hello world\nFrom: a@b\n\nbody text\n".to_vec();
        vec![PoolMessage { path: "/x".into(), bytes, date: 1_600_000_000 }; 40]
    }

    #[test]
    fn a_seed_gives_the_same_script() {
        let capabilities = ["ESEARCH", "SORT", "MOVE"].map(str::to_owned).into();
        let pool = MailPool::of(pool(), pool());
        let script = |seed| generate(seed, &pool, 30, &capabilities);
        assert_eq!(script(5), script(5));
        assert_ne!(script(5).commands, script(6).commands);
        let all: Vec<_> = (0..2_000).flat_map(|seed| script(seed).commands).collect();
        for verb in ["FETCH", "UID FETCH", "SEARCH", "SORT", "STORE", "COPY", "UID MOVE", "LIST"] {
            let count = all.iter().filter(|command| command.starts_with(verb.as_bytes())).count();
            assert!(count > 50, "{verb}: {count}");
        }
        assert!(!all.iter().any(|command| command.starts_with(b"THREAD")));
        assert!((0..50).all(|seed| (1..=COMMANDS_MAX).contains(&script(seed).commands.len())));
    }
}
