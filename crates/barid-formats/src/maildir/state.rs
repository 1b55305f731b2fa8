//! State that a scan leaves for the next one ([`barid_mailbox::ScanReport::state`]), as versioned
//! bytes.

use barid_types::{Uid, UidValidity};
use barid_vfs::le::LeReader;

use super::keywords::LetterSlots;
use super::layout::{LETTERS, ORPHANS_MAX, UNREAD_MAX};
use super::uidlist::UidListHeader;

const VERSION: u8 = 3;
/// The version with the bytes of all messages after the slots, which are not needed.
const VERSION_WITH_SIZE: u8 = 2;
const HAS_LIST: u8 = 1;
const HAS_GUID: u8 = 2;
const ORPHANS_OVERFLOW: u8 = 4;
const HAS_UNREAD: u8 = 8;
/// Former flag of marks of files; now each mark is with its message.
const HAD_MARKS: u8 = 16;

/// The part of `dovecot-uidlist` that has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListState {
    /// Its first line.
    pub(super) header: UidListHeader,
    /// Its inode.
    pub(super) inode: u64,
    /// Offset up to which it has been read.
    pub(super) offset: u64,
    /// The highest UID of a line.
    pub(super) last_uid: u32,
    /// Number of lines in it.
    pub(super) lines: u32,
}

/// The state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MaildirState {
    /// The part of `dovecot-uidlist` that has been read; `None` if the ledger alone stores UIDs.
    pub(super) list: Option<ListState>,
    /// The slots of the keyword letters.
    pub(super) slots: LetterSlots,
    /// Hashes of names with a line but no file, ascending; `None` if there are too many.
    pub(super) orphans: Option<Vec<u64>>,
    /// UIDs of the messages that could not be read, ascending.
    pub(super) unread: Vec<u32>,
}

impl MaildirState {
    /// Writes the state.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION, 0];
        out.extend_from_slice(&self.slots.of_letter);
        match &self.orphans {
            Some(orphans) if orphans.len() <= ORPHANS_MAX => {
                out.extend_from_slice(&(orphans.len() as u32).to_le_bytes());
                orphans.iter().for_each(|hash| out.extend_from_slice(&hash.to_le_bytes()));
            }
            _ => {
                out[1] |= ORPHANS_OVERFLOW;
                out.extend_from_slice(&0_u32.to_le_bytes());
            }
        }
        if !self.unread.is_empty() {
            out[1] |= HAS_UNREAD;
            out.extend_from_slice(&(self.unread.len() as u32).to_le_bytes());
            let kept = &self.unread[..self.unread.len().min(UNREAD_MAX)];
            kept.iter().for_each(|uid| out.extend_from_slice(&uid.to_le_bytes()));
        }
        if let Some(list) = &self.list {
            out[1] |= HAS_LIST;
            out.push(list.header.version);
            out.extend_from_slice(&list.header.uidvalidity.get().to_le_bytes());
            out.extend_from_slice(&list.header.uidnext.get().to_le_bytes());
            if let Some(guid) = &list.header.guid {
                out[1] |= HAS_GUID;
                out.extend_from_slice(guid);
            }
            out.extend_from_slice(&list.inode.to_le_bytes());
            out.extend_from_slice(&list.offset.to_le_bytes());
            out.extend_from_slice(&list.last_uid.to_le_bytes());
            out.extend_from_slice(&list.lines.to_le_bytes());
            out.extend_from_slice(&list.header.extensions);
        }
        out
    }

    /// Returns `true` if the UID list stores UIDs, and no message is to be tried again.
    pub(super) fn is_listed_and_read(&self) -> bool {
        self.list.is_some() && self.unread.is_empty()
    }

    /// Returns `true` if messages could not be read, according to the result of
    /// [`MaildirState::to_bytes`].
    pub(super) fn has_unread(bytes: &[u8]) -> bool {
        matches!(bytes, [VERSION | VERSION_WITH_SIZE, bits, ..] if bits & HAS_UNREAD != 0)
    }

    /// Parses the result of [`MaildirState::to_bytes`]; `None` if it is of another version or
    /// damaged, or if more messages could not be read than can be stored, so that all are to be
    /// tried again.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut input = LeReader(bytes);
        let has_size = match input.u8()? {
            VERSION => false,
            VERSION_WITH_SIZE => true,
            _ => return None,
        };
        let bits = input.u8()?;
        let mut state = Self::default();
        state.slots.of_letter.copy_from_slice(input.take(LETTERS)?);
        if has_size {
            input.u64()?;
        }
        let orphans = input.u32()? as usize;
        if orphans > ORPHANS_MAX {
            return None;
        }
        let hashes: Option<Vec<u64>> = (0..orphans).map(|_| input.u64()).collect();
        state.orphans = if bits & ORPHANS_OVERFLOW == 0 { Some(hashes?) } else { None };
        if bits & HAS_UNREAD != 0 {
            let unread = input.u32()? as usize;
            if unread > UNREAD_MAX {
                return None;
            }
            state.unread = (0..unread).map(|_| input.u32()).collect::<Option<_>>()?;
        }
        if bits & HAD_MARKS != 0 {
            let marks = input.u32()? as usize;
            input.take(marks.checked_mul(4)?)?;
        }
        if bits & HAS_LIST != 0 {
            state.list = Some(read_list(&mut input, bits & HAS_GUID != 0)?);
        }
        Some(state)
    }
}

