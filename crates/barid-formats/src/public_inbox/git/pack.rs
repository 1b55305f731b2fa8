//! A pack and its index (gitformat-pack(5)): index version 2, pack versions 2 and 3.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barid_vfs::{File, Metadata, OpenOptions, Timestamp, Vfs};

use super::cache::{ByteCache, Bytes};
use super::error::{ObjectError, ObjectResult};
use super::limits::{OBJECT_SIZE_MAX, PAGE_LEN};
use super::object::ObjectKind;
use super::oid::Oid;

/// Bytes of an index before its fanout table, and with it.
const INDEX_HEAD_LEN: u64 = 8;
const INDEX_START_LEN: u64 = INDEX_HEAD_LEN + 256 * 4;
/// Bytes at the end of an index and of a pack: checksums.
const INDEX_END_LEN: u64 = 40;
const PACK_END_LEN: u64 = 20;
/// Bytes of the longest header of an entry: type, size and base.
const ENTRY_HEAD_LEN: usize = 32;
/// Half the number of index entries among which an evenly distributed name is expected.
const GUESS_WIDTH: u64 = 64;

/// A pack of a repository, by its name.
#[derive(Debug)]
pub(super) struct Pack {
    path: PathBuf,
    index_path: PathBuf,
    files: Mutex<PackState>,
    last: Mutex<Option<PackId>>,
}

/// The files of a pack as they were opened last, and the number of their pages in caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PackId {
    number: u64,
    /// Inode, size and time of the index and of the pack.
    files: [(u64, u64, Timestamp); 2],
}

impl PackId {
    /// Returns the number of these files: the last one if they are the same files.
    fn of(files: [&Metadata; 2], last: Option<Self>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let files = files.map(|file| (file.inode, file.size, file.modified));
        let last = last.filter(|last| last.files == files);
        // An index and a pack have a number each.
        last.unwrap_or_else(|| Self { number: NEXT.fetch_add(2, Ordering::Relaxed), files })
    }
}

/// State of the files of a pack.
#[derive(Debug, Default)]
enum PackState {
    #[default]
    Closed,
    Open(Arc<PackFiles>),
    /// They are damaged, which is remembered until packs are listed again.
    Damaged {
        path: PathBuf,
        problem: &'static str,
    },
}

/// The open files of a pack.
#[derive(Debug)]
pub(super) struct PackFiles {
    id: u64,
    pub(super) path: PathBuf,
    index_path: PathBuf,
    pub(super) pack: Arc<dyn File>,
    index: Box<dyn File>,
    pack_len: u64,
    index_len: u64,
    count: u64,
    fanout: Vec<u32>,
}

/// Content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// An object.
    Whole(ObjectKind),
    /// A delta to the entry at this offset.
    OffsetDelta(u64),
    /// A delta to an object of the same pack.
    RefDelta(Oid),
}

/// The parsed header of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryHead {
    pub(super) kind: EntryKind,
    /// Bytes of the inflated object or delta.
    pub(super) size: u64,
    /// Offset of the zlib stream.
    pub(super) data_offset: u64,
}

/// Pages of packs and indexes that were read, by file and number.
pub(super) type PageCache = ByteCache<(u64, u64)>;

