//! The order of found messages.

use std::collections::HashMap;

use barid::SortProgram;
use barid::query::{RelevanceTerms, SearchError, SearchProgram};

use super::mailboxes::{FoundMailbox, FoundMailboxes};
use super::order::OrderArgs;
use crate::exit::WithHint;

/// A message: the index of its mailbox, and its row.
pub(crate) type MessagePlace = (usize, u32);

/// The order that is asked for, checked before anything is searched.
pub(crate) enum Ranking {
    /// The order of the mailboxes.
    Mailbox,
    By(SortProgram),
    Relevance(RelevanceTerms),
}

/// Messages in the order in which they are printed.
#[derive(Default)]
pub(crate) struct Ordered {
    pub(crate) places: Vec<MessagePlace>,
    /// For each mailbox the scores by row, in an order by relevance.
    scores: Vec<HashMap<u32, f64>>,
}

impl Ordered {
    /// Returns messages in an order without scores.
    pub(crate) fn of(places: Vec<MessagePlace>) -> Self {
        Self { places, scores: Vec::new() }
    }

    /// Returns the scores of the messages of a mailbox, in an order by relevance.
    pub(crate) fn scores(&self, part: usize) -> Option<&HashMap<u32, f64>> {
        self.scores.get(part)
    }
}

impl Ranking {
    /// Returns the order of what a program finds.
    ///
    /// # Errors
    ///
    /// Returns an error for an order by relevance without a text that messages may match by.
    pub(crate) fn of(args: &OrderArgs, program: &SearchProgram) -> anyhow::Result<Self> {
        match args.is_by_relevance()? {
            true => {}
            false if args.has_keys() => return Ok(Self::By(args.program())),
            false => return Ok(Self::Mailbox),
        }
        RelevanceTerms::of(program).map(Self::Relevance).map_err(|error| {
            let hint = match error {
                SearchError::NoTerms => {
                    "a word, `subject:`, `from:`, `body:` and others with a text are counted; \
                     flags, dates, file names and what is negated are not; --sort date has the \
                     newest last"
                }
                _ => "--sort date --reverse has the newest first",
            };
            WithHint::error(error.to_string(), hint)
        })
    }

    /// Orders messages, and leaves as many as are wanted. Messages that cannot be read for it are
    /// added to those of their mailbox.
    pub(crate) fn order(
        &self,
        args: &OrderArgs,
        searched: &mut FoundMailboxes,
    ) -> barid::Result<Ordered> {
        let parts = &searched.parts;
        let views: Vec<_> = parts.iter().map(|part| (&*part.mailbox, &part.rows[..])).collect();
        let mut places: Vec<MessagePlace> = match (self, &views[..]) {
            (Self::Relevance(terms), _) => {
                let ranked = barid::ranked_together(&views, terms)?;
                return Ok(by_relevance(args, ranked, searched));
            }
            (Self::By(program), [(view, rows)]) => {
                let sorted = view.sorted_among(program, rows)?;
                searched.parts[0].add_unreadable(sorted.unreadable);
                sorted.rows.into_iter().map(|row| (0, row)).collect()
            }
            (Self::By(program), _) => barid::sorted_together(&views, program)?,
            (Self::Mailbox, _) => {
                let of_part = |(at, part): (usize, &FoundMailbox)| {
                    part.rows.iter().map(|row| (at, *row)).collect::<Vec<_>>()
                };
                parts.iter().enumerate().flat_map(of_part).collect()
            }
        };
        args.finish(&mut places);
        Ok(Ordered::of(places))
    }
}

fn by_relevance(
    args: &OrderArgs,
    ranked: barid::RankedMessages,
    searched: &mut FoundMailboxes,
) -> Ordered {
    let mut unreadable = ranked.unreadable.into_iter().peekable();
    for (at, part) in searched.parts.iter_mut().enumerate() {
        let own = std::iter::from_fn(|| unreadable.next_if(|(part, ..)| *part == at));
        part.add_unreadable(own.map(|(_, uid, error)| (uid, error)).collect());
    }
    let mut messages = ranked.messages;
    args.finish_best(&mut messages);
    let mut scores = vec![HashMap::new(); searched.parts.len()];
    for message in &messages {
        scores[message.part].insert(message.row, message.score);
    }
    let places = messages.iter().map(|message| (message.part, message.row)).collect();
    Ordered { places, scores }
}
