//! The commands, one file each: the arguments (`Args`) and the function (`run`).

pub(crate) mod admin;
pub(crate) mod attachments;
pub(crate) mod bogo;
pub(crate) mod cache;
pub(crate) mod change;
pub(crate) mod check;
mod check_config;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod convert;
pub(crate) mod count;
pub(crate) mod deliver;
pub(crate) mod demo;
pub(crate) mod extract_text;
pub(crate) mod fetch;
pub(crate) mod folders;
pub(crate) mod index;
pub(crate) mod lmtp;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod spam;
pub(crate) mod status;
pub(crate) mod thread;
pub(crate) mod watch;
