//! Announcing changes of the selected mailbox (RFC 9051 §7.5.1).

use barid_types::{Uid, UidSet};

use super::reply::Reply;
use super::select::{Selected, write_vanished};
use super::{Done, Enabled, Session};
use crate::backend::{Account, Answer, MailView, Mailbox, MessageFlags, Refusal, ViewChange};
use crate::fetch::FetchItems;

/// Changes between two views, sorted by kind.
#[derive(Default)]
struct Changes {
    expunged: Vec<Uid>,
    flags: Vec<Uid>,
    /// Messages with the same flags and another mod-sequence.
    modseqs: Vec<Uid>,
    new: Vec<Uid>,
}

impl Changes {
    fn of(changes: Vec<ViewChange>) -> Answer<Self> {
        let mut sorted = Self::default();
        for change in changes {
            match change {
                ViewChange::Renumbered => return Err(renumbered()),
                ViewChange::Expunged(uid) => sorted.expunged.push(uid),
                ViewChange::Flags(uid) => sorted.flags.push(uid),
                ViewChange::ModSeq(uid) => sorted.modseqs.push(uid),
                ViewChange::New(uid) => sorted.new.push(uid),
            }
        }
        Ok(sorted)
    }

    /// Returns the messages of which a client is informed, ascending: one that uses mod-sequences
    /// gets all that have another one (RFC 7162 §3.2).
    fn announced(mut self, condstore: bool) -> Vec<Uid> {
        if condstore && !self.modseqs.is_empty() {
            self.flags.append(&mut self.modseqs);
            self.flags.sort_unstable();
        }
        self.flags
    }
}

fn renumbered() -> Refusal {
    Refusal {
        code: Some("UNAVAILABLE"),
        text: "The UIDs of the selected mailbox are no longer valid; select it again".to_owned(),
        is_fatal: true,
    }
}

impl<A: Account> Session<A> {
    pub(super) fn selected_mut(&mut self) -> Answer<&mut Selected<A::Mailbox>> {
        self.selected.as_mut().ok_or_else(|| Refusal::bad("No mailbox is selected"))
    }

    /// Looks for changes of the selected mailbox and announces them; expunges only if `expunge`.
    pub(super) fn sync(&mut self, expunge: bool, reply: &mut Reply<'_>) -> Answer<()> {
        let Some(selected) = &mut self.selected else { return Ok(()) };
        let now = selected.mailbox.refresh()?;
        self.announce_view(now, expunge, &[], reply)
    }

    /// Waits for messages that were only listed when the mailbox was opened, and announces what has
    /// changed meanwhile. Numbers keep their meaning for the command that runs.
    pub(super) fn read_listed(&mut self, reply: &mut Reply<'_>) -> Answer<()> {
        let Some(selected) = &mut self.selected else { return Ok(()) };
        if !selected.newest.is_listed() {
            return Ok(());
        }
        let now = selected.mailbox.read_listed()?;
        self.announce_view(now, false, &[], reply)
    }

    /// Announces the changes from the newest announced view to `now`, except flags of the messages
    /// `answered`, ascending, which the command has answered itself.
    pub(super) fn announce_view(
        &mut self,
        now: <A::Mailbox as Mailbox>::View,
        expunge: bool,
        answered: &[Uid],
        reply: &mut Reply<'_>,
    ) -> Answer<()> {
        let (has_messages, has_flags) = match &self.notifying {
            Some(notifying) => (notifying.selected.messages, notifying.selected.flags),
            None => (true, true),
        };
        let Some(selected) = &mut self.selected else { return Ok(()) };
        let changes = Changes::of(now.changes_since(&selected.newest)?)?;
        selected.newest = now;
        selected.has_hidden_expunges |= !changes.expunged.is_empty();
        if !has_messages {
            // New messages that the client does not want to know have no number, either.
            selected.has_hidden_expunges |= !changes.new.is_empty();
        } else if expunge || !selected.has_hidden_expunges {
            self.announce_numbers(&changes, reply)?;
        }
        let Some(selected) = &self.selected else { return Ok(()) };
        if selected.newest.keywords().len() > selected.keywords_announced {
            self.write_flags(reply);
        }
        let is_other = |uid: &Uid| answered.binary_search(uid).is_err();
        let is_same =
            changes.flags.is_empty() && changes.modseqs.is_empty() && changes.new.is_empty();
        let announced = changes.announced(self.enabled.condstore);
        let flags = announced.into_iter().filter(|_| has_flags);
        let flags: Vec<Uid> = flags.filter(is_other).collect();
        self.write_flag_changes(&flags, self.notifying.is_some(), reply)?;
        if is_same { Ok(()) } else { self.update_contexts(reply) }
    }

    /// Announces messages that are gone and new ones: numbers are those of the newest view then.
    fn announce_numbers(&mut self, changes: &Changes, reply: &mut Reply<'_>) -> Answer<()> {
        let (enabled, vanishes) = (self.enabled, self.enabled.qresync || self.enabled.uid_only);
        let Some(selected) = &mut self.selected else { return Ok(()) };
        // Several views may have passed since the numbers were announced.
        let since = match selected.has_hidden_expunges {
            true => Some(Changes::of(selected.newest.changes_since(&selected.numbers)?)?),
            false => None,
        };
        let changes = since.as_ref().unwrap_or(changes);
        self.remove_from_contexts(&changes.expunged, reply)?;
        let Some(selected) = &mut self.selected else { return Ok(()) };
        if vanishes {
            write_vanished(&changes.expunged.iter().copied().collect(), false, reply);
        } else {
            for (before, uid) in (0..).zip(&changes.expunged) {
                let row = selected.numbers.row_from(*uid)?;
                reply.line(format_args!("* {} EXPUNGE", row + 1 - before));
            }
        }
        selected.numbers = selected.newest.clone();
        selected.has_hidden_expunges = false;
        for uid in &changes.expunged {
            self.saved = without(&self.saved, *uid);
        }
        if !changes.new.is_empty() {
            self.announce_new(enabled, reply)?;
            if let Some(items) = self.items_of_new(changes.new.len()) {
                let items = if enabled.uid_only { items } else { items.with_uid() };
                self.write_fetched(&changes.new, &items, reply)?;
            }
        }
        Ok(())
    }

