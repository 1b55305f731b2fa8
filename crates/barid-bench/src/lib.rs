//! The benchmark lab behind `barid bench`: workloads, a thin adapter for each system that is
//! measured, figures from the kernel's accounting of their processes, and reports.
//!
//! [`hcache`] compares header caches, [`mbox`] what rewriting a large mbox costs, [`formats`] what
//! opening, fetching, threading, searching and converting cost in each format, [`spam`] spam
//! filters. All sides of a comparison must give the same answer before anything is timed, they run
//! in turn on the same mail, and every run is kept.
//!
//! Nothing here looks at the terminal or the environment: what is said goes to a [`Screen`].

mod accounting;
mod chart;
pub mod formats;
pub mod hcache;
mod launcher;
pub mod limits;
mod machine;
pub mod mbox;
mod run;
mod screen;
pub mod spam;
mod stats;
mod table;

pub use accounting::Figures;
pub use launcher::{Launched, Launcher, launched};
pub use screen::Screen;
pub use stats::{Ratio, Spread};
