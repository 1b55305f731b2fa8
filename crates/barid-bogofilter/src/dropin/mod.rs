//! The work of bogofilter: its settings, its scores, its header, its registrations.
//!
//! Unlike `barid spam`, this module uses every message as it comes, with the From_ line and all
//! fields, and counts it each time it is registered: the word list is the one that bogofilter
//! would have written. A [`Judge`] scores messages and formats verdicts; a [`BogofilterRun`] does
//! all that one run of bogofilter does, message for message. Neither reads the environment or
//! writes output: they return it, so that a program and a daemon produce the same
//! (`docs/design/dropin.md`).

mod ahead;
mod error;
mod format;
mod judge;
mod lists;
mod messages;
mod pass;
mod printf;
mod session;
mod settings;
mod util;

pub use ahead::{Ahead, ReadMessage, Reading};
pub use error::{Error, Result};
pub use judge::{Judge, Verdict};
pub use lists::{ListSpec, Listed, Lists, Opening};
pub use messages::{Messages, Separation};
pub use session::{BogofilterRun, Reply};
pub use settings::{Formats, Quirks, Registration, Settings};
pub use util::{WordTable, histogram};
