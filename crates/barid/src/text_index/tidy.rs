//! Keeping an index small: segments that are gone, expunged messages, many small segments.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;

use barid_index::{AttachmentTexts, Doc, Manifest, Merged, Segment, SegmentEntry, merge};

use super::build::write;
use super::coverage::Coverage;
use super::place::{OpenSegments, index_error};
use crate::limits::{INDEX_MERGED_BYTES_MAX, INDEX_MERGED_MIN, INDEX_SMALL_SEGMENTS_MAX};
use crate::{Result, View};

impl OpenSegments {
    /// Returns the index of a mailbox without one.
    pub(super) fn none() -> Self {
        Self { manifest: Manifest::default(), segments: Vec::new() }
    }

    /// Reads all segments, and takes those that are damaged for missing.
    pub(super) fn drop_damaged(&mut self) {
        for segment in self.segments.iter_mut().flatten() {
            segment.take_if(|segment| matches!(segment.is_whole(), Ok(false)));
        }
    }
}

impl View {
    /// Fails if a segment cannot be read now: it may be whole, and must not be dropped.
    pub(super) fn check_segments(
        &self,
        opened: &mut OpenSegments,
        coverage: &mut Coverage,
    ) -> Result<()> {
        let is_unread = |segment: &io::Result<Option<Segment>>| segment.is_err();
        let unopened = opened.segments.iter().position(is_unread);
        let unopened =
            unopened.map(|at| (at, std::mem::replace(&mut opened.segments[at], Ok(None))));
        let unopened = unopened.and_then(|(at, opened)| Some((at, opened.err()?)));
        match unopened.or_else(|| coverage.unread.take()) {
            Some((at, error)) => {
                let name = opened.manifest.segments[at].name;
                Err(index_error(&self.place.segment_path(name), error))
            }
            None => Ok(()),
        }
    }

    /// Returns the manifest for the messages as they are now, without segments that cover nothing;
    /// stores it if it differs, and removes these.
    pub(super) fn current_manifest(
        &self,
        opened: &OpenSegments,
        coverage: &Coverage,
    ) -> Result<Manifest> {
        let mut segments = opened.manifest.segments.clone();
        let is_renumbered = opened.manifest.uidvalidity != self.uidvalidity();
        if is_renumbered {
            segments.iter_mut().for_each(|segment| segment.uids.fill(0));
        }
        let mut covers = vec![false; segments.len()];
        for (covered, identity) in coverage.docs().iter().zip(&coverage.rows) {
            let Some(covered) = covered else { continue };
            covers[covered.segment as usize] = true;
            segments[covered.segment as usize].uids[covered.doc as usize] = identity.uid;
        }
        if is_renumbered {
            segments.iter_mut().for_each(|segment| make_ascending(&mut segment.uids));
        }
        let mut covers = covers.into_iter();
        let (kept, dropped) = segments.into_iter().partition(|_| covers.next() == Some(true));
        let manifest = Manifest { uidvalidity: self.uidvalidity(), segments: kept };
        if manifest != opened.manifest {
            self.replace_manifest(&manifest, &dropped)?;
        }
        Ok(manifest)
    }

    /// Stores a manifest, and removes the files of segments that it no longer lists. A reader that
    /// has an older list reads the messages instead.
    fn replace_manifest(&self, manifest: &Manifest, dropped: &[SegmentEntry]) -> Result<()> {
        let place = &self.place;
        write(&place.manifest_path(), |path| manifest.store(&*place.vfs, path))?;
        for entry in dropped {
            // What cannot be removed now is removed by the next whole build.
            let _ = place.vfs.remove_file(&place.segment_path(entry.name));
        }
        Ok(())
    }

    /// Removes the files of segments that are not listed: of a process that ended before it listed
    /// them. Lists the folder of all caches.
    pub(super) fn remove_unlisted(&self, manifest: &Manifest) {
        let listed: HashSet<PathBuf> =
            manifest.segments.iter().map(|entry| self.place.segment_path(entry.name)).collect();
        let Ok(found) = self.place.segment_files() else { return };
        for path in found.iter().filter(|path| !listed.contains(*path)) {
            let _ = self.place.vfs.remove_file(path);
        }
    }

