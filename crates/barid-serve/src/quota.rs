//! The quota of a user: how much mail there is, and the rule for what may be added
//! (`docs/design/quota.md`).

use std::collections::HashSet;
use std::ops::Add;
use std::sync::Arc;

use barid::vfs::Vfs;
use barid::{MailboxFigures, MailboxSpec, OpenOptions, figures_at_rest};
use barid_folders::FolderTree;
use barid_imap::command::{ListCommand, MailboxName};

/// Limits of the mail of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of all messages.
    pub size: Option<u64>,
    /// Number of messages.
    pub messages: Option<u64>,
}

impl Quota {
    /// Returns `true` if nothing is limited.
    #[must_use]
    pub fn is_unlimited(self) -> bool {
        self == Self::default()
    }

    /// Returns `true` if `more` may be added to the mail that is there.
    pub(crate) fn allows(self, used: MailUse, more: MailUse) -> bool {
        let after = used + more;
        more == MailUse::default()
            || self.size.is_none_or(|most| after.size <= most)
                && self.messages.is_none_or(|most| after.messages <= most)
    }
}

/// Amount of mail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MailUse {
    /// Bytes.
    pub(crate) size: u64,
    /// Number of messages.
    pub(crate) messages: u64,
}

impl Add for MailUse {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self {
            size: self.size.saturating_add(more.size),
            messages: self.messages.saturating_add(more.messages),
        }
    }
}

/// Opens a mailbox that has changed, and returns its figures.
pub(crate) type CountChanged<'a> = &'a mut dyn FnMut(&MailboxSpec) -> Option<MailboxFigures>;

/// Counts the mail of a user as it is now, changes of other programs included.
///
/// Costs some system calls for each mailbox, whatever its size; only a mailbox that has changed
/// since its cache was written is opened, by `count_changed`. A mailbox that cannot be opened does
/// not count: it must not keep mail away from the others.
///
/// # Errors
/// Errors of the file system while the tree is listed.
pub(crate) fn count(
    vfs: &Arc<dyn Vfs>,
    folders: &FolderTree,
    options: &OpenOptions,
    count_changed: CountChanged<'_>,
) -> Result<MailUse, barid_folders::Error> {
    let all = ListCommand { patterns: vec!["*".to_owned()], ..ListCommand::default() };
    let mut used = MailUse::default();
    // A link gives a mailbox a second name.
    let mut counted = HashSet::new();
    for listed in folders.list(&all)?.iter().filter(|listed| listed.is_selectable) {
        let Ok(spec) = folders.spec_of(&MailboxName::from(listed.name.as_str())) else { continue };
        let at_rest = figures_at_rest(vfs, &spec, options).ok().flatten();
        let Some(figures) = at_rest.or_else(|| count_changed(&spec)) else { continue };
        if counted.insert(figures.id) {
            let messages = figures.messages.into();
            used = used + MailUse { size: figures.size_bytes, messages };
        }
    }
    Ok(used)
}
