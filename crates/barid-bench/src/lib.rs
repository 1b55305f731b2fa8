//! The benchmark lab behind `barid bench`: workloads, a thin adapter for each system that is
//! measured, figures from the kernel's accounting of their processes, and reports.
//!
//! [`hcache`] compares header caches, [`mbox`] what rewriting a large mbox costs, [`formats`] what
//! opening, fetching, threading, searching and converting cost in each format, [`spam`] spam
//! filters. All sides of a comparison must give the same answer before anything is timed, they run
//! in turn on the same mail, and every run is kept. What the benches share is in `lab`.
//!
//! Nothing here looks at the terminal or the environment: what is said goes to a [`Screen`].

pub mod formats;
pub mod hcache;
mod lab;
pub mod limits;
pub mod mbox;
pub mod spam;

pub use lab::{Figures, Launched, Launcher, Ratio, Report, Run, Screen, Spread, launched};