    /// Merges small segments into one if there are many.
    pub(super) fn merge_segments(&self, before: Manifest, coverage: &Coverage) -> Result<()> {
        if before.segments.len() <= INDEX_SMALL_SEGMENTS_MAX {
            return Ok(());
        }
        let mut sizes = Vec::new();
        for (at, entry) in before.segments.iter().enumerate() {
            let metadata = self.place.vfs.metadata(&self.place.segment_path(entry.name));
            sizes.extend(metadata.ok().map(|metadata| (metadata.size, at)));
        }
        // The smallest ones first, as many as fit.
        sizes.sort_unstable();
        let mut bytes = 0;
        let fits = |(size, _): &&(u64, usize)| {
            bytes += size;
            bytes <= INDEX_MERGED_BYTES_MAX
        };
        let small: HashSet<usize> = sizes.iter().take_while(fits).map(|(_, at)| *at).collect();
        if small.len() < INDEX_MERGED_MIN {
            return Ok(());
        }
        let mut number = 0..;
        let (merged, mut kept): (Vec<_>, Vec<_>) = before
            .segments
            .into_iter()
            .partition(|_| number.next().is_some_and(|n| small.contains(&n)));
        // A damaged one is dropped: its messages are added again.
        let mut parts = Vec::new();
        for entry in &merged {
            parts.extend(self.whole_segment(entry)?);
        }
        kept.extend(self.merged(&parts, coverage)?);
        let manifest = Manifest { uidvalidity: before.uidvalidity, segments: kept };
        self.replace_manifest(&manifest, &merged)
    }

    /// Opens a segment; `None` if it is damaged.
    fn whole_segment<'e>(&self, entry: &'e SegmentEntry) -> Result<Option<SmallSegment<'e>>> {
        let path = self.place.segment_path(entry.name);
        let open = || {
            let segment = Segment::open(&*self.place.vfs, &path)?;
            let Some(segment) = segment else { return Ok(None) };
            let docs = if segment.is_whole()? { segment.docs()? } else { None };
            let docs = docs.filter(|docs| docs.len() == entry.uids.len());
            Ok(docs.map(|docs| SmallSegment { uids: &entry.uids, segment, docs }))
        };
        open().map_err(|error| index_error(&path, error))
    }

    /// Writes one segment of several; `None` if nothing of them is left.
    fn merged(
        &self,
        small: &[SmallSegment<'_>],
        coverage: &Coverage,
    ) -> Result<Option<SegmentEntry>> {
        let is_there = |uid: u32, digest: u64| {
            let row = coverage.rows.binary_search_by_key(&uid, |identity| identity.uid);
            row.is_ok_and(|row| coverage.rows[row].digest == digest)
        };
        // The texts of attachments are those of the newest reader.
        let mut readers = small.iter().map(|small| small.segment.reader());
        let reader = readers.rfind(|reader| *reader != 0).unwrap_or_default();
        // The documents of all that are not expunged, in the order of their UIDs; of a message
        // those with texts of attachments first.
        let mut all = Vec::new();
        for (part, SmallSegment { uids, docs, segment }) in small.iter().enumerate() {
            let there = uids.iter().zip(docs).zip(0..);
            let there = there.filter(|((uid, doc), _)| is_there(**uid, doc.digest));
            all.extend(there.map(|((uid, doc), at)| {
                let doc = with_reader(doc, segment, reader);
                let is_without = doc.attachments == AttachmentTexts::Missing;
                (*uid, is_without, part, at, doc)
            }));
        }
        all.sort_unstable_by_key(|(uid, is_without, part, at, _)| (*uid, *is_without, *part, *at));
        all.dedup_by_key(|(uid, ..)| *uid);
        let unnumbered = |small: &SmallSegment<'_>| vec![None; small.docs.len()];
        let mut numbers: Vec<Vec<Option<u32>>> = small.iter().map(unnumbered).collect();
        let mut docs: Vec<Doc> = Vec::with_capacity(all.len());
        for ((_, _, part, at, doc), new) in all.iter().zip(0..) {
            numbers[*part][*at] = Some(new);
            docs.push(*doc);
        }
        if docs.is_empty() {
            return Ok(None);
        }
        let parts = small.iter().zip(numbers);
        let parts = parts.map(|(small, docs)| Merged { segment: &small.segment, docs });
        let parts: Vec<Merged<'_>> = parts.collect();
        let uids = all.iter().map(|(uid, ..)| *uid).collect();
        let entry = SegmentEntry { name: self.place.new_segment()?, uids };
        let path = self.place.segment_path(entry.name);
        let written = merge(&*self.place.vfs, &path, &parts, &docs, reader);
        Ok(written.map_err(|error| index_error(&path, error))?.map(|()| entry))
    }
}

/// A segment that is merged.
struct SmallSegment<'e> {
    uids: &'e [u32],
    segment: Segment,
    docs: Vec<Doc>,
}

/// Returns a document of a segment as one of a segment of another reader of attachments: the texts
/// that were read by another are among its terms, and do not count.
fn with_reader(doc: &Doc, segment: &Segment, reader: u32) -> Doc {
    let attachments = match doc.attachments {
        AttachmentTexts::There { .. } if segment.reader() != reader => AttachmentTexts::Missing,
        attachments => attachments,
    };
    Doc { attachments, ..*doc }
}

/// Gives documents without a message the UID of the one before them: it is covered once, by the
/// document that is it.
fn make_ascending(uids: &mut [u32]) {
    let mut last = 0;
    for uid in uids {
        *uid = (*uid).max(last);
        last = *uid;
    }
}
