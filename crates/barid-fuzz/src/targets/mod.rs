//! The targets, by what they read.

pub(crate) mod auth;
pub(crate) mod cache;
pub(crate) mod extract;
pub(crate) mod folders;
pub(crate) mod imap;
pub(crate) mod lmtp;
pub(crate) mod mailbox;
pub(crate) mod message;
pub(crate) mod query;
pub(crate) mod serve;
pub(crate) mod spam;
pub(crate) mod state;