fn read_list(input: &mut LeReader<'_>, has_guid: bool) -> Option<ListState> {
    let version = input.u8()?;
    let uidvalidity = UidValidity::new(input.u32()?)?;
    let uidnext = Uid::new(input.u32()?)?;
    let guid = if has_guid { Some(input.take(32)?.try_into().ok()?) } else { None };
    let (inode, offset) = (input.u64()?, input.u64()?);
    let (last_uid, lines) = (input.u32()?, input.u32()?);
    let extensions = input.0.to_vec();
    let header = UidListHeader { version, uidvalidity, uidnext, guid, extensions };
    Some(ListState { header, inode, offset, last_uid, lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(state: &MaildirState) {
        let bytes = state.to_bytes();
        assert_eq!(MaildirState::from_bytes(&bytes).as_ref(), Some(state));
        for len in 0..bytes.len().min(100) {
            let _ = MaildirState::from_bytes(&bytes[..len]);
        }
        let slots_end = 2 + LETTERS;
        let with_size =
            [&[VERSION_WITH_SIZE], &bytes[1..slots_end], &[7; 8], &bytes[slots_end..]].concat();
        assert_eq!(MaildirState::from_bytes(&with_size).as_ref(), Some(state));
        assert_eq!(MaildirState::from_bytes(&[&[9], &bytes[1..]].concat()), None);
    }

    #[test]
    fn bytes_are_read_back() {
        let header = UidListHeader {
            version: 3,
            uidvalidity: UidValidity::new(7).unwrap(),
            uidnext: Uid::new(9).unwrap(),
            guid: Some(*b"0123456789abcdef0123456789abcdef"),
            extensions: b"Pxyz".to_vec(),
        };
        let mut list = ListState { header, inode: 5, offset: 77, last_uid: 8, lines: 4 };
        let mut slots = LetterSlots::default();
        slots.of_letter[3] = 1;
        let orphans = Some(vec![1, 2]);
        let unread = vec![3, 7];
        check(&MaildirState { list: Some(list.clone()), slots, orphans, unread });
        list.header.guid = None;
        check(&MaildirState {
            list: Some(list),
            orphans: Some(Vec::new()),
            ..MaildirState::default()
        });
        check(&MaildirState { orphans: None, ..MaildirState::default() });
        check(&MaildirState { unread: vec![1; UNREAD_MAX], ..MaildirState::default() });
    }

    #[test]
    fn too_many_unread_are_all_tried_again() {
        let state = MaildirState { unread: vec![1; UNREAD_MAX + 1], ..MaildirState::default() };
        let bytes = state.to_bytes();
        assert!(MaildirState::has_unread(&bytes) && MaildirState::from_bytes(&bytes).is_none());
        assert!(
            !MaildirState::has_unread(&MaildirState::default().to_bytes())
                && !MaildirState::has_unread(&[])
        );
    }
}
