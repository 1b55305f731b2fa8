//! The scores of a mailbox's messages, stored in the state folder (`docs/formats/spam-scores.md`).
//!
//! A score stays until rescoring is requested, whatever is trained meanwhile; but it belongs to one
//! word list, one profile and one set of parameters. The file may be lost at any time.

use std::path::PathBuf;
use std::sync::Arc;

use barid::Mailbox;
use barid_bayes::Parameters;
use barid_types::Uid;
use barid_vfs::le::{u32_at, u64_at};
use barid_vfs::{File, atomic_replace};
use xxhash_rust::xxh3::xxh3_64;

use crate::classify::{Classified, OnClassified, Rules};
use crate::filter::number_of;
use crate::limits::SCORES_LEN_MAX;
use crate::source::{At, Source};
use crate::{Error, Filter, Result};

const MAGIC: &[u8; 8] = b"barid-sc";
const VERSION: u32 = 2;
/// Bytes between the magic number and the entries: version, UIDVALIDITY, fingerprint, count.
const HEAD_LEN: usize = 24;
/// Bytes of an entry: UID, check, generation, score.
const ENTRY_LEN: usize = 24;

/// Numbers of scores by origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScoreOrigins {
    /// Stored scores that were reused.
    pub kept: u64,
    /// Reused scores of an older generation of the word list.
    pub older: u64,
    /// Messages that were read.
    pub read: u64,
}

/// A stored score.
#[derive(Clone, Copy, Debug, PartialEq)]
struct StoredScore {
    uid: u32,
    /// Check value that identifies the scored message.
    check: u32,
    generation: u64,
    spamicity: f64,
}

/// All stored scores of a mailbox, by UID.
#[derive(Clone, Debug, Default, PartialEq)]
struct Scores(Vec<StoredScore>);

impl Scores {
    fn encode(&self, uidvalidity: u32, fingerprint: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.0.len() * ENTRY_LEN + 64);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&uidvalidity.to_le_bytes());
        out.extend_from_slice(&fingerprint.to_le_bytes());
        out.extend_from_slice(&(self.0.len() as u64).to_le_bytes());
        for entry in &self.0 {
            out.extend_from_slice(&entry.uid.to_le_bytes());
            out.extend_from_slice(&entry.check.to_le_bytes());
            out.extend_from_slice(&entry.generation.to_le_bytes());
            out.extend_from_slice(&entry.spamicity.to_bits().to_le_bytes());
        }
        let sum = xxh3_64(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// Parses scores; `None` for malformed bytes, or for scores of something else.
    fn decode(bytes: &[u8], uidvalidity: u32, fingerprint: u64) -> Option<Self> {
        let (body, sum) = bytes.split_last_chunk::<8>()?;
        if xxh3_64(body) != u64::from_le_bytes(*sum) {
            return None;
        }
        let (head, entries) = body.strip_prefix(MAGIC)?.split_first_chunk::<HEAD_LEN>()?;
        let is_it = u32_at(head, 0) == VERSION
            && u32_at(head, 4) == uidvalidity
            && u64_at(head, 8) == fingerprint;
        let count = usize::try_from(u64_at(head, 16)).ok().filter(|_| is_it)?;
        let entries = entries.get(..count.checked_mul(ENTRY_LEN)?)?;
        let entry = |bytes| StoredScore {
            uid: u32_at(bytes, 0),
            check: u32_at(bytes, 4),
            generation: u64_at(bytes, 8),
            spamicity: f64::from_bits(u64_at(bytes, 16)),
        };
        Some(Self(entries.chunks_exact(ENTRY_LEN).map(entry).collect()))
    }

    /// Returns the score of a message, unless it comes from a newer generation of the list.
    fn of(&self, uid: u32, check: u32, generation: u64) -> Option<&StoredScore> {
        let at = self.0.binary_search_by_key(&uid, |entry| entry.uid).ok()?;
        let entry = &self.0[at];
        (entry.check == check && entry.generation <= generation).then_some(entry)
    }
}

