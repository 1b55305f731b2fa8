//! A world that crashes.

#[expect(dead_code, reason = "the crash world that reads the log comes next")]
mod log;

pub(crate) use log::Op;
