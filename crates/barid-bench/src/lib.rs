//! The benchmark lab of the program `barid-bench`: workloads, a thin adapter for each measured
//! system, figures from the kernel's accounting of their processes, and reports.
//!
//! [`open`] measures opening mailboxes, [`hcache`] header caches, [`mbox`] rewriting a large mbox,
//! [`formats`] opening, fetching, threading, searching and converting in each format, [`spam`] spam
//! filters, [`imap`] the IMAP server, [`search`] searching texts. All sides of a comparison must
//! give the same answer before anything is timed, they run in turn on the same mail, and every run
//! is kept. [`report`] makes one page of all kept runs. Code that the benches share is in `lab`,
//! the programs that several of them measure in `systems`.
//!
//! The library does not use the terminal or the environment: output goes to a [`Screen`]. The
//! program does, in `cli`.

pub mod formats;
pub mod hcache;
pub mod imap;
mod lab;
pub mod limits;
pub mod mbox;
pub mod open;
pub mod report;
pub mod search;
pub mod spam;
mod systems;

pub use lab::{Figures, Launched, Launcher, Ratio, Report, Run, Screen, Spread, launched};
