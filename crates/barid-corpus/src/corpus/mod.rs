//! Generated mail: any number of messages, each determined by the seed and its number alone.
//!
//! Messages can be generated in any order, and a box of the first n messages of a corpus is a
//! prefix of a longer one with the same [`Corpus::new`] arguments. Nothing is kept between
//! messages, so boxes of any size are written with little memory and from many threads.
//!
//! The proportions were measured in mailing lists of 1996 to 2026: three of four messages are
//! replies, trees are up to 30 deep, a header is 2.4 KB in today's mail, a third of the messages is
//! multipart, some have no date or a broken one, raw 8-bit headers, or invalid header lines.

mod body;
mod header;
mod names;
mod random;
mod text;
mod threads;

use std::sync::Arc;

use barid_types::{Flag, FlagSet};

pub use names::WORDS;
pub use random::Random;
use text::Texts;
use threads::Threads;

/// The sizes of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Mail of today: headers of 2.4 KB, bodies with a median of 2.5 KB and a mean of 4 KB;
    /// 100,000 messages are 636 MB.
    #[default]
    Modern,
    /// Mail of 2004: headers of 0.9 KB, smaller bodies; 361,052 messages are 1.42 GB.
    Classic,
}

impl Profile {
    /// Returns the median length of the content; the mean is 1.6 times this.
    fn body_len_median(self) -> f64 {
        match self {
            Profile::Modern => 2_500.0,
            Profile::Classic => 1_740.0,
        }
    }
}

/// A message as delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GeneratedMessage {
    /// Header, blank line and body; LF line ends, the last line ended.
    pub bytes: Vec<u8>,
    /// Its arrival time: seconds since 1970. Rises with the number of the message.
    pub date: i64,
    /// Its flags; \Recent means that no client has seen it (the Maildir's `new`).
    pub flags: FlagSet,
    /// The envelope sender.
    pub sender: String,
}

/// A sequence of messages.
#[derive(Clone, Debug)]
pub struct Corpus {
    seed: u64,
    count: u64,
    profile: Profile,
    texts: Arc<Texts>,
}

impl Corpus {
    /// The arrival time of the first message: 2019-01-01 00:00:00 UTC.
    pub const FIRST_DATE: i64 = 1_546_300_800;
    /// The years over which a corpus spreads, in seconds, unless it is small.
    const SPAN_S: u64 = 6 * 365 * 86_400;
    /// The longest time between two messages, in seconds.
    const STEP_MAX_S: u64 = 3_600;

    /// Creates a corpus of `count` messages. Equal arguments give equal mail.
    pub fn new(seed: u64, count: u64) -> Self {
        Self::with_profile(seed, count, Profile::Modern)
    }

    /// Creates a corpus with messages of other sizes.
    pub fn with_profile(seed: u64, count: u64, profile: Profile) -> Self {
        Self { seed, count, profile, texts: Arc::new(Texts::new(seed)) }
    }

    /// Returns the number of messages.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Returns `true` if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the message with a number, counted from 0. Numbers from [`Corpus::len`] on give
    /// further mail that arrives later.
    pub fn message(&self, number: u64) -> GeneratedMessage {
        let mut message = GeneratedMessage::default();
        self.write_message(number, &mut message);
        message
    }

    /// Like [`Corpus::message`], into a message whose buffers are reused.
    pub fn write_message(&self, number: u64, message: &mut GeneratedMessage) {
        let mut random = Random::new(self.seed, number, random::MESSAGE);
        message.bytes.clear();
        message.date = self.date(number);
        message.flags = self.flags(number);
        let body = body::Body::choose(&mut random, self.profile.body_len_median());
        let threads = Threads { seed: self.seed, profile: self.profile };
        let facts = header::Facts {
            threads,
            number,
            date: message.date,
            profile: self.profile,
            list: names::list(self.seed, threads.root(number)),
        };
        message.sender = header::write(&facts, &body, &mut random, &mut message.bytes);
        message.bytes.push(b'\n');
        body.write(&self.texts, threads.parent(number).is_some(), &mut random, &mut message.bytes);
    }

    fn date(&self, number: u64) -> i64 {
        let step = (Self::SPAN_S / self.count.max(1)).clamp(1, Self::STEP_MAX_S);
        let jitter = Random::new(self.seed, number, random::DATE).below(step);
        Self::FIRST_DATE + (number * step + jitter) as i64
    }

    /// Returns flags: the newest hundredth is new, the newest twentieth largely unread.
    fn flags(&self, number: u64) -> FlagSet {
        let mut random = Random::new(self.seed, number, random::FLAGS);
        if number >= self.count - self.count / 100 {
            return FlagSet::EMPTY.with(Flag::Recent);
        }
        let unread = if number >= self.count - self.count / 20 { 700 } else { 40 };
        let mut flags = FlagSet::EMPTY;
        for (flag, per_mille) in [
            (Flag::Seen, 1000 - unread),
            (Flag::Answered, 80),
            (Flag::Flagged, 25),
            (Flag::Deleted, 4),
            (Flag::Draft, 1),
        ] {
            let answered_unread = flag == Flag::Answered && !flags.contains(Flag::Seen);
            if random.per_mille(per_mille) && !answered_unread {
                flags = flags.with(flag);
            }
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_depends_on_seed_and_number_alone() {
        let (short, long) = (Corpus::new(1, 3_000), Corpus::new(1, 3_000));
        assert_eq!(short.message(1_234), long.message(1_234));
        assert_ne!(short.message(1_234).bytes, Corpus::new(2, 3_000).message(1_234).bytes);
    }

    #[test]
    fn dates_rise() {
        let corpus = Corpus::new(7, 100);
        let dates: Vec<_> = (0..120).map(|number| corpus.message(number).date).collect();
        assert!(dates.is_sorted());
    }

    /// Returns mean lengths of header and body, and the median of the body.
    fn lengths(profile: Profile) -> (usize, usize, usize) {
        const COUNT: usize = 4_000;
        let corpus = Corpus::with_profile(1, COUNT as u64, profile);
        let mut bodies = Vec::with_capacity(COUNT);
        let mut header_len = 0;
        for number in 0..COUNT as u64 {
            let bytes = corpus.message(number).bytes;
            let header = bytes.windows(2).position(|pair| pair == b"\n\n").unwrap() + 2;
            header_len += header;
            bodies.push(bytes.len() - header);
        }
        bodies.sort_unstable();
        (header_len / COUNT, bodies.iter().sum::<usize>() / COUNT, bodies[COUNT / 2])
    }

    #[test]
    fn sizes_are_those_of_the_profiles() {
        let (header, mean, median) = lengths(Profile::Modern);
        assert!((2_300..2_500).contains(&header), "header {header}");
        assert!((3_800..4_200).contains(&mean), "mean {mean}");
        assert!((2_350..2_700).contains(&median), "median {median}");
        let (header, mean, _) = lengths(Profile::Classic);
        assert!((3_750..4_050).contains(&(header + mean)), "header {header} body {mean}");
    }

    #[test]
    fn flags_are_mixed() {
        let corpus = Corpus::new(3, 2_000);
        let all: Vec<_> = (0..2_000).map(|number| corpus.flags(number)).collect();
        for flag in [Flag::Seen, Flag::Answered, Flag::Flagged, Flag::Deleted, Flag::Recent] {
            let count = all.iter().filter(|flags| flags.contains(flag)).count();
            assert!((1..2_000).contains(&count), "{flag:?}: {count}");
        }
    }
}