impl Filter {
    /// Classifies messages of a mailbox, in the order of their UIDs. Messages with a stored score
    /// are not read, unless `rescore` is `true`; the scores of the others are stored.
    ///
    /// # Errors
    /// As [`Filter::classify`].
    pub fn classify_mailbox(
        &self,
        mailbox: &mut Mailbox,
        uids: &[Uid],
        rescore: bool,
        report: &mut OnClassified<'_>,
    ) -> Result<ScoreOrigins> {
        let mut list = self.open_list()?;
        let rules = Rules::new(self, &mut list, false)?;
        let generation = list.generation();
        let place = self.place(mailbox);
        let checks = mailbox.checked_uids()?;
        let check_of = |uid: u32| {
            let at = checks.binary_search_by_key(&uid, |(uid, _)| uid.get()).ok()?;
            Some(checks[at].1)
        };
        let old = place.read();
        let known = if rescore { Scores::default() } else { old.clone() };
        let kept = |uid: &Uid| known.of(uid.get(), check_of(uid.get())?, generation);
        let to_read: Vec<Uid> = uids.iter().copied().filter(|uid| kept(uid).is_none()).collect();
        let mut waiting = uids.iter().filter_map(|uid| Some((*uid, kept(uid)?))).peekable();
        let (mut scored, mut new) = (ScoreOrigins::default(), Vec::new());
        let mut report_kept = |(uid, entry): (Uid, &StoredScore), report: &mut OnClassified<'_>| {
            scored.kept += 1;
            scored.older += u64::from(entry.generation < generation);
            report(At::Uid(uid), Ok(Some(classified(entry, &rules.parameters))))
        };
        let mut read = 0;
        let source = Source::Mailbox(mailbox, &to_read);
        let done = self.classify_by(&rules, source, &mut |at, found| {
            let At::Uid(uid) = at else { return Ok(()) };
            while let Some(kept) = waiting.next_if(|(kept, _)| *kept < uid) {
                report_kept(kept, report)?;
            }
            read += 1;
            if let (Ok(Some(found)), Some(check)) = (&found, check_of(uid.get())) {
                let (generation, spamicity) = (found.generation, found.spamicity);
                new.push(StoredScore { uid: uid.get(), check, generation, spamicity });
            }
            report(at, found)
        });
        if done.is_ok() && !self.is_stopped() {
            waiting.try_for_each(|kept| report_kept(kept, report))?;
        }
        // The scores of messages that were read are stored, even if not all could be read.
        if !new.is_empty() {
            new.extend(old.0);
            new.sort_by_key(|entry| entry.uid);
            new.dedup_by_key(|entry| entry.uid);
            new.retain(|entry| check_of(entry.uid) == Some(entry.check));
            place.write(&Scores(new))?;
        }
        done?;
        scored.read = read;
        Ok(scored)
    }

    fn place(&self, mailbox: &Mailbox) -> ScoresFile {
        let folder = mailbox.state_dir().join("spam");
        ScoresFile {
            vfs: Arc::clone(&self.vfs),
            path: folder.join(format!("scores-{:032x}", mailbox.id())),
            folder,
            uidvalidity: mailbox.status().uidvalidity.get(),
            fingerprint: self.fingerprint(),
        }
    }

    /// Returns a hash of everything that a score depends on except the content of the word list.
    /// Cut-offs only interpret a score.
    fn fingerprint(&self) -> u64 {
        let Parameters { robx, robs, min_dev, sp_esf, ns_esf, .. } = self.options.parameters;
        let Parameters { token_count, token_count_min, token_count_max, .. } =
            self.options.parameters;
        let mut bytes = vec![number_of(self.options.profile)];
        let path = self.path.as_os_str().as_encoded_bytes();
        bytes.extend_from_slice(&(path.len() as u64).to_le_bytes());
        bytes.extend_from_slice(path);
        for number in [robx, robs, min_dev, sp_esf, ns_esf] {
            bytes.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        for count in [token_count, token_count_min, token_count_max] {
            bytes.extend_from_slice(&(count as u64).to_le_bytes());
        }
        xxh3_64(&bytes)
    }
}

fn classified(entry: &StoredScore, parameters: &Parameters) -> Classified {
    Classified {
        spamicity: entry.spamicity,
        status: parameters.status(entry.spamicity),
        used: None,
        generation: entry.generation,
        is_kept: true,
        explained: None,
    }
}

/// Location of the scores of a mailbox.
struct ScoresFile {
    vfs: Arc<dyn barid_vfs::Vfs>,
    folder: PathBuf,
    path: PathBuf,
    uidvalidity: u32,
    fingerprint: u64,
}

impl ScoresFile {
    fn read(&self) -> Scores {
        let bytes = self.vfs.read(&self.path, SCORES_LEN_MAX).unwrap_or_default();
        Scores::decode(&bytes, self.uidvalidity, self.fingerprint).unwrap_or_default()
    }

    /// Replaces the file; after a crash it is the old one, the new one, or damaged.
    fn write(&self, scores: &Scores) -> Result<()> {
        let made = barid_vfs::create_dir_durable(&*self.vfs, &self.folder, 0o700);
        made.map_err(Error::at(&self.folder))?;
        let bytes = scores.encode(self.uidvalidity, self.fingerprint);
        let write = |file: &dyn File| file.write_all_at(&bytes, 0);
        let written = atomic_replace(&*self.vfs, &self.path, 0o600, false, write);
        written.map(drop).map_err(Error::at(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores() -> Scores {
        let entry = |uid, spamicity| StoredScore { uid, check: uid + 7, generation: 3, spamicity };
        Scores(vec![entry(1, 0.0), entry(4, 0.5), entry(9, 1.0)])
    }

    #[test]
    fn scores_are_read_as_they_were_written() {
        let bytes = scores().encode(77, 1 << 40);
        let check = |bytes: &[u8], uidvalidity, fingerprint, expected: Option<Scores>| {
            assert_eq!(Scores::decode(bytes, uidvalidity, fingerprint), expected);
        };
        check(&bytes, 77, 1 << 40, Some(scores()));
        check(&bytes, 78, 1 << 40, None);
        check(&bytes, 77, 1 << 41, None);
        for at in 0..bytes.len() {
            check(&bytes[..at], 77, 1 << 40, None);
            let mut other = bytes.clone();
            other[at] ^= 1;
            check(&other, 77, 1 << 40, None);
        }
    }

    #[test]
    fn the_layout_is_what_it_was() {
        let one = Scores(scores().0[1..2].to_vec());
        let bytes = one.encode(0x0102, 0x0304);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let (body, _) = hex.split_at(hex.len() - 16);
        let expected = "62617269642d736302000000020100000403000000000000\
                        0100000000000000040000000b0000000300000000000000000000000000e03f";
        assert_eq!(body, expected);
    }

    #[test]
    fn a_score_is_of_one_message_and_of_no_later_list() {
        let scores = scores();
        let check = |uid, check, generation, is_found: bool| {
            assert_eq!(scores.of(uid, check, generation).is_some(), is_found);
        };
        check(4, 11, 3, true);
        check(4, 11, 8, true);
        check(4, 12, 3, false);
        check(4, 11, 2, false);
        check(5, 12, 3, false);
    }
}
