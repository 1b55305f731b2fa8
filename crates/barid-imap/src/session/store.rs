//! STORE (RFC 9051 §6.4.6, RFC 7162 §3.1.3).

use barid_types::{ModSeq, Uid, UidSet};

use super::reply::Reply;
use super::select::write_uid_set;
use super::{Done, Enabled, Session};
use crate::backend::{Account, Answer, MailView, Mailbox, MessageFlags, Refusal, StoreRequest};
use crate::command::{FlagList, StoreCommand, StoreHow};

impl<A: Account> Session<A> {
    pub(super) fn store(&mut self, command: &StoreCommand, reply: &mut Reply<'_>) -> Answer<Done> {
        self.selected_mut()?.is_uid_command = command.set.is_uid();
        if command.unchanged_since.is_some() {
            self.enable_condstore(reply)?;
        }
        let selected = self.selected.as_mut().ok_or_else(|| Refusal::bad("No mailbox"))?;
        let uids = selected.uids_of_set(&command.set, &self.saved)?;
        if selected.read_only {
            return Err(Refusal::new("READ-ONLY", "The mailbox is read-only"));
        }
        let uids = self.limited(uids);
        let request = StoreRequest {
            uids: &uids,
            how: command.how,
            flags: FlagList { flags: command.flags, keywords: command.keywords.clone() },
            unchanged_since: command.unchanged_since.map(|n| ModSeq::new(n).unwrap_or(ModSeq::MAX)),
        };
        // Changes of others are announced first, so that what follows is the command's.
        self.sync(false, reply)?;
        let selected = self.selected_mut()?;
        let before = selected.newest.flags_of(&uids)?;
        let stored = selected.mailbox.store(&request)?;
        let now = selected.mailbox.view();
        self.answer_store(command, &uids, &stored.modified, &before, now, reply)?;
        finish(command, &stored, self)
    }

    /// Writes the flags of the messages: of all, or with `.SILENT` of those that others changed.
    fn answer_store(
        &mut self,
        command: &StoreCommand,
        uids: &[Uid],
        modified: &[Uid],
        before: &[MessageFlags],
        now: <A::Mailbox as Mailbox>::View,
        reply: &mut Reply<'_>,
    ) -> Answer<()> {
        let is_done = |uid: &Uid| modified.binary_search(uid).is_err();
        let done: Vec<Uid> = uids.iter().copied().filter(is_done).collect();
        self.announce_view(now, false, &done, reply)?;
        let Enabled { condstore, uid_only, .. } = self.enabled;
        let Some(selected) = &self.selected else { return Ok(()) };
        if !command.silent {
            return self.write_flag_changes(&self.in_order(&done), false, reply);
        }
        let mut others = Vec::new();
        for message in selected.newest.flags_of(&done)? {
            let at = before.binary_search_by_key(&message.uid, |before| before.uid);
            let expected = at.is_ok_and(|at| is_expected(command, &before[at], &message));
            if !expected {
                others.push(message.uid);
            } else if condstore && let Some(number) = selected.number_of(message.uid)? {
                let (uid, modseq) = (message.uid, message.modseq);
                reply.fetch_start(uid_only.then_some(uid), number);
                if !uid_only {
                    reply.push(&format!("UID {uid} "));
                }
                reply.line(format_args!("MODSEQ ({modseq}))"));
            }
        }
        self.write_flag_changes(&others, false, reply)
    }
}

fn finish<A: Account>(
    command: &StoreCommand,
    stored: &crate::backend::Stored,
    session: &Session<A>,
) -> Answer<Done> {
    if let Some(keyword) = stored.refused.first() {
        let text = format!("The mailbox cannot store the keyword {}", keyword.as_str());
        return Err(Refusal::new("LIMIT", text));
    }
    if !stored.modified.is_empty() {
        let mut code = b"MODIFIED ".to_vec();
        write_modified(&stored.modified, command, session, &mut code)?;
        let code = String::from_utf8_lossy(&code).into_owned();
        return Ok(Done::with(code, "Some messages have changed since"));
    }
    if !stored.gone.is_empty() && !command.set.is_uid() {
        // The other messages have the flags now (RFC 5530 §3 has the code in an OK).
        let code = "EXPUNGEISSUED".to_owned();
        return Ok(Done::with(code, "Some of the messages no longer exist"));
    }
    Ok(Done::text("Store completed"))
}

/// Appends the set of MODIFIED: UIDs in a UID command, otherwise sequence numbers.
fn write_modified<A: Account>(
    modified: &[Uid],
    command: &StoreCommand,
    session: &Session<A>,
    out: &mut Vec<u8>,
) -> Answer<()> {
    let Some(selected) = &session.selected else { return Ok(()) };
    let mut set = UidSet::new();
    for uid in modified {
        match command.set.is_uid() {
            true => set.insert(*uid),
            false => {
                if let Some(number) = selected.number_of(*uid)?.and_then(Uid::new) {
                    set.insert(number);
                }
            }
        }
    }
    write_uid_set(&set, out);
    Ok(())
}

/// Returns `true` if the flags are those that the command leads to.
fn is_expected(command: &StoreCommand, before: &MessageFlags, now: &MessageFlags) -> bool {
    let (had, asked) = (before.flags.bits(), command.flags.bits());
    let flags = match command.how {
        StoreHow::Replace => asked,
        StoreHow::Add => had | asked,
        StoreHow::Remove => had & !asked,
    };
    let is_named = |name: &str| {
        command.keywords.iter().any(|keyword| keyword.as_str().eq_ignore_ascii_case(name))
    };
    let had = |name: &str| before.keywords.iter().any(|keyword| keyword == name);
    let keywords_fit = now.keywords.iter().all(|name| match command.how {
        StoreHow::Replace => is_named(name),
        StoreHow::Add => had(name) || is_named(name),
        StoreHow::Remove => had(name) && !is_named(name),
    });
    let count = |list: &[String], keep: &dyn Fn(&str) -> bool| {
        list.iter().filter(|name| keep(name)).count()
    };
    let expected_count = match command.how {
        StoreHow::Replace => command.keywords.len(),
        StoreHow::Add => {
            before.keywords.len() + command.keywords.len()
                - count(&before.keywords, &|name| is_named(name))
        }
        StoreHow::Remove => count(&before.keywords, &|name| !is_named(name)),
    };
    now.flags.bits() == flags && keywords_fit && now.keywords.len() == expected_count
}
