//! Keeping an index small: segments that are gone, expunged messages, many small segments.

use std::collections::HashSet;
use std::path::PathBuf;

use barid_index::{Doc, Manifest, Merged, Segment, SegmentEntry, merge};

use super::build::{new_name, write};
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
        for segment in &mut self.segments {
            segment.take_if(|segment| !segment.is_whole().unwrap_or_default());
        }
    }
}

impl View {
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
        let mut keep = covers.iter();
        segments.retain(|_| keep.next().copied().unwrap_or_default());
        let manifest = Manifest { uidvalidity: self.uidvalidity(), segments };
        if manifest != opened.manifest {
            let place = &self.place;
            write(&place.manifest_path(), |path| manifest.store(&*place.vfs, path))?;
        }
        self.remove_unlisted(&manifest);
        Ok(manifest)
    }

    /// Removes the files of segments that are not listed: those that are no longer, and those of a
    /// process that ended before it listed them. A reader that has an older list reads the messages
    /// instead.
    fn remove_unlisted(&self, manifest: &Manifest) {
        let listed: HashSet<PathBuf> =
            manifest.segments.iter().map(|entry| self.place.segment_path(entry.name)).collect();
        // What cannot be removed now is removed the next time.
        let Ok(found) = self.place.segment_files() else { return };
        for path in found.iter().filter(|path| !listed.contains(*path)) {
            let _ = self.place.vfs.remove_file(path);
        }
    }

    /// Merges small segments into one if there are many.
    pub(super) fn merge_segments(&self, manifest: Manifest, coverage: &Coverage) -> Result<()> {
        let path = self.place.manifest_path();
        let open = |entry: &SegmentEntry| {
            let opened = Segment::open(&*self.place.vfs, &self.place.segment_path(entry.name));
            opened.map_err(|error| index_error(&path, error))
        };
        if manifest.segments.len() <= INDEX_SMALL_SEGMENTS_MAX {
            return Ok(());
        }
        let mut small = Vec::new();
        for (at, entry) in manifest.segments.iter().enumerate() {
            let segment = open(entry)?.filter(|segment| {
                segment.bytes() <= INDEX_MERGED_BYTES_MAX
                    && segment.len() as usize == entry.uids.len()
            });
            small.extend(segment.map(|segment| (at, segment)));
        }
        // The smallest ones first, as many as fit.
        small.sort_by_key(|(_, segment)| segment.bytes());
        let mut bytes = 0;
        small.retain(|(_, segment)| {
            bytes += segment.bytes();
            bytes <= INDEX_MERGED_BYTES_MAX
        });
        match small.len() >= INDEX_MERGED_MIN {
            true => self.merge_these(manifest, &small, coverage),
            false => Ok(()),
        }
    }

    fn merge_these(
        &self,
        before: Manifest,
        small: &[(usize, Segment)],
        coverage: &Coverage,
    ) -> Result<()> {
        let place = &self.place;
        let is_there = |uid: u32, digest: u64| {
            let row = coverage.rows.binary_search_by_key(&uid, |identity| identity.uid);
            row.is_ok_and(|row| coverage.rows[row].digest == digest)
        };
        // The documents of all that are not expunged, in the order of their UIDs.
        let mut all = Vec::new();
        let mut known = Vec::new();
        for (part, (at, segment)) in small.iter().enumerate() {
            let path = place.segment_path(before.segments[*at].name);
            let docs = segment.docs().map_err(|error| index_error(&path, error))?;
            let Some(docs) = docs else { return Ok(()) };
            let uids = &before.segments[*at].uids;
            let there = uids.iter().zip(&docs).zip(0..);
            let there = there.filter(|((uid, doc), _)| is_there(**uid, doc.digest));
            all.extend(there.map(|((uid, _), doc)| (*uid, part, doc)));
            known.push(docs);
        }
        all.sort_unstable();
        all.dedup_by_key(|(uid, _, _)| *uid);
        let mut parts: Vec<Merged<'_>> = small
            .iter()
            .map(|(_, segment)| Merged { segment, docs: vec![None; segment.len() as usize] })
            .collect();
        let mut docs: Vec<Doc> = Vec::with_capacity(all.len());
        for ((_, part, doc), new) in all.iter().zip(0..) {
            parts[*part].docs[*doc] = Some(new);
            docs.push(known[*part][*doc]);
        }
        let uids = all.iter().map(|(uid, _, _)| *uid).collect();
        let entry = SegmentEntry { name: new_name(), uids };
        let path = place.segment_path(entry.name);
        let merged = merge(&*place.vfs, &path, &parts, &docs);
        if merged.map_err(|error| index_error(&path, error))?.is_none() {
            return Ok(());
        }
        let mut manifest = before.clone();
        let mut at = 0;
        manifest.segments.retain(|_| {
            at += 1;
            !small.iter().any(|(small, _)| *small == at - 1)
        });
        manifest.segments.push(entry);
        write(&place.manifest_path(), |path| manifest.store(&*place.vfs, path))?;
        self.remove_unlisted(&manifest);
        Ok(())
    }
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
