//! The spam filter over mailboxes: training it with messages, and classifying others.
//!
//! As many threads as there are cores read and tokenize messages; results come in order. The counts
//! of a training are summed up and written together with a receipt for every message, so that no
//! message counts twice and a training is reverted exactly (`docs/design/spam.md`).

mod canonical;
mod classify;
mod concurrent;
mod error;
mod filter;
mod limits;
mod moving;
mod saved;
mod scores;
mod source;
mod training;
mod tune;
mod worker;

pub use barid_bayes as bayes;
pub use barid_wordlist as wordlist;

pub use canonical::canonical_text;
pub use classify::{Classified, Explained, ExplainedToken, OnClassified};
pub use concurrent::ConcurrentFilter;
pub use error::{Error, Result};
pub use filter::{Filter, SpamOptions};
pub use moving::MovedSpam;
pub use saved::{SavedParameters, bogofilter_config};
pub use scores::ScoreOrigins;
pub use source::{At, Source};
pub use training::{Became, OnTrainingOutcome, Trained, Trainer, TrainingKind};
pub use tune::{Errors, OnSampleTaken, Point, Samples, Taken, Trialed, TuneOptions, Tuned};
