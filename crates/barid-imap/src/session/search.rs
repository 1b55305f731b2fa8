//! SEARCH, SORT and THREAD (RFC 9051 §6.4.4, RFC 4731, RFC 5182, RFC 5256, RFC 5267, RFC 9394).

use barid_query::search::{
    NumberSet, ProgramBuilder, ReturnOptions, SearchKey, SearchNode, SearchProgram, SearchResult,
};
use barid_query::{SortProgram, ThreadAlgorithm};
use barid_types::{Flag, ModSeq, Uid, UidSet};

use super::reply::Reply;
use super::select::Selected;
use super::{Done, Session};
use crate::backend::{Account, Answer, MailView, Mailbox, Refusal};
use crate::command::SearchCommand;

impl<A: Account> Session<A> {
    /// Empties the saved result if a command with SAVE has failed (RFC 5182 §2.1).
    pub(super) fn or_forget<T>(&mut self, command: &SearchCommand, answer: Answer<T>) -> Answer<T> {
        if answer.is_err() && command.returns.is_some_and(|returns| returns.save) {
            self.saved = UidSet::new();
        }
        answer
    }

    pub(super) fn search(
        &mut self,
        tag: &str,
        command: &SearchCommand,
        reply: &mut Reply<'_>,
    ) -> Answer<Done> {
        let lowest = self.lowest_searched(&command.program)?;
        let rows = self.matching_rows(command, lowest, reply)?;
        self.save_result(command, &rows)?;
        self.begin_context(tag, command, None, &rows, reply)?;
        let mut numbers = self.selected_mut()?.numbers_of_rows(&rows, command.uid)?;
        let modseq = self.modseq_of(command, &rows)?;
        match self.returns(command) {
            Some(returns) => write_esearch(tag, command, returns, &numbers, modseq, reply),
            None => {
                numbers = self.in_order(&numbers);
                write_numbers("SEARCH", &numbers, modseq, reply);
            }
        }
        Ok(Done::text("Search completed"))
    }

    pub(super) fn sort(
        &mut self,
        tag: &str,
        program: &SortProgram,
        command: &SearchCommand,
        reply: &mut Reply<'_>,
    ) -> Answer<Done> {
        self.check_search_limit(&command.program)?;
        let found = self.matching_rows(command, None, reply)?;
        let selected = self.selected_mut()?;
        let order = selected.newest.sort(program)?;
        let rows = match found.len() == order.len() {
            true => order,
            false => order.into_iter().filter(|row| found.binary_search(row).is_ok()).collect(),
        };
        let numbers = selected.numbers_of_rows(&rows, command.uid)?;
        self.save_result(command, &rows)?;
        self.begin_context(tag, command, Some(program), &rows, reply)?;
        let modseq = self.modseq_of(command, &rows)?;
        match command.returns {
            Some(returns) => write_esearch(tag, command, returns, &numbers, modseq, reply),
            None => write_numbers("SORT", &numbers, modseq, reply),
        }
        Ok(Done::text("Sort completed"))
    }

    pub(super) fn thread(
        &mut self,
        algorithm: ThreadAlgorithm,
        command: &SearchCommand,
        reply: &mut Reply<'_>,
    ) -> Answer<Done> {
        self.check_search_limit(&command.program)?;
        let rows = self.matching_rows(command, None, reply)?;
        let selected = self.selected_mut()?;
        let is_all = rows.len() == selected.newest.len() as usize;
        let threads = selected.newest.threads(algorithm, (!is_all).then_some(rows.as_slice()))?;
        let numbers = selected.numbers_of_rows(&rows, command.uid)?;
        reply.push("* THREAD");
        if !threads.is_empty() {
            reply.push(" ");
            threads.write_imap(|row| numbers[row as usize], reply.bytes());
        }
        reply.end_line();
        Ok(Done::text("Thread completed"))
    }

