//! The stored form of links, so that they can be kept between runs (`docs/formats/threads.md`).

use super::link::{NONE, Nameless, ThreadState};
use super::output::words;
use crate::limits::{MESSAGE_IDS_MAX, MESSAGES_MAX};
use crate::{Profile, QueryError};

const MAGIC: u32 = u32::from_le_bytes(*b"blnk");
const VERSION: u32 = 1;
/// Magic, version, profile, rows, ids, messages without id, links (two words).
const HEADER_WORDS: usize = 8;
/// Row, parent, stamp (two words).
const NAMELESS_WORDS: usize = 4;

fn profile_number(profile: Profile) -> u32 {
    match profile {
        Profile::Rfc => 0,
        Profile::Dovecot => 1,
        Profile::CClient => 2,
    }
}

impl ThreadState {
    /// Writes the state in barid's own form, for [`ThreadState::from_bytes`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let header = [
            MAGIC,
            VERSION,
            profile_number(self.profile),
            self.rows,
            self.parents.len() as u32,
            self.nameless.len() as u32,
            self.links as u32,
            (self.links >> 32) as u32,
        ];
        let len = self.parents.len() * 8 + self.stamps.len() * 8 + self.nameless.len() * 16;
        let mut bytes = Vec::with_capacity(header.len() * 4 + len);
        for number in header.iter().chain(&self.parents).chain(&self.row_of) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for nameless in &self.nameless {
            bytes.extend_from_slice(&nameless.row.to_le_bytes());
            bytes.extend_from_slice(&nameless.parent.to_le_bytes());
            bytes.extend_from_slice(&nameless.stamp.to_le_bytes());
        }
        bytes.extend(self.stamps.iter().flat_map(|stamp| stamp.to_le_bytes()));
        bytes
    }

    /// Reads the form that [`ThreadState::to_bytes`] writes; linear.
    ///
    /// # Errors
    /// Returns [`QueryError::Stored`] if the bytes are not a complete state without loops.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, QueryError> {
        let (header, rest) = bytes.split_at_checked(HEADER_WORDS * 4).ok_or(CUT)?;
        let header: Vec<u32> = words(header).collect();
        let &[magic, version, profile, rows, ids, nameless, low, high] = header.as_slice() else {
            return Err(CUT);
        };
        if [magic, version] != [MAGIC, VERSION] {
            return Err(QueryError::Stored("not links of this version"));
        }
        let profiles = [Profile::Rfc, Profile::Dovecot, Profile::CClient];
        let profile = profiles.into_iter().find(|known| profile_number(*known) == profile);
        let profile = profile.ok_or(QueryError::Stored("unknown profile"))?;
        let (ids, nameless) = (ids as usize, nameless as usize);
        let stamps = if profile == Profile::CClient { ids } else { 0 };
        let expected = (ids * 2 + nameless * NAMELESS_WORDS + stamps * 2) * 4;
        // More than 2^56 links are impossible; the counter has room beyond.
        if rest.len() != expected
            || high >> 24 != 0
            || ids > MESSAGE_IDS_MAX
            || rows as usize > MESSAGES_MAX
        {
            return Err(CUT);
        }
        let mut numbers = words(rest);
        let mut state = ThreadState::new(profile);
        state.rows = rows;
        state.links = u64::from(low) | u64::from(high) << 32;
        state.parents = numbers.by_ref().take(ids).collect();
        state.row_of = numbers.by_ref().take(ids).collect();
        for _ in 0..nameless {
            let (row, parent) = (numbers.next().ok_or(CUT)?, numbers.next().ok_or(CUT)?);
            state.nameless.push(Nameless { row, parent, stamp: stamp(&mut numbers)? });
        }
        for _ in 0..stamps {
            state.stamps.push(stamp(&mut numbers)?);
        }
        state.check()?;
        Ok(state)
    }

    /// Checks that every number is in range, every row occurs once and nothing is its own ancestor;
    /// fills in the data derived from the parents.
    fn check(&mut self) -> Result<(), QueryError> {
        let ids = self.parents.len();
        self.loops.has_child = vec![false; ids];
        let nameless = self.nameless.iter().map(|nameless| nameless.parent);
        for parent in self.parents.iter().copied().chain(nameless).filter(|id| *id != NONE) {
            let known = self.loops.has_child.get_mut(parent as usize);
            *known.ok_or(QueryError::Stored("a parent is out of range"))? = true;
        }
        let mut seen = vec![false; self.rows as usize];
        let nameless = self.nameless.iter().map(|nameless| nameless.row);
        for row in self.row_of.iter().copied().filter(|row| *row != NONE).chain(nameless) {
            match seen.get_mut(row as usize) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(QueryError::Stored("a row is out of range or repeated")),
            }
        }
        if seen.contains(&false) {
            return Err(QueryError::Stored("a row is missing"));
        }
        if has_loop(&self.parents) {
            return Err(QueryError::Stored("a message is its own ancestor"));
        }
        Ok(())
    }
}

const CUT: QueryError = QueryError::Stored("truncated or too long");

fn stamp(numbers: &mut impl Iterator<Item = u32>) -> Result<i64, QueryError> {
    let (low, high) = (numbers.next().ok_or(CUT)?, numbers.next().ok_or(CUT)?);
    Ok((u64::from(low) | u64::from(high) << 32) as i64)
}

/// Walks up from every node, stopping at nodes of an earlier walk.
fn has_loop(parents: &[u32]) -> bool {
    let mut walked_by = vec![NONE; parents.len()];
    for start in 0..parents.len() as u32 {
        let mut node = start;
        while node != NONE && walked_by[node as usize] == NONE {
            walked_by[node as usize] = start;
            node = parents[node as usize];
        }
        if node != NONE && walked_by[node as usize] == start {
            return true;
        }
    }
    false
}
