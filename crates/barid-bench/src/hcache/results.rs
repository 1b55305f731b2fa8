//! All runs, and queries over them.

use super::key::{Key, System, Work};
use super::plan::Cell;
use crate::lab::{self, Figures, Measured, Ratio, Spread};

/// A run of one setup at one operation in one round.
pub type Run = lab::Run<Key, Work>;

/// A column of the table of ratios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Real time of populating.
    Populate,
    /// Real time of reading every record.
    Reload,
    /// Real time of the newest page, compared with NeoMutt reading every record: NeoMutt has no
    /// pages.
    Page,
    /// Bytes on the disk after reloading.
    Size,
    /// The peak of resident memory over all operations, including runs that are not timed.
    Resident,
    /// The peak of anonymous memory over all operations.
    Anonymous,
}

impl Column {
    /// All columns, in the order of the table.
    pub(crate) const ALL: [Self; 6] =
        [Self::Populate, Self::Reload, Self::Page, Self::Size, Self::Resident, Self::Anonymous];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Populate => "populate",
            Self::Reload => "reload",
            Self::Page => "page",
            Self::Size => "size",
            Self::Resident => "resident",
            Self::Anonymous => "anonymous",
        }
    }
}

/// Everything measured so far.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Number of messages that both systems see.
    pub messages: u64,
    /// The runs in the order in which they were made.
    pub runs: Vec<Run>,
}

impl Results {
    /// Returns the runs of one setup at one operation.
    pub(crate) fn of(&self, key: &Key, work: Work) -> Measured<'_> {
        Measured::of(&self.runs, key, work)
    }

    /// Returns the values that a column compares.
    pub(crate) fn column(&self, key: &Key, column: Column) -> Vec<f64> {
        let real = |figures: &Figures| figures.real_s;
        let size = |figures: &Figures| figures.index_bytes as f64;
        let page = if key.system == System::Barid { Work::Page } else { Work::Reload };
        let own = || self.runs.iter().filter(|run| run.side == *key);
        let most = |peak: &dyn Fn(&Run) -> Option<u64>| {
            own().filter_map(peak).max().map(|bytes| bytes as f64).into_iter().collect()
        };
        match column {
            Column::Populate => self.of(key, Work::Populate).values(real),
            Column::Reload => self.of(key, Work::Reload).values(real),
            Column::Page => self.of(key, page).values(real),
            Column::Size => self.of(key, Work::Reload).values(size),
            Column::Resident => most(&|run| Some(run.figures.maxrss_bytes)),
            Column::Anonymous => most(&|run| run.figures.anon_bytes),
        }
    }

    /// Returns the ratio of a setup to its counterpart, or to the best of several.
    pub(crate) fn ratio(&self, cell: &Cell, column: Column) -> Option<Ratio> {
        let median = |values: &Vec<f64>| Spread::of(values.iter().copied()).map(|s| s.median);
        let theirs = cell.compared_with.iter().map(|key| self.column(key, column));
        let theirs = theirs.filter_map(|values| Some((median(&values)?, values)));
        let (_, best) = theirs.min_by(|one, other| one.0.total_cmp(&other.0))?;
        Ratio::of(&self.column(&cell.key, column), &best)
    }
}
