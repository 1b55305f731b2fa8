//! SELECT, EXAMINE, CLOSE, UNSELECT (RFC 9051 §6.3.2, §6.4, RFC 7162 §3.2.5).

use barid_query::search::ranges_contain;
use barid_types::{Flag, ModSeq, Uid, UidSet};

use super::reply::Reply;
use super::{Done, Session};
use crate::backend::{Account, Answer, MailView, Mailbox, ViewNumbers};
use crate::command::{MailboxName, QresyncKnown, SelectParameters};

/// The selected mailbox of a session.
pub(super) struct Selected<M: Mailbox> {
    pub(super) mailbox: M,
    pub(super) name: MailboxName,
    pub(super) read_only: bool,
    /// The view whose rows are the client's sequence numbers.
    pub(super) numbers: M::View,
    /// The newest view of which flags were announced.
    pub(super) newest: M::View,
    /// `true` if messages of `numbers` are gone from `newest`.
    pub(super) has_hidden_expunges: bool,
    /// Messages with \Recent in this session.
    pub(super) recent: UidSet,
    /// Number of keywords that the client has seen in FLAGS.
    pub(super) keywords_announced: usize,
    /// `true` if the command that runs was answered for messages with flags that changed.
    pub(super) is_uid_command: bool,
}

impl<A: Account> Session<A> {
    pub(super) fn select(
        &mut self,
        name: &MailboxName,
        read_only: bool,
        parameters: &SelectParameters,
        reply: &mut Reply<'_>,
    ) -> Answer<Done> {
        if let Some(previous) = self.selected.take() {
            drop(previous);
            if self.enabled.qresync || self.enabled.rev2 {
                reply.line(format_args!("* OK [CLOSED] Previous mailbox closed"));
            }
        }
        self.saved = UidSet::new();
        self.contexts.clear();
        if parameters.qresync.is_some() && !self.enabled.qresync {
            return Err(crate::backend::Refusal::bad("QRESYNC is not enabled"));
        }
        self.enabled.condstore |= parameters.condstore || parameters.qresync.is_some();
        let mut mailbox = self.account.open(name, read_only)?;
        let read_only = read_only || mailbox.is_read_only();
        let recent = match read_only {
            _ if self.enabled.rev2 => UidSet::new(),
            true => mailbox.recent()?,
            false => match mailbox.claim_recent() {
                Err(refusal) if refusal.is_fatal => return Err(refusal),
                Err(_) => mailbox.recent()?,
                Ok(recent) => recent,
            },
        };
        let view = mailbox.view();
        let selected = Selected {
            mailbox,
            name: name.clone(),
            read_only,
            numbers: view.clone(),
            newest: view,
            has_hidden_expunges: false,
            recent,
            keywords_announced: 0,
            is_uid_command: false,
        };
        let numbers = self.selected.insert(selected).newest.numbers();
        let written = numbers.and_then(|numbers| {
            self.write_selected(&numbers, reply)?;
            match &parameters.qresync {
                Some(known) => self.resynchronise(known, &numbers, reply),
                None => Ok(()),
            }
        });
        if let Err(refusal) = written {
            self.selected = None;
            return Err(refusal);
        }
        let code = if read_only { "READ-ONLY" } else { "READ-WRITE" };
        Ok(Done::with(code.to_owned(), "Mailbox selected"))
    }

    fn write_selected(&mut self, numbers: &ViewNumbers, reply: &mut Reply<'_>) -> Answer<()> {
        self.write_flags(reply);
        let rev2 = self.enabled.rev2;
        let Some(selected) = &self.selected else { return Ok(()) };
        reply.line(format_args!("* {} EXISTS", numbers.exists));
        let uid_only = self.enabled.uid_only;
        if !rev2 {
            reply.line(format_args!("* {} RECENT", selected.recent.len()));
            if !uid_only && let Some(row) = selected.newest.first_with(Flag::Seen, false)? {
                reply.line(format_args!("* OK [UNSEEN {}] First unseen", row + 1));
            }
        }
        reply.line(format_args!("* OK [UIDVALIDITY {}] UIDs valid", numbers.uidvalidity));
        reply.line(format_args!("* OK [UIDNEXT {}] Predicted next UID", numbers.uidnext));
        if self.offers("OBJECTID") {
            let id = selected.mailbox.id();
            reply.line(format_args!("* OK [MAILBOXID ({id})] Mailbox"));
        }
        if self.offers("CONDSTORE") {
            let modseq = numbers.highest_modseq;
            reply.line(format_args!("* OK [HIGHESTMODSEQ {modseq}] Highest"));
        }
        if rev2 {
            let name = selected.name.clone();
            reply.push("* LIST () ");
            self.separator(reply);
            reply.push(" ");
            self.mailbox_name(&name.0, reply);
            reply.end_line();
        }
        Ok(())
    }

