//! Reports of damaged state, until they are acknowledged.

use std::path::PathBuf;
use std::time::Duration;

use barid_formats::check::{Damage, Severity};
use barid_state::{Ledger, Pending};
use barid_types::UidValidity;

use crate::Result;

/// The way to acknowledge the reports.
pub(crate) const ACKNOWLEDGE: &str = "`barid check --repair` acknowledges that";

/// The effect of repairing damaged state.
const REPAIR: &str = "the damaged file is kept and no longer reported";

/// A report of damage.
#[derive(Debug)]
pub(crate) struct StateNews {
    kind: &'static str,
    pub(crate) path: PathBuf,
    offset: Option<u64>,
    pub(crate) what: String,
}

/// Records that the ledger is missing, for a mailbox whose UIDs only the ledger can have stored,
/// because something else names a UIDVALIDITY.
pub(crate) fn note_missing(
    format: &dyn barid_mailbox::Storage,
    ledger: &mut Ledger,
    known: UidValidity,
) {
    if !format.caps().uids && ledger.is_persistent() {
        ledger.note_missing(known);
    }
}

/// Returns the reports on the state of a mailbox.
pub(crate) fn state_news(pending: &Pending, ledger: &Ledger) -> Vec<StateNews> {
    let place = |offset: Option<u64>| match offset {
        Some(offset) => format!("damaged at byte {offset}"),
        None => "a damaged file that was kept".to_owned(),
    };
    let mut news = Vec::new();
    if let Some(damage) = pending.damage() {
        let count = damage.records.max(1);
        let changes = if count == 1 { "change" } else { "changes" };
        let what = format!(
            "{}: at least {count} accepted {changes} of messages are lost",
            place(damage.offset)
        );
        let (kind, path, offset) = ("state-pending", damage.path.clone(), damage.offset);
        news.push(StateNews { kind, path, offset, what });
    }
    if let Some(notice) = ledger.notice() {
        let place = |offset| match notice.is_missing {
            true => "it was missing".to_owned(),
            false => place(offset),
        };
        let what = match (notice.renumbered, notice.lost) {
            (true, _) => {
                "it stored the UIDs of messages, which are lost; the messages have new UIDs and \
                 the mailbox a new UIDVALIDITY"
            }
            (false, true) => "UIDs that only it stored are lost",
            (false, false) => "nothing is lost, because it stores everything twice",
        };
        let what = format!("{}: {what}", place(notice.offset));
        let (kind, path, offset) = ("state-ledger", notice.path, notice.offset);
        news.push(StateNews { kind, path, offset, what });
    }
    news
}

/// Returns the damage of the state, in the form of a check.
pub(crate) fn state_damages(pending: &Pending, ledger: &Ledger) -> Vec<Damage> {
    let damage = |news: StateNews| Damage {
        kind: news.kind,
        severity: Severity::Error,
        file: news.path,
        offset: news.offset,
        uid: None,
        what: news.what,
        repair: Some(REPAIR),
    };
    state_news(pending, ledger).into_iter().map(damage).collect()
}

/// Acknowledges the reports, durably. The damaged files stay.
pub(crate) fn acknowledge(
    pending: &mut Pending,
    ledger: &mut Ledger,
    timeout: Duration,
) -> Result<()> {
    pending.acknowledge()?;
    Ok(ledger.acknowledge(timeout)?)
}
