//! The mail of a user as the sessions of `barid-imap` see it.

mod account;
mod append;
mod binary;
mod catenate;
mod copy;
mod recent;
mod refusal;
mod selected;
mod status;
mod streams;
mod user;
mod view;

pub use self::account::SessionAccount;
pub use self::selected::ServedMailbox;
pub use self::user::{UserMail, UserOptions};
pub use self::view::ServedView;
