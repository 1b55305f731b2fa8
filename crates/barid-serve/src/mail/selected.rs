//! A mailbox that a session has selected.

use std::sync::Arc;

use barid::{
    Cancel, ChangeOptions, ChangeRequest, Flag, FlagChange, FlagChanges, KeepExpunged, KeepLimits,
    Keyword, SharedMailbox, Uid, UidSet, UidValidity, View, WriteWhen,
};
use barid_imap::backend::{Answer, Copied, Mailbox, Refusal, StoreRequest, Stored};
use barid_imap::command::{MailboxName, StoreHow};

use super::copy;
use super::recent::ClaimedRecent;
use super::refusal::refused;
use super::user::{UserMail, mailbox_id};
use super::view::{ServedView, complement};

/// A mailbox that a session has selected.
pub struct ServedMailbox {
    pub(crate) user: Arc<UserMail>,
    pub(crate) shared: SharedMailbox,
    pub(crate) name: MailboxName,
    pub(crate) read_only: bool,
    pub(crate) cancel: Cancel,
    /// The claims of \Recent; for as long as this is held, the mailbox counts as selected.
    pub(crate) claimed: Arc<ClaimedRecent>,
    /// `true` if messages with \Recent were claimed before they could be renamed, so that they are
    /// not recent for another session later: they were only listed.
    pub(crate) must_rename: bool,
    /// Messages that were claimed when those were renamed.
    pub(crate) late_recent: UidSet,
    /// The UIDVALIDITY under which the client's UIDs are valid.
    pub(crate) uidvalidity: UidValidity,
}

/// Options of the changes that a server makes: an expunge never fails because it cannot be undone.
fn change_options() -> ChangeOptions {
    ChangeOptions {
        write: WriteWhen::Pending,
        keep_expunged: KeepExpunged::WherePossible(KeepLimits::default()),
        ..ChangeOptions::default()
    }
}

impl ServedMailbox {
    /// Returns the mailbox that all sessions share.
    pub fn shared(&self) -> &SharedMailbox {
        &self.shared
    }

    fn served(&self, view: View) -> ServedView {
        ServedView { view, indexing: Arc::clone(&self.user.indexing) }
    }

    /// Fails if the name means another mailbox now, or none.
    fn check_name(&self) -> Answer<()> {
        self.user.check_same(&self.name, &self.shared)
    }

    /// Returns the view that a refresh has found.
    fn found(&mut self, view: barid::Result<View>) -> Answer<ServedView> {
        match view {
            Ok(view) if self.must_rename && !view.is_listed() => {
                // What cannot be renamed now is recent for another session later.
                let late = self.rename_recent().unwrap_or_default();
                self.late_recent.insert_all(&late);
                Ok(self.view())
            }
            Ok(view) => Ok(self.served(view)),
            Err(error) => {
                self.check_name()?;
                Err(refused(error))
            }
        }
    }

    /// Claims the messages with \Recent, and renames them so that no program takes them for recent
    /// any more.
    fn rename_recent(&mut self) -> Answer<UidSet> {
        self.must_rename = false;
        self.update(|mailbox, options| drop_recent(&self.claimed, mailbox, options))
    }

    fn remove_with(&self, uids: &[Uid], keep_expunged: KeepExpunged) -> Answer<()> {
        self.update(|mailbox, options| {
            let request = ChangeRequest { expunge: uids.to_vec(), ..ChangeRequest::default() };
            let options = ChangeOptions { keep_expunged, ..options.clone() };
            mailbox.change(&request, &options)?;
            Ok(())
        })
    }

    fn update<T>(
        &self,
        work: impl FnOnce(&mut barid::Mailbox, &ChangeOptions) -> barid::Result<T>,
    ) -> Answer<T> {
        let update = self.shared.update(&self.cancel, |mailbox, stop| {
            let options = ChangeOptions { stop: Some(Arc::clone(stop)), ..change_options() };
            mailbox.refresh()?;
            // The client's UIDs may mean other messages now.
            if mailbox.status().uidvalidity != self.uidvalidity {
                return Err(barid::Error::Renumbered { path: mailbox.path().to_owned() });
            }
            work(mailbox, &options)
        });
        update.map_err(refused)
    }
}

impl Mailbox for ServedMailbox {
    type View = ServedView;

    fn view(&self) -> ServedView {
        self.served(self.shared.view())
    }

    fn refresh(&mut self) -> Answer<ServedView> {
        let view = self.shared.refresh_listed(&self.cancel);
        self.found(view)
    }

    fn read_listed(&mut self) -> Answer<ServedView> {
        let view = self.shared.view();
        let view = if view.is_listed() { self.shared.refresh(&self.cancel) } else { Ok(view) };
        self.found(view)
    }

    fn id(&self) -> String {
        mailbox_id(&self.shared)
    }

    fn is_read_only(&self) -> bool {
        self.read_only || !self.shared.view().caps().flags
    }

    fn takes_keywords(&self) -> bool {
        let view = self.shared.view();
        (view.keywords().names().len() as u32) < view.caps().keywords_max
    }

    fn recent(&mut self) -> Answer<UidSet> {
        let mut recent = self.claimed.of_view(&self.shared.view(), false).map_err(refused)?;
        recent.insert_all(&std::mem::take(&mut self.late_recent));
        Ok(recent)
    }

