//! Code shared by all benches: runs programs in small processes, collects the figures, and writes
//! the reports.

mod bars;
mod details;
mod figures;
mod folder;
mod launcher;
mod machine;
mod mail;
mod page;
mod progress;
mod report;
mod runner;
mod runs;
mod screen;
mod stats;
mod stop;
mod table;
mod text;

pub(crate) use bars::{Bar, bars};
pub(crate) use details::{CSV_HEAD, Column, Spreads, csv, details, megabytes, optional};
pub use figures::Figures;
pub(crate) use folder::{
    Litter, drop_caches, ensure_room, fresh_folder, make_folder, read_all, settle,
};
pub(crate) use launcher::read as read_launched;
pub use launcher::{Launched, Launcher, launched};
pub(crate) use machine::Machine;
pub(crate) use mail::{BARE, has_from, without_from};
pub(crate) use page::{Facts, Page};
pub(crate) use progress::Progress;
pub use report::Report;
pub(crate) use report::{LINES_VERSION, Reported, Section, json_lines, measured_lines, save};
pub(crate) use runner::{CCLIENT, Runner, dovecot, failure, sampling, version, with_libraries};
pub use runs::Run;
pub(crate) use runs::{Measured, fastest, measured};
pub use screen::Screen;
pub use stats::{Ratio, Spread};
pub(crate) use stop::{is_interrupted, stoppable};
pub(crate) use table::Table;
pub(crate) use text::{command_line, counted, grouped, quoted, short};