    /// Returns the items that are fetched of new messages; none if the session has added them (RFC
    /// 5465 §5.2).
    fn items_of_new(&mut self, count: usize) -> Option<FetchItems> {
        let (notifying, selected) = (self.notifying.as_mut()?, self.selected.as_ref()?);
        let added = notifying.own.take_added(&selected.name.0);
        notifying.selected.items.clone().filter(|_| added != count as u64)
    }

    fn announce_new(&mut self, enabled: Enabled, reply: &mut Reply<'_>) -> Answer<()> {
        let Some(selected) = &mut self.selected else { return Ok(()) };
        if !selected.read_only && !enabled.rev2 {
            // The number of messages must be announced whatever happens here.
            let recent = selected.mailbox.claim_recent().unwrap_or_default();
            selected.recent.insert_all(&recent);
        }
        reply.line(format_args!("* {} EXISTS", selected.numbers.len()));
        if !enabled.rev2 {
            let known = |uid: Uid| selected.number_of(uid).is_ok_and(|number| number.is_some());
            let recent = count_recent(&selected.recent, known);
            reply.line(format_args!("* {recent} RECENT"));
        }
        Ok(())
    }

    /// Writes FETCH responses with the flags of messages that the client knows. With `with_uid`
    /// the UID and the mod-sequence are always there.
    pub(super) fn write_flag_changes(
        &mut self,
        uids: &[Uid],
        with_uid: bool,
        reply: &mut Reply<'_>,
    ) -> Answer<()> {
        let Enabled { condstore, qresync, rev2, uid_only, .. } = self.enabled;
        let Some(selected) = &self.selected else { return Ok(()) };
        let with_uid = with_uid || qresync || rev2 || selected.is_uid_command;
        for message in selected.newest.flags_of(uids)? {
            let Some(number) = selected.number_of(message.uid)? else { continue };
            reply.fetch_start(uid_only.then_some(message.uid), number);
            if with_uid && !uid_only {
                reply.push("UID ");
                reply.number(message.uid.get().into());
                reply.push(" ");
            }
            if condstore {
                reply.push("MODSEQ (");
                reply.number(message.modseq.get());
                reply.push(") ");
            }
            write_flags(&message, selected.recent.contains(message.uid), reply);
            reply.push(")");
            reply.end_line();
        }
        Ok(())
    }

    /// Adds HIGHESTMODSEQ to a completion, or as a response of its own beside another code, while
    /// expunges are held back: FETCH has shown higher mod-sequences than theirs, and a client that
    /// opens the mailbox again with one of those would never learn of them (RFC 7162 §6).
    pub(super) fn with_known_modseq(&self, done: Done, reply: &mut Reply<'_>) -> Done {
        let Some(selected) = &self.selected else { return done };
        if !self.enabled.qresync || !selected.has_hidden_expunges {
            return done;
        }
        let Ok(numbers) = selected.numbers.numbers() else { return done };
        let code = format!("HIGHESTMODSEQ {}", numbers.highest_modseq);
        match done.code {
            None => Done::with(code, done.text),
            Some(_) => {
                reply.line(format_args!("* OK [{code}] Expunges are held back"));
                done
            }
        }
    }

    /// Notes that the client uses mod-sequences, and announces the highest one the first time (RFC
    /// 7162 §3.1.2.1).
    pub(super) fn enable_condstore(&mut self, reply: &mut Reply<'_>) -> Answer<()> {
        if self.enabled.condstore {
            return Ok(());
        }
        self.enabled.condstore = true;
        if let Some(selected) = &self.selected {
            let modseq = selected.newest.numbers()?.highest_modseq;
            reply.line(format_args!("* OK [HIGHESTMODSEQ {modseq}] Highest"));
        }
        Ok(())
    }
}

/// Writes `FLAGS (...)`.
pub(super) fn write_flags(message: &MessageFlags, is_recent: bool, reply: &mut Reply<'_>) {
    reply.push("FLAGS (");
    let flags = message.flags.iter().map(|flag| flag.name());
    let recent = is_recent.then_some("\\Recent");
    let words = flags.chain(message.keywords.iter().map(String::as_str)).chain(recent);
    for (at, word) in words.enumerate() {
        if at > 0 {
            reply.push(" ");
        }
        reply.push(word);
    }
    reply.push(")");
}

/// Counts the UIDs that the client knows.
fn count_recent(recent: &UidSet, is_known: impl Fn(Uid) -> bool) -> u64 {
    let members = recent.ranges().iter().flat_map(|(first, last)| first.get()..=last.get());
    members.filter_map(Uid::new).filter(|uid| is_known(*uid)).count() as u64
}

fn without(set: &UidSet, gone: Uid) -> UidSet {
    if !set.contains(gone) {
        return set.clone();
    }
    let mut left = UidSet::new();
    for (first, last) in set.ranges() {
        if (*first..=*last).contains(&gone) {
            if let Some(before) = Uid::new(gone.get() - 1).filter(|before| before >= first) {
                left.insert_range(*first, before);
            }
            if let Some(after) = gone.next().filter(|after| after <= last) {
                left.insert_range(after, *last);
            }
        } else {
            left.insert_range(*first, *last);
        }
    }
    left
}
