//! Searches whose results are kept up to date (RFC 5267 §4.3).

use barid_query::SortProgram;
use barid_query::search::SearchResult;
use barid_types::Uid;

use super::Session;
use super::reply::Reply;
use crate::backend::{Account, Answer, MailView};
use crate::command::SearchCommand;
use crate::limits::CONTEXTS_MAX;

/// A search whose client is told how its result changes.
pub(super) struct SearchContext {
    /// Tag of the command, which names the context.
    tag: String,
    command: SearchCommand,
    /// The order of the result; ascending if `None`.
    sort: Option<SortProgram>,
    /// The result as the client knows it.
    result: Vec<Uid>,
}

impl<A: Account> Session<A> {
    /// Keeps the result of a search up to date, if that is requested; `rows` are in its order.
    pub(super) fn begin_context(
        &mut self,
        tag: &str,
        command: &SearchCommand,
        sort: Option<&SortProgram>,
        rows: &[u32],
        reply: &mut Reply<'_>,
    ) -> Answer<()> {
        if !command.update {
            return Ok(());
        }
        if self.lowest_processed.is_some() {
            let text = "The result has a part of the messages only";
            reply.line(format_args!("* NO [NOUPDATE \"{tag}\"] {text}"));
            return Ok(());
        }
        if self.contexts.len() == CONTEXTS_MAX {
            reply.line(format_args!("* NO [NOUPDATE \"{tag}\"] Too many searches are updated"));
            return Ok(());
        }
        let result = self.selected_mut()?.newest.uids_of(rows)?;
        self.contexts.push(SearchContext {
            tag: tag.to_owned(),
            command: command.clone(),
            sort: sort.cloned(),
            result,
        });
        Ok(())
    }

    /// Ends the updates of searches (CANCELUPDATE).
    pub(super) fn cancel_update(&mut self, tags: &[String]) {
        self.contexts.retain(|context| !tags.contains(&context.tag));
    }

    /// Announces that messages leave results, before their numbers are gone.
    pub(super) fn remove_from_contexts(
        &mut self,
        expunged: &[Uid],
        reply: &mut Reply<'_>,
    ) -> Answer<()> {
        let mut contexts = std::mem::take(&mut self.contexts);
        let mut announce = |context: &mut SearchContext| {
            let is_gone = |uid: &Uid| expunged.binary_search(uid).is_ok();
            self.remove_from(context, &is_gone, reply)
        };
        let announced = contexts.iter_mut().try_for_each(&mut announce);
        self.contexts = contexts;
        announced
    }

    /// Searches again and announces the differences.
    pub(super) fn update_contexts(&mut self, reply: &mut Reply<'_>) -> Answer<()> {
        let mut contexts = std::mem::take(&mut self.contexts);
        let mut update = |context: &mut SearchContext| self.update_context(context, reply);
        let updated = contexts.iter_mut().try_for_each(&mut update);
        self.contexts = contexts;
        updated
    }

    fn update_context(&mut self, context: &mut SearchContext, reply: &mut Reply<'_>) -> Answer<()> {
        let mut rows = self.matching_rows(&context.command, None, reply)?;
        let newest = &self.selected_mut()?.newest;
        if let Some(sort) = &context.sort {
            let order = newest.sort(sort)?;
            rows = order.into_iter().filter(|row| rows.binary_search(row).is_ok()).collect();
        }
        let now = newest.uids_of(&rows)?;
        let mut members = now.clone();
        members.sort_unstable();
        self.remove_from(context, &|uid| members.binary_search(uid).is_err(), reply)?;
        self.add_to(context, now, reply)
    }

    /// Announces the messages that leave a result.
    fn remove_from(
        &self,
        context: &mut SearchContext,
        is_gone: &dyn Fn(&Uid) -> bool,
        reply: &mut Reply<'_>,
    ) -> Answer<()> {
        let gone: Vec<(usize, Uid)> =
            (0..).zip(context.result.iter().copied()).filter(|(_, uid)| is_gone(uid)).collect();
        context.result.retain(|uid| !is_gone(uid));
        match context.sort {
            None => self.announce_change(context, "REMOVEFROM", 0, &of(&gone), reply),
            // From the end, so that the positions of the others stay.
            Some(_) => gone.iter().rev().try_for_each(|(at, uid)| {
                self.announce_change(context, "REMOVEFROM", at + 1, &[*uid], reply)
            }),
        }
    }

    /// Announces the messages that enter a result.
    fn add_to(
        &self,
        context: &mut SearchContext,
        now: Vec<Uid>,
        reply: &mut Reply<'_>,
    ) -> Answer<()> {
        let mut known = context.result.clone();
        known.sort_unstable();
        let is_new = |(_, uid): &(usize, Uid)| known.binary_search(uid).is_err();
        let new: Vec<(usize, Uid)> = (0..).zip(now.iter().copied()).filter(is_new).collect();
        match context.sort {
            None => self.announce_change(context, "ADDTO", 0, &of(&new), reply)?,
            Some(_) => new.iter().try_for_each(|(at, uid)| {
                self.announce_change(context, "ADDTO", at + 1, &[*uid], reply)
            })?,
        }
        context.result = now;
        Ok(())
    }

    fn announce_change(
        &self,
        context: &SearchContext,
        change: &str,
        position: usize,
        uids: &[Uid],
        reply: &mut Reply<'_>,
    ) -> Answer<()> {
        let Some(selected) = self.selected.as_ref().filter(|_| !uids.is_empty()) else {
            return Ok(());
        };
        let uid = context.command.uid;
        let mut numbers = Vec::with_capacity(uids.len());
        for found in uids {
            match uid {
                true => numbers.push(found.get()),
                false => numbers.extend(selected.number_of(*found)?),
            }
        }
        let kind = if uid { " UID" } else { "" };
        let tag = &context.tag;
        reply.push(&format!("* ESEARCH (TAG \"{tag}\"){kind} {change} ({position} "));
        SearchResult { numbers: &numbers, uid }.write_set(reply.bytes());
        reply.push(")");
        reply.end_line();
        Ok(())
    }
}

/// Returns the UIDs of messages with their positions.
fn of(messages: &[(usize, Uid)]) -> Vec<Uid> {
    messages.iter().map(|(_, uid)| *uid).collect()
}
