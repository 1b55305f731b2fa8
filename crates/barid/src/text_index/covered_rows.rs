//! The rows of a view that an index covers, kept beside the index.
//!
//! The rows of documents depend on the columns of the header cache and on the manifest alone. So
//! the first search keeps them in a file, and later ones read the identities of messages only for
//! those of the log.

use barid_index::{Answer, DocRows, DocRun};
use barid_query::search::KnownRows;
use xxhash_rust::xxh3::Xxh3;

use super::coverage::{Coverage, RowIdentity, docs_of};
use super::place::OpenSegments;
use crate::{Result, View};

/// The rows that an index covers.
#[derive(Default)]
pub(super) struct CoveredRows(DocRows);

impl CoveredRows {
    /// Returns the rows that were kept, and those that the log of the cache has added; `None` if
    /// none were kept of this file and this manifest.
    pub(super) fn kept(view: &View, opened: &OpenSegments) -> Result<Option<Self>> {
        let Some(source) = source_of(view, opened) else { return Ok(None) };
        let loaded = DocRows::load(&*view.vfs, &view.place.rows_path(), source);
        let Ok(Some(kept)) = loaded else { return Ok(None) };
        let mut rows = Self(rows_of_physical(view, opened, &kept));
        rows.add_log(view, opened)?;
        Ok(Some(rows))
    }

    /// Returns the rows of a coverage.
    pub(super) fn of(coverage: &Coverage) -> Self {
        let mut rows = Self::default();
        rows.add(coverage, 0..);
        rows
    }

    /// Writes those rows of a coverage that are in the columns, if all segments could be read. The
    /// next search computes them again if they cannot be written.
    pub(super) fn keep(view: &View, opened: &OpenSegments, coverage: &Coverage) {
        let is_whole = (0..opened.segments.len()).all(|number| opened.segment(number).is_some());
        if let Some(source) = source_of(view, opened)
            && is_whole
            && coverage.are_docs_whole
        {
            let physical = view.snapshot.physical_rows(0);
            let mut rows = Self::default();
            rows.add(coverage, physical.take_while(|row| *row < view.snapshot.base_len()));
            let _ = rows.0.store(&*view.vfs, &view.place.rows_path(), source);
        }
    }

    /// Adds the rows of the log of the cache.
    fn add_log(&mut self, view: &View, opened: &OpenSegments) -> Result<()> {
        let first = view.snapshot.row_from_physical(view.snapshot.base_len());
        let rows = RowIdentity::of_rows(view, first..view.len())?;
        let Some(least) = rows.first().map(|row| row.uid) else { return Ok(()) };
        let docs =
            opened.manifest.segments.iter().enumerate().map(|(number, segment)| {
                match segment.uids.last().is_some_and(|last| *last >= least) {
                    true => docs_of(opened, number),
                    false => Ok(Vec::new()),
                }
            });
        let docs = docs.collect();
        let coverage = Coverage::new(view, opened, rows, docs);
        self.add(&coverage, first..);
        Ok(())
    }

    /// Adds the covered rows of a coverage under these numbers.
    fn add(&mut self, coverage: &Coverage, numbers: impl Iterator<Item = u32>) {
        for (row, doc) in numbers.zip(coverage.docs()) {
            if let Some(doc) = doc {
                self.0.push(row, (doc.segment, doc.doc), doc.is_open);
            }
        }
    }

    /// Returns the number of rows.
    pub(super) fn count(&self) -> u32 {
        self.0.count()
    }

    /// Translates the answers of all segments for a text into rows, of which there are `len`.
    pub(super) fn known(&self, len: u32, found: &[Option<Answer>], is_exact: bool) -> KnownRows {
        let mut known = KnownRows::nothing(len);
        for DocRun { row, segment, doc, len } in self.0.runs.iter().copied() {
            let Some(Some(answer)) = found.get(segment as usize) else { continue };
            if is_exact {
                known.yes.add_range(row, &answer.certain, doc, len);
            }
            known.no.add_range_without(row, &answer.possible, doc, len);
        }
        self.0.open.iter().for_each(|row| known.no.remove(*row));
        known
    }
}

/// Returns a digest of all that the documents of the rows of the columns depend on; `None` if they
/// are not kept: after a renumbering, and while the log changes the lengths of messages.
fn source_of(view: &View, opened: &OpenSegments) -> Option<u64> {
    let (snapshot, manifest) = (&view.snapshot, &opened.manifest);
    let uidvalidity = snapshot.meta().uidvalidity.get();
    if manifest.uidvalidity != uidvalidity {
        return None;
    }
    let mut hasher = Xxh3::new();
    hasher.update(&snapshot.columns_generation()?.to_le_bytes());
    [snapshot.base_len(), uidvalidity].iter().for_each(|n| hasher.update(&n.to_le_bytes()));
    manifest.segments.iter().for_each(|segment| hasher.update(&segment.name.to_le_bytes()));
    Some(hasher.digest())
}

/// Returns rows for physical ones, without those that are expunged, and without those whose
/// segment cannot be read now.
fn rows_of_physical(view: &View, opened: &OpenSegments, physical: &DocRows) -> DocRows {
    let mut rows = DocRows::default();
    let mut gone = view.snapshot.expunged_rows();
    for run in &physical.runs {
        let docs = opened.segment(run.segment as usize).map_or(0, |segment| segment.len());
        if run.end() > view.snapshot.base_len() || run.doc.saturating_add(run.len) > docs {
            continue;
        }
        let mut at = run.row;
        while at < run.end() {
            gone = &gone[gone.partition_point(|gone| *gone < at)..];
            let end = gone.first().map_or(run.end(), |gone| run.end().min(*gone));
            if at < end {
                let row = view.snapshot.row_from_physical(at);
                let doc = run.doc + (at - run.row);
                rows.runs.push(DocRun { row, segment: run.segment, doc, len: end - at });
            }
            at = end + 1;
        }
    }
    let open = physical.open.iter().filter_map(|row| view.snapshot.row_of_physical(*row));
    rows.open.extend(open);
    rows
}
