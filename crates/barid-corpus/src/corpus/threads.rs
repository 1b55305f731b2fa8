//! The thread structure of generated mail, with ids and subjects.

use base64::alphabet::URL_SAFE;

use super::Profile;
use super::names::{self, ID_HOSTS};
use super::random::{self, Random};

/// The greatest depth of a message below the start of its thread, which is at depth 0.
pub(crate) const DEPTH_MAX: usize = 30;
/// Length at which a chain of ancestors is cut off.
const CHAIN_MAX: usize = 4096;

/// The thread trees of a corpus, determined by the seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threads {
    pub(crate) seed: u64,
    pub(crate) profile: Profile,
}

impl Threads {
    /// Returns the message that this one answers, without the limit on depth.
    fn raw_parent(self, number: u64) -> Option<u64> {
        let mut random = Random::new(self.seed, number, random::PARENT);
        if random.per_mille(240) {
            return None;
        }
        // Most answers follow soon; a tenth revives an old thread.
        let mean = if random.per_mille(100) { 400.0 } else { 10.0 };
        let distance = 1 + (-random.fraction().ln() * mean) as u64;
        number.checked_sub(distance)
    }

    /// Returns the messages above this one, the nearest first; at most [`DEPTH_MAX`].
    pub(crate) fn ancestors(self, number: u64) -> Vec<u64> {
        let mut chain = Vec::new();
        let mut current = number;
        while let Some(parent) = self.raw_parent(current) {
            chain.push(parent);
            current = parent;
            if chain.len() == CHAIN_MAX {
                break;
            }
        }
        // A new thread begins after this many generations, whatever the chain says.
        chain.truncate(chain.len() % (DEPTH_MAX + 1));
        chain
    }

    pub(crate) fn parent(self, number: u64) -> Option<u64> {
        self.ancestors(number).first().copied()
    }

    pub(crate) fn root(self, number: u64) -> u64 {
        self.ancestors(number).last().copied().unwrap_or(number)
    }

    /// Returns the Message-ID with its brackets. One in a thousand is a duplicate.
    pub(crate) fn message_id(self, number: u64) -> String {
        let mut random = Random::new(self.seed, number, random::ID);
        if random.per_mille(1) && number >= 3 {
            return self.fresh_id(number - 3);
        }
        self.fresh_id(number)
    }

    fn fresh_id(self, number: u64) -> String {
        let mut random = Random::new(self.seed, number, random::ID);
        random.u64();
        let host = random.pick(&ID_HOSTS);
        let (a, b) = (random.u64(), random.u64());
        match random.below(5) {
            0 => format!("<{:x}.{:08x}@{host}>", a >> 32, b as u32),
            1 => format!("<CA{}{}@mail.gmail.com>", base64ish(a), base64ish(b)),
            2 => format!("<{}.{}.{number}@{host}>", a % 100_000_000_000, b % 100_000),
            3 => format!("<{}$%{:x}@{host}>", base64ish(a), b as u32 >> 8),
            _ => format!("<20{:010}.{:05}-{}-{host}>", a % 10_000_000_000, b % 100_000, ID_AT),
        }
    }

    /// Returns the subject, decoded. An answer has its thread's subject with a prefix; one in a
    /// hundred changes it.
    pub(crate) fn subject(self, number: u64, list: &str) -> String {
        let root = self.root(number);
        let subject = self.base_subject(root);
        let tag = if names::tags_subjects(list) { format!("[{list}] ") } else { String::new() };
        if root == number {
            return format!("{tag}{subject}");
        }
        let mut random = Random::new(self.seed, number, random::SUBJECT);
        if random.per_mille(10) {
            return format!("{tag}{} (was: {subject})", self.base_subject(number));
        }
        match random.below(40) {
            0 => format!("RE: {tag}{subject}"),
            1 => format!("{tag}Re: Re: {subject}"),
            2 => format!("AW: {tag}{subject}"),
            3 => format!("Re[2]: {tag}{subject}"),
            4 => format!("Fwd: {tag}{subject}"),
            5 => format!("{tag}{subject} (fwd)"),
            6..=20 => format!("{tag}Re: {subject}"),
            _ => format!("Re: {tag}{subject}"),
        }
    }

    fn base_subject(self, root: u64) -> String {
        let mut random = Random::new(self.seed, root, random::SUBJECT);
        random.u64();
        if random.per_mille(5) {
            return String::new();
        }
        let foreign = random.per_mille(80);
        let words: &[&str] = if foreign { &names::FOREIGN_WORDS } else { &names::WORDS };
        let count = 2 + random.below(7);
        let mut subject = match random.below(6) {
            0 => format!("[PATCH v{} {}/{}] ", 1 + random.below(4), 1 + random.below(3), 3),
            1 => format!("{}: ", random.pick(words)),
            _ => String::new(),
        };
        for i in 0..count {
            if i > 0 {
                subject.push(' ');
            }
            subject.push_str(random.pick(words));
        }
        if random.per_mille(150) {
            subject.push('?');
        }
        subject
    }

    /// Returns `true` if headers are those of today's mail.
    pub(crate) fn modern(self) -> bool {
        self.profile == Profile::Modern
    }
}

/// Host part that is joined to the local part, in git's style of ids.
const ID_AT: &str = "1-git@patches";

fn base64ish(value: u64) -> String {
    let digits = URL_SAFE.as_str().as_bytes();
    (0..10).map(|i| digits[(value >> (6 * i)) as usize & 63] as char).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREADS: Threads = Threads { seed: 1, profile: Profile::Modern };

    #[test]
    fn trees_are_deep_but_bounded() {
        let depths: Vec<_> = (0..60_000).map(|number| THREADS.ancestors(number).len()).collect();
        assert_eq!(depths.iter().max(), Some(&DEPTH_MAX));
        let replies = depths.iter().filter(|depth| **depth > 0).count();
        assert!((42_000..50_000).contains(&replies), "{replies}");
    }

    #[test]
    fn ancestors_agree_with_their_own() {
        for number in 0..5_000 {
            let ancestors = THREADS.ancestors(number);
            if let Some(parent) = ancestors.first() {
                assert_eq!(THREADS.ancestors(*parent), ancestors[1..]);
            }
        }
    }

    #[test]
    fn ids_are_all_but_unique() {
        let ids: Vec<_> = (0..20_000).map(|number| THREADS.message_id(number)).collect();
        let unique: std::collections::HashSet<_> = ids.iter().collect();
        assert!((1..100).contains(&(ids.len() - unique.len())));
        assert!(ids.iter().all(|id| id.matches('@').count() == 1 && id.ends_with('>')));
    }
}
