//! A filter whose word list is an array, because tokens are replaced by numbers.

use std::collections::HashMap;

use barid_bayes::{
    Counts, Distinct, MessagePart, Options, Parameters, Profile, Score, Scorer, Status, Tokenizer,
};

use super::corpus::Corpus;
use super::report::Answer;
use super::splits::Range;

/// The results for all tested messages of a split.
pub(super) type Answers = Vec<Answer>;

/// The tokens of a corpus in one profile.
pub(super) struct Filter<'a> {
    corpus: &'a Corpus,
    parameters: Parameters,
    /// The tokens of each message, as numbers in the byte order of tokens.
    tokens: Vec<Vec<u32>>,
    /// The places of tokens, by their numbers.
    places: Vec<MessagePart>,
}

/// A word list.
struct List {
    counts: Vec<Counts>,
    totals: Counts,
}

impl<'a> Filter<'a> {
    /// Tokenises a corpus.
    pub(super) fn new(corpus: &'a Corpus, profile: Profile) -> Self {
        let mut tokenizer = Tokenizer::new(Options::new(profile));
        let (mut distinct, mut numbers) = (Distinct::new(), HashMap::<Vec<u8>, u32>::new());
        let mut tokens = Vec::with_capacity(corpus.messages.len());
        for message in &corpus.messages {
            distinct.read(&mut tokenizer, &message.text);
            let mut own = Vec::with_capacity(distinct.len());
            for token in distinct.iter() {
                let next = numbers.len() as u32;
                let known = numbers.get(token).copied();
                own.push(known.unwrap_or_else(|| *numbers.entry(token.to_vec()).or_insert(next)));
            }
            tokens.push(own);
        }
        let mut sorted: Vec<(Vec<u8>, u32)> = numbers.into_iter().collect();
        sorted.sort_unstable();
        let places = sorted.iter().map(|(token, _)| MessagePart::of(token)).collect();
        let mut ranks = vec![0; sorted.len()];
        for (rank, (_, number)) in sorted.iter().enumerate() {
            ranks[*number as usize] = rank as u32;
        }
        for own in &mut tokens {
            own.iter_mut().for_each(|number| *number = ranks[*number as usize]);
            own.sort_unstable();
        }
        let parameters = Parameters::new(profile);
        Self { corpus, parameters, tokens, places }
    }

    /// Returns the number of distinct tokens in the corpus.
    pub(super) fn distinct(&self) -> usize {
        self.places.len()
    }

    /// Returns the mean number of distinct tokens in a message.
    pub(super) fn tokens_per_message(&self) -> f64 {
        let all: usize = self.tokens.iter().map(Vec::len).sum();
        all as f64 / self.tokens.len().max(1) as f64
    }

    /// Returns the results of a list that was trained with a part of the corpus.
    pub(super) fn answers(&self, range: &Range) -> Answers {
        let mut list =
            List { counts: vec![Counts::default(); self.places.len()], totals: Counts::default() };
        range.train.iter().for_each(|index| self.train(&mut list, *index));
        let mut scorer = Scorer::new();
        let mut answers = Vec::with_capacity(range.test.len());
        for &index in &range.test {
            let score = self.score(&list, &mut scorer, index);
            let answer = self.answer(index, score);
            let is_right =
                if answer.is_spam { answer.is_taken_for_spam } else { answer.is_taken_for_ham };
            if range.learns && !is_right {
                self.train(&mut list, index);
            }
            answers.push(answer);
        }
        answers.drain(..range.warm_up());
        answers
    }

    fn train(&self, list: &mut List, index: usize) {
        let is_spam = self.corpus.messages[index].is_spam;
        let add = |counts: &mut Counts| {
            *if is_spam { &mut counts.spam } else { &mut counts.ham } += 1;
        };
        add(&mut list.totals);
        self.tokens[index].iter().for_each(|token| add(&mut list.counts[*token as usize]));
    }

    fn score(&self, list: &List, scorer: &mut Scorer, index: usize) -> Score {
        let evidence = |token: &u32| (self.places[*token as usize], list.counts[*token as usize]);
        scorer.score(&self.parameters, list.totals, self.tokens[index].iter().map(evidence))
    }

    fn answer(&self, index: usize, score: Score) -> Answer {
        Answer {
            is_spam: self.corpus.messages[index].is_spam,
            score: score.spamicity,
            is_taken_for_spam: score.status == Status::Spam,
            is_taken_for_ham: score.status == Status::Ham,
        }
    }
}
