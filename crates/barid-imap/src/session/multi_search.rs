//! ESEARCH in several mailboxes (RFC 7377).

use barid_query::search::ReturnOptions;
use barid_types::UidSet;

use super::available::has_numbers;
use super::reply::Reply;
use super::search::{asks_modseq, part_of, write_esearch_of};
use super::{Done, Session};
use crate::backend::{Account, Answer, ListedMailbox, MailView, Mailbox, Refusal};
use crate::command::{FilterIndex, ListCommand, MailboxFilter, MailboxName, MultiSearch};

impl<A: Account> Session<A> {
    /// Searches mailbox after mailbox, and answers for each that has results. For one that cannot
    /// be searched it reports the reason, and the command fails once the others are answered.
    pub(super) fn multi_search(
        &mut self,
        tag: &str,
        command: &MultiSearch,
        reply: &mut Reply<'_>,
    ) -> Answer<Done> {
        let MultiSearch { filters, search } = command;
        if asks_modseq(&search.program) {
            self.enable_condstore(reply)?;
        }
        let wants_selected = filters.contains(&MailboxFilter::Selected);
        let is_only_selected = filters.iter().all(MailboxFilter::is_selected);
        if wants_selected && self.selected.is_none() {
            return Err(Refusal::bad("No mailbox is selected"));
        }
        if !is_only_selected && has_numbers(&search.program) {
            return Err(Refusal::bad("Sequence numbers are those of the selected mailbox"));
        }
        let listed = if is_only_selected { Vec::new() } else { self.all_mailboxes()? };
        let (index, separator) = (FilterIndex::new(filters), self.account.separator());
        let is_asked = |mailbox: &ListedMailbox| {
            index.first(&mailbox.name, mailbox.is_subscribed, separator).is_some()
        };
        let names = listed.into_iter().filter(|one| one.is_selectable && is_asked(one));
        let mut names: Vec<MailboxName> = names.map(|one| MailboxName(one.name)).collect();
        let selected = self.selected.as_ref().map(|selected| selected.name.clone());
        if let Some(selected) = selected.filter(|name| wants_selected && !names.contains(name)) {
            names.insert(0, selected);
        }
        let mut failed: Option<Refusal> = None;
        for name in &names {
            match self.search_in(tag, command, name, reply) {
                Ok(()) => {}
                // The session does not depend on a mailbox that is not selected.
                Err(refusal) => {
                    let is_fatal = refusal.is_fatal && self.is_selected(&name.0);
                    let refusal = Refusal { is_fatal, ..refusal };
                    if is_fatal || refusal.is_bad() {
                        return Err(refusal);
                    }
                    self.write_failed(name, &refusal, reply);
                    failed.get_or_insert(refusal);
                }
            }
            if !reply.flush() {
                break;
            }
        }
        match failed {
            None => Ok(Done::text("Search completed")),
            Some(first) => {
                Err(Refusal { text: "Not all mailboxes could be searched".to_owned(), ..first })
            }
        }
    }

    /// Writes the reason why a mailbox has no result, so that a message that cannot be read is not
    /// left out silently.
    fn write_failed(&self, name: &MailboxName, refusal: &Refusal, reply: &mut Reply<'_>) {
        let shown = self.encoded_name(&name.0);
        reply.refuse(None, "NO", refusal.code, &format!("{shown}: {}", refusal.text));
    }

    /// Returns all mailboxes of the user.
    pub(super) fn all_mailboxes(&mut self) -> Answer<Vec<ListedMailbox>> {
        let patterns = vec!["*".to_owned()];
        self.account.list(&ListCommand { response: "LIST", patterns, ..ListCommand::default() })
    }

    fn search_in(
        &mut self,
        tag: &str,
        command: &MultiSearch,
        name: &MailboxName,
        reply: &mut Reply<'_>,
    ) -> Answer<()> {
        let search = &command.search;
        if self.is_selected(&name.0) {
            let rows = self.matching_rows(search, None, reply)?;
            self.save_result(search, &rows)?;
            self.begin_context(tag, search, None, &rows, reply)?;
            let view = self.selected_mut()?.newest.clone();
            return self.write_found((tag, name), command, (&view, &rows), reply);
        }
        let view = match self.account.open(name, true) {
            Ok(mut mailbox) => mailbox.read_listed()?,
            // A mailbox that is gone, or cannot be selected, is left out (RFC 7377 §2.2).
            Err(refusal) if matches!(refusal.code, Some("NONEXISTENT" | "CANNOT")) => return Ok(()),
            Err(refusal) => return Err(refusal),
        };
        // The saved result is one of the selected mailbox.
        let rows = view.search(&search.program, &UidSet::new())?;
        self.write_found((tag, name), command, (&view, &rows), reply)
    }

    /// Writes the result of a mailbox, unless it is empty (RFC 7377 §2.1).
    fn write_found<V: MailView>(
        &self,
        (tag, name): (&str, &MailboxName),
        command: &MultiSearch,
        (view, rows): (&V, &[u32]),
        reply: &mut Reply<'_>,
    ) -> Answer<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let search = &command.search;
        let uids = view.uids_of(rows)?;
        let numbers: Vec<u32> = uids.iter().map(|uid| uid.get()).collect();
        let modseq = match asks_modseq(&search.program) {
            true => view.flags_of(&uids)?.iter().map(|message| message.modseq).max(),
            false => None,
        };
        let all = ReturnOptions { all: true, ..ReturnOptions::default() };
        let returns = search.returns.unwrap_or(all);
        let part = search.partial.map(|(first, last)| part_of(&numbers, first, last));
        if part.is_some_and(<[u32]>::is_empty) && returns == ReturnOptions::default() {
            return Ok(());
        }
        let uidvalidity = view.numbers()?.uidvalidity;
        let write_source = |reply: &mut Reply<'_>| {
            reply.push(&format!("* ESEARCH (TAG \"{tag}\" MAILBOX "));
            self.mailbox_name(&name.0, reply);
            reply.push(&format!(" UIDVALIDITY {uidvalidity})"));
        };
        write_esearch_of(&write_source, search, returns, &numbers, modseq, reply);
        Ok(())
    }
}
