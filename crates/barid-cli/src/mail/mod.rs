//! Messages as input and as lines.

pub(crate) mod address;
pub(crate) mod csv;
pub(crate) mod extraction;
pub(crate) mod flags;
pub(crate) mod json;
pub(crate) mod line;
pub(crate) mod link_folder;
pub(crate) mod links;
pub(crate) mod listing;
pub(crate) mod mailboxes;
pub(crate) mod named;
pub(crate) mod numbering;
pub(crate) mod order;
pub(crate) mod pieces;
pub(crate) mod query;
pub(crate) mod ranking;
pub(crate) mod save_folder;
pub(crate) mod selection;
pub(crate) mod standard_input;
pub(crate) mod state_file;
pub(crate) mod uids;