    /// Returns the rows of the newest view that match and that the client knows, ascending; none
    /// below the UID `lowest`.
    pub(super) fn matching_rows(
        &mut self,
        command: &SearchCommand,
        lowest: Option<Uid>,
        reply: &mut Reply<'_>,
    ) -> Answer<Vec<u32>> {
        if asks_modseq(&command.program) {
            self.enable_condstore(reply)?;
        }
        let selected = self.selected.as_mut().ok_or_else(|| Refusal::bad("No mailbox"))?;
        selected.is_uid_command = command.uid;
        let program = selected.in_session(&command.program, lowest)?;
        let mut rows = selected.newest.search(&program, &self.saved)?;
        if selected.has_hidden_expunges {
            // Messages that were not announced have no number.
            let last = selected.last_uid()?;
            let first_unknown = match Uid::new(last) {
                Some(last) => match last.next() {
                    Some(next) => selected.newest.row_from(next)?,
                    None => selected.newest.len(),
                },
                None => 0,
            };
            rows.retain(|row| *row < first_unknown);
        }
        Ok(rows)
    }

    /// Returns the options of an ESEARCH response; `None` for a SEARCH response.
    fn returns(&self, command: &SearchCommand) -> Option<ReturnOptions> {
        let all = ReturnOptions { all: true, ..ReturnOptions::default() };
        command.returns.or_else(|| self.enabled.rev2.then_some(all))
    }

    /// Saves the result for `$` if that is requested: all of it, or without ALL and COUNT what MIN,
    /// MAX and PARTIAL return (RFC 5182 §2.4, RFC 9394 §3.3). `rows` are in its order.
    pub(super) fn save_result(&mut self, command: &SearchCommand, rows: &[u32]) -> Answer<()> {
        let Some(returns) = command.returns.filter(|returns| returns.save) else { return Ok(()) };
        let selected = self.selected_mut()?;
        let uids = selected.newest.uids_of(rows)?;
        let ReturnOptions { min, max, all, count, .. } = returns;
        let is_part = min || max || command.partial.is_some();
        self.saved = match is_part && !all && !count {
            true => {
                let first = uids.first().filter(|_| min);
                let last = uids.last().filter(|_| max);
                let part = command.partial.map(|(from, to)| part_of(&uids, from, to));
                let part = part.unwrap_or_default();
                part.iter().chain(first).chain(last).copied().collect()
            }
            false => uids.into_iter().collect(),
        };
        Ok(())
    }

    /// Returns the highest mod-sequence of the messages found, if the program has MODSEQ (RFC 7162
    /// §3.1.5).
    fn modseq_of(&mut self, command: &SearchCommand, rows: &[u32]) -> Answer<Option<ModSeq>> {
        if !asks_modseq(&command.program) || rows.is_empty() {
            return Ok(None);
        }
        let selected = self.selected_mut()?;
        let uids = selected.newest.uids_of(rows)?;
        let uids = match command.returns {
            // Only the messages that are returned count.
            Some(ReturnOptions { all: false, count: false, min, max, .. }) if min || max => {
                let first = uids.first().filter(|_| min);
                first.into_iter().chain(uids.last().filter(|_| max)).copied().collect()
            }
            _ => uids,
        };
        let flags = selected.newest.flags_of(&uids)?;
        Ok(flags.iter().map(|message| message.modseq).max())
    }
}

