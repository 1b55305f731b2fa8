//! The mail of a user as the sessions of `barid-imap` see it.

mod account;
mod append;
mod binary;
mod catenate;
mod copy;
mod follow;
mod indexing;
mod names;
mod progress;
mod quota;
mod recent;
mod refusal;
mod selected;
mod status;
mod streams;
#[cfg(test)]
mod tests;
mod user;
mod view;

pub use self::account::SessionAccount;
pub(crate) use self::progress::UserProgress;
pub use self::selected::ServedMailbox;
pub use self::user::{UserMail, UserOptions};
pub use self::view::ServedView;

/// Creates a session of a user without mail.
#[cfg(test)]
pub(crate) fn test_session(
    settings: barid_imap::session::SessionSettings,
) -> barid_imap::session::Session<SessionAccount> {
    tests::TestUser::new(crate::quota::Quota::default()).session(settings)
}
