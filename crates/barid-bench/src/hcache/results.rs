//! Every run, and what is asked of them.

use super::key::{Key, System, Work};
use super::plan::Cell;
use crate::lab::{self, Figures, Measured, Ratio, Spread};

/// One setup at one work in one round.
pub type Run = lab::Run<Key, Work>;

/// A column of the table of ratios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Real time of populating.
    Populate,
    /// Real time of reading every record.
    Reload,
    /// Real time of the newest page, to NeoMutt's of reading every record: it knows no other.
    Page,
    /// Bytes on the disk, with all that reloading added.
    Size,
    /// The peak of resident memory in any of the works, also of the runs that are not timed.
    Resident,
    /// The peak of anonymous memory in any of the works.
    Anonymous,
}

impl Column {
    /// All of them, as they stand in the table.
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

/// Everything that was measured so far.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// How many messages both systems see.
    pub messages: u64,
    /// In the order in which they were made.
    pub runs: Vec<Run>,
}

impl Results {
    /// What was measured of one setup at one work.
    pub(crate) fn of(&self, key: &Key, work: Work) -> Measured<'_> {
        Measured::of(&self.runs, key, work)
    }

    /// What is compared in a column.
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

    /// How a setup stands to what it is compared with; to the best of them, where there are many.
    pub(crate) fn ratio(&self, cell: &Cell, column: Column) -> Option<Ratio> {
        let median = |values: &Vec<f64>| Spread::of(values.iter().copied()).map(|s| s.median);
        let theirs = cell.compared_with.iter().map(|key| self.column(key, column));
        let theirs = theirs.filter_map(|values| Some((median(&values)?, values)));
        let (_, best) = theirs.min_by(|one, other| one.0.total_cmp(&other.0))?;
        Ratio::of(&self.column(&cell.key, column), &best)
    }
}
