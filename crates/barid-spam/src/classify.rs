//! Classifying messages.

use barid::{LongOperation, ReadOutcome};
use barid_bayes::{Counts, Evidence, MessagePart, Parameters, Score, Status};
use barid_wordlist::{AnyList, keys};

use crate::source::{At, Source, each};
use crate::worker::{Pool, Worker};
use crate::{Filter, Result};

/// Verdict of the filter on a message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Classified {
    /// Probability that the message is spam, from 0 to 1.
    pub spamicity: f64,
    /// Class that the score means: spam, ham or unsure.
    pub status: Status,
    /// Number of tokens used; `None` for a stored score.
    pub used: Option<usize>,
    /// Generation of the word list used.
    pub generation: u64,
    /// `true` if the score was stored earlier and not computed now.
    pub is_kept: bool,
    /// Explanation of the score, if requested.
    pub explained: Option<Explained>,
}

/// Explanation of a score.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explained {
    /// Numbers of messages that the list was trained with.
    pub totals: Counts,
    /// The tokens used, those that indicate ham first.
    pub tokens: Vec<ExplainedToken>,
}

/// A token used for a score.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExplainedToken {
    /// The token.
    pub token: Vec<u8>,
    /// Numbers of messages with it that the list was trained with.
    pub counts: Counts,
    /// Probability that a message with it is spam.
    pub probability: f64,
}

/// Called for each message, in order; `Ok(None)` for a message that no longer exists.
pub type OnClassified<'a> = dyn FnMut(At, Result<Option<Classified>>) -> Result<()> + 'a;

/// The rules for scoring messages with the word list as it is now.
pub(crate) struct Rules {
    pub(crate) parameters: Parameters,
    explains: bool,
}

impl Rules {
    /// Reads from the list the parameters that are not set.
    pub(crate) fn new(filter: &Filter, list: &mut AnyList, explains: bool) -> Result<Self> {
        let robx = list.entry(keys::ROBX)?.map(|entry| f64::from(entry.spam) / 1e6);
        Ok(Self { parameters: filter.options.parameters.filled_in(robx), explains })
    }
}

impl Filter {
    /// Classifies messages, reading all of them.
    ///
    /// # Errors
    /// Errors of the word list, the mailbox and `report`; a message that cannot be read is passed
    /// to `report` instead.
    pub fn classify(
        &self,
        source: Source<'_>,
        explains: bool,
        report: &mut OnClassified<'_>,
    ) -> Result<()> {
        let rules = Rules::new(self, &mut self.open_list()?, explains)?;
        self.classify_by(&rules, source, report)
    }

    pub(crate) fn classify_by(
        &self,
        rules: &Rules,
        source: Source<'_>,
        report: &mut OnClassified<'_>,
    ) -> Result<()> {
        let (pool, total) = (Pool::new(self), source.len());
        let profile = self.options.profile;
        let make = |message: &[u8]| {
            pool.with(|worker| {
                worker.maker.read(message);
                worker.maker.tokenize(profile);
                let _asking = pool.asking();
                scored(worker, rules)
            })
        };
        let mut done = 0;
        each(&*self.vfs, source, self.options.threads, &make, &mut |at, outcome| {
            done += 1;
            self.report_progress(LongOperation::Classify, done, total);
            match outcome {
                ReadOutcome::Made(classified) => report(at, Ok(Some(classified?)))?,
                ReadOutcome::Gone => report(at, Ok(None))?,
                ReadOutcome::Unreadable(error) => report(at, Err(error.into()))?,
            }
            Ok(!self.is_stopped())
        })
    }

    /// Classifies one message.
    ///
    /// # Errors
    /// Errors of the word list.
    pub fn classify_message(&self, message: &[u8], explains: bool) -> Result<Classified> {
        let mut found = None;
        self.classify(Source::Messages(&[message]), explains, &mut |_, classified| {
            found = classified?;
            Ok(())
        })?;
        Ok(found.expect("because the message was given"))
    }
}

pub(crate) fn scored(worker: &mut Worker, rules: &Rules) -> Result<Classified> {
    worker.maker.sort();
    worker.look_up()?;
    let totals = counts(worker.list.totals()?);
    let parameters = &rules.parameters;
    let places = worker.maker.tokens().map(MessagePart::of);
    let known = places.zip(worker.counts.iter().map(|found| counts(*found)));
    let (score, explained) = match rules.explains {
        false => (worker.scorer.score(parameters, totals, known), None),
        true => {
            let mut scorer = std::mem::take(&mut worker.scorer);
            let evidence = known.map(|(place, counts)| Evidence { counts, totals, place });
            let explanation = scorer.explain(parameters, worker.maker.tokens().zip(evidence));
            let used = explanation.rows.iter().filter(|row| row.is_used);
            let tokens = used.map(|row| ExplainedToken {
                token: row.token.to_vec(),
                counts: row.evidence.counts,
                probability: row.probability,
            });
            let explained = Explained { totals, tokens: tokens.collect() };
            let score = explanation.score;
            worker.scorer = scorer;
            (score, Some(explained))
        }
    };
    let Score { spamicity, status, used, .. } = score;
    let generation = worker.list.generation();
    Ok(Classified { spamicity, status, used: Some(used), generation, is_kept: false, explained })
}

fn counts(counts: barid_wordlist::Counts) -> Counts {
    Counts { spam: counts.spam, ham: counts.ham }
}