impl<M: Mailbox> Selected<M> {
    /// Returns the program with what only the session knows, sequence numbers and \Recent, as UIDs,
    /// and restricted to UIDs from `lowest` on.
    fn in_session(&self, program: &SearchProgram, lowest: Option<Uid>) -> Answer<SearchProgram> {
        let is_of_session = |node: &SearchNode| {
            matches!(node, SearchNode::Key(SearchKey::Flag(Flag::Recent) | SearchKey::Seq(_)))
        };
        if lowest.is_none() && !program.nodes().iter().any(is_of_session) {
            return Ok(program.clone());
        }
        let mut builder = ProgramBuilder::default();
        let mut root = 0;
        let bad = |_| Refusal::new("LIMIT", "The search is too large");
        for node in program.nodes() {
            root = match node {
                SearchNode::Key(SearchKey::Flag(Flag::Recent)) => {
                    builder.key(SearchKey::Uid(NumberSet::from_ranges(self.recent.numbers())))
                }
                SearchNode::Key(SearchKey::Seq(set)) => {
                    // Numbers without a message match nothing here.
                    let ranges = set.resolve(self.numbers.len());
                    if self.has_hidden_expunges {
                        let uids = self.numbers.uids_in(&ranges, true)?;
                        let uids: UidSet = uids.into_iter().collect();
                        builder.key(SearchKey::Uid(NumberSet::from_ranges(uids.numbers())))
                    } else {
                        builder.key(SearchKey::Seq(set.clone()))
                    }
                }
                SearchNode::Key(key) => builder.key(key.clone()),
                // Every node is added once, so that its number stays.
                SearchNode::Not(id) => builder.not(*id),
                SearchNode::And(ids) => builder.and(ids.clone()),
                SearchNode::Or(ids) => builder.or(ids.clone()),
            }
            .map_err(bad)?;
        }
        if let Some(lowest) = lowest {
            let range = NumberSet::from_ranges([(lowest.get(), u32::MAX)]);
            let from_lowest = builder.key(SearchKey::Uid(range)).map_err(bad)?;
            root = builder.and(vec![from_lowest, root]).map_err(bad)?;
        }
        Ok(builder.finish(root))
    }
}

pub(super) fn asks_modseq(program: &SearchProgram) -> bool {
    let is_modseq = |node: &SearchNode| matches!(node, SearchNode::Key(SearchKey::ModSeq(_)));
    program.nodes().iter().any(is_modseq)
}

fn write_numbers(name: &str, numbers: &[u32], modseq: Option<ModSeq>, reply: &mut Reply<'_>) {
    reply.push("* ");
    reply.push(name);
    for number in numbers {
        reply.push(" ");
        reply.number((*number).into());
    }
    if let Some(modseq) = modseq {
        reply.push(" (MODSEQ ");
        reply.number(modseq.get());
        reply.push(")");
    }
    reply.end_line();
}

fn write_esearch(
    tag: &str,
    command: &SearchCommand,
    returns: ReturnOptions,
    numbers: &[u32],
    modseq: Option<ModSeq>,
    reply: &mut Reply<'_>,
) {
    let write_source = |reply: &mut Reply<'_>| reply.push(&format!("* ESEARCH (TAG \"{tag}\")"));
    write_esearch_of(&write_source, command, returns, numbers, modseq, reply);
}

/// Writes ESEARCH, whose beginning `write_source` writes.
pub(super) fn write_esearch_of(
    write_source: &dyn Fn(&mut Reply<'_>),
    command: &SearchCommand,
    returns: ReturnOptions,
    numbers: &[u32],
    modseq: Option<ModSeq>,
    reply: &mut Reply<'_>,
) {
    let ReturnOptions { min, max, all, count, save } = returns;
    let is_only_saved = save && !(min || max || all || count) && command.partial.is_none();
    if is_only_saved {
        return;
    }
    let result = SearchResult { numbers, uid: command.uid };
    write_source(reply);
    result.write_returned(returns, reply.bytes());
    if let Some((first, last)) = command.partial {
        let (low, high) = (first.min(last), first.max(last));
        let (shown_first, shown_last) = if first > 0 { (low, high) } else { (high, low) };
        reply.push(&format!(" PARTIAL ({shown_first}:{shown_last} "));
        let part = part_of(numbers, first, last);
        match part.is_empty() {
            true => reply.push("NIL"),
            false => SearchResult { numbers: part, uid: command.uid }.write_set(reply.bytes()),
        }
        reply.push(")");
    }
    if let Some(modseq) = modseq {
        reply.push(" MODSEQ ");
        reply.number(modseq.get());
    }
    reply.end_line();
}

/// Returns the part of a result that PARTIAL names: positions from 1, or from the end if negative
/// (RFC 9394 §3.1).
pub(super) fn part_of<T>(numbers: &[T], first: i64, last: i64) -> &[T] {
    let len = numbers.len() as i64;
    let position = |at: i64| if at < 0 { len + 1 + at } else { at };
    let (first, last) = (position(first), position(last));
    let (first, last) = (first.min(last).max(1), first.max(last).min(len));
    if first > last {
        return &[];
    }
    &numbers[first as usize - 1..last as usize]
}
