//! The values of STATUS.

use barid::{Flag, SharedMailbox, ViewStatus};
use barid_imap::backend::{Answer, StatusValue};
use barid_imap::command::StatusItem;

use super::refusal::refused;
use super::user::{UserMail, mailbox_id};

/// Returns `true` if the sizes of messages are requested, which are known once these are read.
pub(crate) fn needs_messages(items: &[StatusItem]) -> bool {
    items.iter().any(|item| matches!(item, StatusItem::Size | StatusItem::DeletedStorage))
}

/// Returns the values of STATUS items; the view is that of the last refresh.
pub(crate) fn values(
    user: &UserMail,
    shared: &SharedMailbox,
    items: &[StatusItem],
) -> Answer<Vec<(StatusItem, StatusValue)>> {
    let view = shared.view();
    let ViewStatus { messages, unseen, uidvalidity, uidnext, highest_modseq, .. } =
        view.view_status();
    let mut values = Vec::with_capacity(items.len());
    for item in items {
        let number = match item {
            StatusItem::Messages => u64::from(messages),
            StatusItem::Recent => {
                user.claimed_recent(view.id()).of_view(&view, false).map_err(refused)?.len()
            }
            StatusItem::UidNext => u64::from(uidnext.get()),
            StatusItem::UidValidity => u64::from(uidvalidity.get()),
            StatusItem::Unseen => u64::from(unseen),
            StatusItem::Deleted => view.uids_with(Flag::Deleted).map_err(refused)?.len() as u64,
            StatusItem::Size => size(shared, None)?,
            StatusItem::DeletedStorage => size(shared, Some(Flag::Deleted))?,
            // A client takes 0 for a mailbox without mod-sequences.
            StatusItem::HighestModSeq => highest_modseq.get().max(1),
            StatusItem::AppendLimit => {
                let value = user.append_limit.map_or(StatusValue::Nil, StatusValue::Number);
                values.push((*item, value));
                continue;
            }
            StatusItem::MailboxId => {
                values.push((*item, StatusValue::Id(mailbox_id(shared))));
                continue;
            }
        };
        values.push((*item, StatusValue::Number(number)));
    }
    Ok(values)
}

/// Returns the sum of RFC822.SIZE of all messages, or of those with a flag.
fn size(shared: &SharedMailbox, flag: Option<Flag>) -> Answer<u64> {
    if let Some(size) = shared.view().rfc822_total(flag).map_err(refused)? {
        return Ok(size);
    }
    let filled = shared.update(&barid::Cancel::new(), |mailbox, _| {
        mailbox.fill_rfc822_sizes()?;
        Ok(mailbox.view())
    });
    let view = filled.map_err(refused)?;
    Ok(view.rfc822_total(flag).map_err(refused)?.unwrap_or_default())
}
