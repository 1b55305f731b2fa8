//! The UIDVALIDITY of UIDs on the command line.

use barid::Mailbox;
use clap::Args;

use crate::exit::WithHint;

/// The option for the expected UIDVALIDITY.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct NumberingArgs {
    /// Refuse UIDs unless the mailbox has the UIDVALIDITY N, as `barid status` prints it. Needed
    /// if the messages have new UIDs because the file that stored them was damaged
    #[arg(long, value_name = "N")]
    uidvalidity: Option<u32>,
}

impl NumberingArgs {
    /// Returns `true` if the option was given.
    pub(crate) fn is_given(&self) -> bool {
        self.uidvalidity.is_some()
    }

    /// Checks that UIDs on the command line, if there are any, refer to the intended messages.
    ///
    /// # Errors
    ///
    /// Returns an error if the mailbox has a different UIDVALIDITY than the given one, or if its
    /// messages were renumbered and nobody has acknowledged that.
    pub(crate) fn check(&self, mailbox: &Mailbox, names_uids: bool) -> anyhow::Result<()> {
        let (path, has) = (mailbox.path().display(), mailbox.status().uidvalidity);
        match self.uidvalidity {
            Some(wanted) if wanted != has.get() => Err(WithHint::error(
                format!("{path}: the UIDVALIDITY is {has}, not {wanted}: nothing is changed"),
                "its UIDs refer to other messages: `barid ls` lists them",
            )),
            None if names_uids && mailbox.is_renumbered() => Err(WithHint::error(
                format!(
                    "{path}: its messages have new UIDs, since the file that stored the old ones \
                     was damaged: nothing is changed"
                ),
                format!(
                    "`barid ls` lists them; --uidvalidity {has} confirms that the given UIDs are \
                     the new ones, and `barid check --repair` confirms it for all commands"
                ),
            )),
            _ => Ok(()),
        }
    }
}