    /// Writes FLAGS and PERMANENTFLAGS.
    pub(super) fn write_flags(&mut self, reply: &mut Reply<'_>) {
        let Some(selected) = &mut self.selected else { return };
        let keywords = selected.newest.keywords();
        selected.keywords_announced = keywords.len();
        let mut flags = String::from("\\Answered \\Flagged \\Deleted \\Seen \\Draft");
        for keyword in &keywords {
            flags.push(' ');
            flags.push_str(keyword);
        }
        reply.line(format_args!("* FLAGS ({flags})"));
        if selected.read_only {
            return reply.line(format_args!("* OK [PERMANENTFLAGS ()] Read-only mailbox"));
        }
        let new = if selected.mailbox.takes_keywords() { " \\*" } else { "" };
        reply.line(format_args!("* OK [PERMANENTFLAGS ({flags}{new})] Flags permitted"));
    }

    /// Writes what has changed since the state that the client knows.
    fn resynchronise(
        &mut self,
        known: &QresyncKnown,
        numbers: &ViewNumbers,
        reply: &mut Reply<'_>,
    ) -> Answer<()> {
        if known.uidvalidity != numbers.uidvalidity.get() {
            return Ok(());
        }
        let Some(modseq) = ModSeq::new(known.modseq) else { return Ok(()) };
        let Some(selected) = &self.selected else { return Ok(()) };
        let changes = selected.newest.changes_since_modseq(modseq)?;
        let uidnext = numbers.uidnext.get();
        let ranges = known.uids.as_ref().map(|uids| uids.resolve(uidnext.saturating_sub(1).max(1)));
        let is_known =
            |uid: Uid| ranges.as_ref().is_none_or(|ranges| ranges_contain(ranges, uid.get()));
        let vanished = match &ranges {
            Some(ranges) => intersection(&changes.vanished, ranges),
            None => changes.vanished,
        };
        write_vanished(&vanished, true, reply);
        let changed: Vec<Uid> =
            changes.changed.iter().map(|(uid, _)| *uid).filter(|uid| is_known(*uid)).collect();
        self.write_flag_changes(&changed, true, reply)
    }

    pub(super) fn check(&mut self) -> Answer<Done> {
        self.selected_mut()?;
        Ok(Done::text("CHECK completed"))
    }

    pub(super) fn close(&mut self) -> Answer<Done> {
        let selected = self.selected_mut()?;
        if !selected.read_only {
            selected.mailbox.expunge(None)?;
        }
        self.selected = None;
        self.saved = UidSet::new();
        self.contexts.clear();
        Ok(Done::text("Mailbox closed"))
    }

    pub(super) fn unselect(&mut self) -> Answer<Done> {
        self.selected_mut()?;
        self.selected = None;
        self.saved = UidSet::new();
        self.contexts.clear();
        Ok(Done::text("Mailbox unselected"))
    }
}

/// Writes VANISHED, if there is anything (RFC 7162 §3.2.10).
pub(super) fn write_vanished(uids: &UidSet, earlier: bool, reply: &mut Reply<'_>) {
    if uids.is_empty() {
        return;
    }
    reply.push(if earlier { "* VANISHED (EARLIER) " } else { "* VANISHED " });
    write_uid_set(uids, reply.bytes());
    reply.end_line();
}

/// Appends a set of UIDs as a `sequence-set`.
pub(super) fn write_uid_set(uids: &UidSet, out: &mut Vec<u8>) {
    for (at, (first, last)) in uids.ranges().iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        crate::fetch::number(first.get().into(), out);
        if first != last {
            out.push(b':');
            crate::fetch::number(last.get().into(), out);
        }
    }
}

/// Returns the UIDs that are in ascending ranges, too.
pub(super) fn intersection(uids: &UidSet, ranges: &[(u32, u32)]) -> UidSet {
    let mut both = UidSet::new();
    let mut at = 0;
    for (first, last) in uids.ranges() {
        while ranges.get(at).is_some_and(|range| range.1 < first.get()) {
            at += 1;
        }
        for range in &ranges[at..] {
            let (from, to) = (first.get().max(range.0), last.get().min(range.1));
            if range.0 > last.get() {
                break;
            }
            if let (Some(from), Some(to)) = (Uid::new(from), Uid::new(to))
                && from <= to
            {
                both.insert_range(from, to);
            }
        }
    }
    both
}