impl Pack {
    /// Makes the pack at `path`, which ends with `.pack`; opens nothing.
    pub(super) fn new(path: PathBuf) -> Self {
        let index_path = path.with_extension("idx");
        Self { path, index_path, files: Mutex::default(), last: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, PackState> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the files, and `true` if they were opened just now.
    pub(super) fn files(&self, vfs: &dyn Vfs) -> ObjectResult<(Arc<PackFiles>, bool)> {
        let mut state = self.lock();
        match &*state {
            PackState::Open(files) => return Ok((Arc::clone(files), false)),
            PackState::Damaged { path, problem } => {
                return Err(ObjectError::damaged(path, problem));
            }
            PackState::Closed => {}
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match PackFiles::open(vfs, &self.path, &self.index_path, &mut last) {
            Ok(files) => {
                let files = Arc::new(files);
                *state = PackState::Open(Arc::clone(&files));
                Ok((files, true))
            }
            Err(error) => {
                if let ObjectError::Damaged { path, problem } = &error {
                    *state = PackState::Damaged { path: path.clone(), problem };
                }
                Err(error)
            }
        }
    }

    /// Closes the files as soon as nobody reads them.
    pub(super) fn close(&self) {
        *self.lock() = PackState::Closed;
    }

    /// Has the files looked at again if they were damaged.
    pub(super) fn forget_damage(&self) {
        let mut state = self.lock();
        if matches!(*state, PackState::Damaged { .. }) {
            *state = PackState::Closed;
        }
    }
}

impl PackFiles {
    fn open(
        vfs: &dyn Vfs,
        path: &Path,
        index_path: &Path,
        last: &mut Option<PackId>,
    ) -> ObjectResult<Self> {
        let at = ObjectError::at;
        let bad = |problem| ObjectError::damaged(index_path, problem);
        let index = vfs.open(index_path, OpenOptions::READ).map_err(at(index_path))?;
        let index_metadata = index.metadata().map_err(at(index_path))?;
        let index_len = index_metadata.size;
        let mut start = vec![0; INDEX_START_LEN as usize];
        let len = index.read_full_at(&mut start, 0).map_err(at(index_path))?;
        if len < start.len() || !start.starts_with(b"\xfftOc\0\0\0\x02") {
            return Err(bad("is in a pack without an index of version 2"));
        }
        let words = start[INDEX_HEAD_LEN as usize..].chunks_exact(4);
        let fanout: Vec<u32> = words.map(be32).collect();
        let count = u64::from(fanout.last().copied().unwrap_or_default());
        let is_long = index_len >= INDEX_START_LEN + count * (20 + 4 + 4) + INDEX_END_LEN;
        if !fanout.is_sorted() || !is_long {
            return Err(bad("is in a pack with a damaged index"));
        }
        let bad = |problem| ObjectError::damaged(path, problem);
        let pack: Arc<dyn File> = Arc::from(vfs.open(path, OpenOptions::READ).map_err(at(path))?);
        let pack_metadata = pack.metadata().map_err(at(path))?;
        let pack_len = pack_metadata.size;
        let mut head = [0; 12];
        let len = pack.read_full_at(&mut head, 0).map_err(at(path))?;
        let is_pack = len == 12 && head.starts_with(b"PACK\0\0\0") && matches!(head[7], 2 | 3);
        if !is_pack || u64::from(be32(&head[8..])) != count {
            return Err(bad("is in a damaged pack"));
        }
        let id = PackId::of([&index_metadata, &pack_metadata], *last);
        *last = Some(id);
        let id = id.number;
        let (path, index_path) = (path.to_owned(), index_path.to_owned());
        Ok(Self { id, path, index_path, pack, index, pack_len, index_len, count, fanout })
    }

    /// Returns the number that no other open pack has.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the page of the pack that contains `offset`, from there on; it is not empty.
    pub(super) fn data(&self, pages: &mut PageCache, offset: u64) -> ObjectResult<PageFrom> {
        let page = self.page(pages, (&*self.pack, &self.path, self.id), offset)?;
        match page.bytes().is_empty() {
            true => Err(ObjectError::damaged(&self.path, "is in a truncated pack")),
            false => Ok(page),
        }
    }

    fn page(
        &self,
        pages: &mut PageCache,
        (file, path, id): (&dyn File, &Path, u64),
        offset: u64,
    ) -> ObjectResult<PageFrom> {
        let (number, from) = (offset / PAGE_LEN as u64, (offset % PAGE_LEN as u64) as usize);
        if let Some(bytes) = pages.get((id, number)) {
            return Ok(PageFrom { bytes, from });
        }
        let mut bytes = vec![0; PAGE_LEN];
        let start = number * PAGE_LEN as u64;
        let len = file.read_full_at(&mut bytes, start).map_err(ObjectError::at(path))?;
        bytes.truncate(len);
        bytes.shrink_to_fit();
        let bytes = Arc::new(bytes);
        pages.insert((id, number), Arc::clone(&bytes));
        Ok(PageFrom { bytes, from })
    }

    /// Reads bytes of the index, which must be there.
    fn index_bytes<const N: usize>(
        &self,
        pages: &mut PageCache,
        offset: u64,
    ) -> ObjectResult<[u8; N]> {
        let (mut found, mut at) = ([0; N], 0);
        while at < N {
            let of = (&*self.index, &*self.index_path, self.id + 1);
            let page = self.page(pages, of, offset + at as u64)?;
            let len = page.bytes().len().min(N - at);
            if len == 0 {
                return Err(ObjectError::damaged(&self.index_path, "is in a truncated index"));
            }
            found[at..at + len].copy_from_slice(&page.bytes()[..len]);
            at += len;
        }
        Ok(found)
    }

    fn name_at(&self, pages: &mut PageCache, at: u64) -> ObjectResult<Oid> {
        self.index_bytes(pages, INDEX_START_LEN + at * Oid::LEN as u64).map(Oid)
    }

    /// Finds the offset of an object; `None` if it is not in the pack.
    pub(super) fn find(&self, pages: &mut PageCache, oid: Oid) -> ObjectResult<Option<u64>> {
        let first = usize::from(oid.0[0]);
        let mut low = if first == 0 { 0 } else { u64::from(self.fanout[first - 1]) };
        let mut high = u64::from(self.fanout[first]);
        // Names are hashes: the next four bytes say where among the others one is.
        let share = u64::from(be32(&oid.0[1..5]));
        let guess = low + (((high - low) * share) >> 32);
        let (from, to) = (guess.saturating_sub(GUESS_WIDTH), guess + GUESS_WIDTH);
        if from > low && self.name_at(pages, from)? <= oid {
            low = from;
        }
        if to < high && self.name_at(pages, to)? > oid {
            high = to;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match self.name_at(pages, middle)?.cmp(&oid) {
                std::cmp::Ordering::Equal => return self.offset_at(pages, middle).map(Some),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    fn offset_at(&self, pages: &mut PageCache, at: u64) -> ObjectResult<u64> {
        let table = INDEX_START_LEN + self.count * (20 + 4);
        let word = u64::from(u32::from_be_bytes(self.index_bytes(pages, table + at * 4)?));
        let large = table + self.count * 4 + (word & 0x7fff_ffff) * 8;
        let offset = match word >> 31 {
            0 => word,
            _ if large + 8 <= self.index_len - INDEX_END_LEN => {
                u64::from_be_bytes(self.index_bytes(pages, large)?)
            }
            _ => u64::MAX,
        };
        match (12..self.pack_len.saturating_sub(PACK_END_LEN)).contains(&offset) {
            true => Ok(offset),
            false => Err(ObjectError::damaged(&self.index_path, "is not where the index says")),
        }
    }

    /// Reads the header of the entry at `offset`.
    pub(super) fn head(&self, pages: &mut PageCache, offset: u64) -> ObjectResult<EntryHead> {
        let mut bytes = [0; ENTRY_HEAD_LEN];
        let first = self.data(pages, offset)?;
        let mut len = first.bytes().len().min(ENTRY_HEAD_LEN);
        bytes[..len].copy_from_slice(&first.bytes()[..len]);
        if len < ENTRY_HEAD_LEN && offset + (len as u64) < self.pack_len {
            let next = self.data(pages, offset + len as u64)?;
            let more = next.bytes().len().min(ENTRY_HEAD_LEN - len);
            bytes[len..len + more].copy_from_slice(&next.bytes()[..more]);
            len += more;
        }
        let (kind, size, head_len) = entry_head(&bytes[..len], offset)
            .ok_or_else(|| ObjectError::damaged(&self.path, "has a damaged entry"))?;
        Ok(EntryHead { kind, size, data_offset: offset + head_len as u64 })
    }

    /// Returns the error of damage at an entry.
    pub(super) fn damaged(&self, problem: &'static str) -> ObjectError {
        ObjectError::damaged(&self.path, problem)
    }
}

/// A page, from a byte in it on.
pub(super) struct PageFrom {
    bytes: Bytes,
    from: usize,
}

impl PageFrom {
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.from..).unwrap_or_default()
    }
}

/// Parses the header of the entry at `offset`; returns its kind, its size and its own length.
fn entry_head(bytes: &[u8], offset: u64) -> Option<(EntryKind, u64, usize)> {
    let first = *bytes.first()?;
    let (mut size, mut shift, mut at) = (u64::from(first & 15), 4, 1);
    let mut more = first & 0x80 != 0;
    while more {
        let byte = *bytes.get(at)?;
        if shift > 57 {
            return None;
        }
        size |= u64::from(byte & 0x7f) << shift;
        (shift, at, more) = (shift + 7, at + 1, byte & 0x80 != 0);
    }
    if size > OBJECT_SIZE_MAX {
        return None;
    }
    let kind = match first >> 4 & 7 {
        1 => EntryKind::Whole(ObjectKind::Commit),
        2 => EntryKind::Whole(ObjectKind::Tree),
        3 => EntryKind::Whole(ObjectKind::Blob),
        4 => EntryKind::Whole(ObjectKind::Tag),
        6 => {
            let mut byte = *bytes.get(at)?;
            at += 1;
            let mut back = u64::from(byte & 0x7f);
            while byte & 0x80 != 0 {
                byte = *bytes.get(at)?;
                at += 1;
                back = (back.checked_add(1)? << 7) | u64::from(byte & 0x7f);
                if back > offset {
                    return None;
                }
            }
            // A base lies before its deltas, so there are no circles.
            EntryKind::OffsetDelta(offset.checked_sub(back).filter(|base| *base < offset)?)
        }
        7 => {
            let base = Oid::of_bytes(bytes.get(at..)?)?;
            at += Oid::LEN;
            EntryKind::RefDelta(base)
        }
        _ => return None,
    };
    Some((kind, size, at))
}

fn be32(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |word| u32::from_be_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_kind_and_size() {
        let check = |bytes: &[u8], expected: Option<(EntryKind, u64, usize)>| {
            assert_eq!(entry_head(bytes, 1_000), expected, "{bytes:?}");
        };
        let blob = EntryKind::Whole(ObjectKind::Blob);
        check(b"\x35", Some((blob, 5, 1)));
        check(b"\xb5\x01", Some((blob, 21, 2)));
        check(b"\x65\x05", Some((EntryKind::OffsetDelta(995), 5, 2)));
        check(b"\x65\x80\x00", Some((EntryKind::OffsetDelta(872), 5, 3)));
        let by_name = [&b"\x75"[..], &[7; 20]].concat();
        check(&by_name, Some((EntryKind::RefDelta(Oid([7; 20])), 5, 21)));
        for none in [&b""[..], b"\xb5", b"\x05", b"\x55", b"\x65", b"\x65\x00", b"\x65\x80"] {
            check(none, None);
        }
        check(&by_name[..20], None);
        check(&[0xff; 32], None);
        check(b"\xb0\x80\x80\x80\x80\x40", Some((blob, 1 << 38, 6)));
        check(b"\xb0\x80\x80\x80\x80\x80\x80\x80\x40", None);
        check(b"\x65\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00", None);
    }
}
