//! The messages that each query must find, by a plain search in the texts of every message.

use std::sync::atomic::AtomicBool;

use anyhow::Result;
use memchr::memmem::Finder;

use super::decode::fold;
use super::material::Material;
use super::query::{Field, Query};
use crate::lab::stoppable;

/// The messages that leave no doubt, and which of them each query must find.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Truth {
    /// By number of the message.
    judged: Vec<bool>,
    /// By query; numbers of messages, ascending.
    matches: Vec<Vec<u32>>,
}

impl Truth {
    /// Reads all messages once.
    pub(crate) fn of(material: &Material, queries: &[Query], stop: &AtomicBool) -> Result<Self> {
        let needles: Vec<String> = queries.iter().map(|query| fold(&query.needle)).collect();
        let finders: Vec<Finder<'_>> = needles.iter().map(Finder::new).collect();
        let mut truth = Self { judged: Vec::new(), matches: vec![Vec::new(); queries.len()] };
        for number in 0..material.count {
            let texts = stoppable(stop, material.texts(number))?;
            truth.judged.push(texts.is_some());
            let Some(texts) = texts else { continue };
            let (body, subject) = (fold(&texts.body), fold(&texts.subject));
            let header = fold(&texts.header.join("\n"));
            let number = u32::try_from(number)?;
            for ((query, finder), found) in queries.iter().zip(&finders).zip(&mut truth.matches) {
                let is_in = |text: &String| finder.find(text.as_bytes()).is_some();
                let is_match = match query.field {
                    Field::Body => is_in(&body),
                    Field::Subject => is_in(&subject),
                    Field::Text => is_in(&header) || is_in(&body),
                };
                if is_match {
                    found.push(number);
                }
            }
        }
        Ok(truth)
    }

    /// Returns the number of messages that leave no doubt.
    pub(crate) fn judged(&self) -> u64 {
        self.judged.iter().filter(|is_judged| **is_judged).count() as u64
    }

    /// Returns the messages that a query must find.
    pub(crate) fn matches(&self, query: usize) -> &[u32] {
        &self.matches[query]
    }

    /// Compares what a side has found with what a query must find; both ascend. Messages that leave
    /// doubts do not count.
    pub(crate) fn compare(&self, query: usize, found: &[u32]) -> Difference {
        let is_judged =
            |number: &&u32| self.judged.get(**number as usize).is_some_and(|judged| *judged);
        let true_ones = self.matches(query);
        let is_true = |number: &&u32| true_ones.binary_search(number).is_ok();
        let is_found = |number: &&u32| found.binary_search(number).is_ok();
        Difference {
            missed: true_ones.iter().filter(|number| !is_found(number)).copied().collect(),
            added: found.iter().filter(|n| is_judged(n) && !is_true(n)).copied().collect(),
        }
    }
}

/// A difference of an answer from the truth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Messages that are not found but should be.
    pub(crate) missed: Vec<u32>,
    /// Messages that are found but should not be.
    pub(crate) added: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_judged_messages_count() {
        let truth =
            Truth { judged: vec![true, true, false, true, true], matches: vec![vec![0, 3, 4]] };
        assert_eq!(truth.judged(), 4);
        assert_eq!(truth.compare(0, &[0, 2, 3, 4]), Difference::default());
        let expected = Difference { missed: vec![0, 4], added: vec![1] };
        assert_eq!(truth.compare(0, &[1, 2, 3, 99]), expected);
    }
}