    fn claim_recent(&mut self) -> Answer<UidSet> {
        let claimed = &self.claimed;
        let view = self.shared.view();
        // Only a rename in a Maildir is cheap enough to be done at once.
        let has_recent = view.view_status().recent > 0 && !view.caps().delays;
        let mut recent = match has_recent && !view.is_listed() {
            true => self.rename_recent()?,
            false => {
                self.must_rename |= has_recent;
                claimed.of_view(&view, true).map_err(refused)?
            }
        };
        recent.insert_all(&std::mem::take(&mut self.late_recent));
        Ok(recent)
    }

    fn store(&mut self, request: &StoreRequest<'_>) -> Answer<Stored> {
        self.update(|mailbox, options| {
            let mut stored = Stored::default();
            let mut wanted = Vec::with_capacity(request.uids.len());
            for marks in mailbox.marks_of(request.uids)? {
                match request.unchanged_since {
                    Some(since) if marks.modseq > since => stored.modified.push(marks.uid),
                    _ => wanted.push(marks.uid),
                }
            }
            let is_there = |uid: &&Uid| {
                wanted.binary_search(uid).is_ok() || stored.modified.binary_search(uid).is_ok()
            };
            stored.gone = request.uids.iter().filter(|uid| !is_there(uid)).copied().collect();
            let change = flag_change(request, mailbox.keywords().names());
            let mut flags = FlagChanges::default();
            flags.push_all(wanted, &change);
            if !flags.is_empty() {
                mailbox.change(&ChangeRequest { flags, ..ChangeRequest::default() }, options)?;
            }
            Ok(stored)
        })
    }

    fn expunge(&mut self, uids: Option<&[Uid]>) -> Answer<u32> {
        self.update(|mailbox, options| {
            let mut deleted = mailbox.uids_with(Flag::Deleted)?;
            if let Some(uids) = uids {
                deleted.retain(|uid| uids.binary_search(uid).is_ok());
            }
            if deleted.is_empty() {
                return Ok(0);
            }
            let request = ChangeRequest { expunge: deleted, ..ChangeRequest::default() };
            Ok(mailbox.change(&request, options)?.expunged)
        })
    }

    fn remove(&mut self, uids: &[Uid]) -> Answer<()> {
        self.remove_with(uids, change_options().keep_expunged)
    }

    fn copy(&mut self, uids: &[Uid], to: &MailboxName, moves: bool) -> Answer<Copied> {
        let target = self.user.open_target(to)?;
        let view = self.shared.refresh(&self.cancel).map_err(refused)?;
        if view.view_status().uidvalidity != self.uidvalidity {
            let path = view.path().to_owned();
            return Err(refused(barid::Error::Renumbered { path }));
        }
        let mut copied = copy::copy(&self.user, &view, uids, (&target, moves), &self.cancel)?;
        if moves {
            // The copies stay: what was expunged here may be in them only. Nothing else is kept for
            // an undo.
            let kept = KeepExpunged::No;
            copied.not_removed = self.remove_with(&copied.from, kept).err();
        }
        Ok(copied)
    }
}

impl Drop for ServedMailbox {
    /// Writes flags that other programs cannot see yet, and renames claimed messages.
    fn drop(&mut self) {
        if self.must_rename {
            // What cannot be renamed then is recent for another session later.
            let claimed = Arc::clone(&self.claimed);
            let work = move |mailbox: &mut barid::Mailbox| {
                drop_recent(&claimed, mailbox, &change_options()).map(drop)
            };
            self.shared.once_read(work);
        }
        if self.read_only || !self.shared.view().caps().delays {
            return;
        }
        // What cannot be written now stays pending, durably.
        let _ = self.shared.update(&Cancel::new(), |mailbox, stop| {
            if mailbox.pending() > 0 || mailbox.status().recent > 0 {
                let options = ChangeOptions { stop: Some(Arc::clone(stop)), ..change_options() };
                mailbox.sync(&options)?;
            }
            Ok(())
        });
    }
}

/// Claims the messages with \Recent, and renames them.
fn drop_recent(
    claimed: &ClaimedRecent,
    mailbox: &mut barid::Mailbox,
    options: &ChangeOptions,
) -> barid::Result<UidSet> {
    let new = claimed.of_view(mailbox, true)?;
    let request = ChangeRequest { drop_recent: true, ..ChangeRequest::default() };
    mailbox.change(&request, options)?;
    Ok(new)
}

/// Returns the change that a request makes of each message; `known` are the keywords of the
/// mailbox.
fn flag_change(request: &StoreRequest<'_>, known: &[Keyword]) -> FlagChange {
    let (flags, keywords) = (request.flags.flags, request.flags.keywords.clone());
    match request.how {
        StoreHow::Add => FlagChange { add: flags, add_keywords: keywords, ..FlagChange::default() },
        StoreHow::Remove => {
            FlagChange { remove: flags, remove_keywords: keywords, ..FlagChange::default() }
        }
        StoreHow::Replace => FlagChange {
            add: flags,
            remove: complement(flags),
            remove_keywords: known.iter().filter(|k| !keywords.contains(k)).cloned().collect(),
            add_keywords: keywords,
        },
    }
}

/// Creates the refusal of a target that does not exist (RFC 9051 §6.3.12).
pub(crate) fn try_create(refusal: Refusal) -> Refusal {
    match refusal.code {
        Some("NONEXISTENT") => Refusal::new("TRYCREATE", refusal.text),
        _ => refusal,
    }
}
