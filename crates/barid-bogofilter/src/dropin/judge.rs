//! Judging a message and formatting the verdict.

use std::sync::Arc;

use barid_bayes::{
    AddressPrefix, Evidence, Explanation, Facts, Options, Parameters, Score, Scorer, Status,
    Tokenizer,
};
use barid_vfs::Vfs;
use barid_wordlist::{storable_hashed, storable_tokens};

use super::ahead::MessageWords;
use super::format::Saying;
use super::pass::pass;
use super::{Error, Lists, Result, Settings};

/// Judges messages, one after another, with word lists that stay open. Several judges may use one
/// list at once, each with its own handle; for bogofilter's own files they must take turns, because
/// a process that closes such a file releases all its locks on it.
#[derive(Debug)]
pub struct Judge {
    vfs: Arc<dyn Vfs>,
    settings: Settings,
    /// The requested parameters, regardless of the lists.
    asked: Parameters,
    lists: Lists,
    tokenizer: Tokenizer,
    words: MessageWords,
    scorer: Scorer,
    evidence: Vec<Evidence>,
    /// `true` once the lists' own values (encoding, robx, version) were applied.
    is_settled: bool,
}

/// Verdict on a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Score and its class.
    pub score: Score,
    /// Number of distinct words.
    pub words: usize,
    /// Its number among the messages of a run, for `%m`.
    pub number: u32,
    /// Letters of its registration, for `%r`.
    pub(super) run: &'static str,
}

impl Verdict {
    /// Returns the class.
    pub fn status(&self) -> Status {
        self.score.status
    }

    /// Returns the exit code of a program for this verdict: 0 spam, 1 ham, 2 unsure.
    pub fn exit_code(&self) -> u8 {
        match self.score.status {
            Status::Spam => 0,
            Status::Ham => 1,
            Status::Unsure => 2,
        }
    }
}

impl Judge {
    /// Creates a judge with these settings and word lists.
    ///
    /// # Errors
    /// [`Error::Robx`]; as [`Lists::ask`].
    pub fn new(vfs: Arc<dyn Vfs>, settings: Settings, mut lists: Lists) -> Result<Self> {
        if settings.tokens.block_on_subnets {
            lists.ask()?;
        }
        let mut judge = Self {
            vfs,
            tokenizer: Tokenizer::new(settings.tokens.clone()),
            asked: settings.parameters,
            settings,
            lists,
            words: MessageWords::default(),
            scorer: Scorer::new(),
            evidence: Vec::new(),
            is_settled: false,
        };
        if judge.lists.are_known() {
            judge.settle()?;
        }
        Ok(judge)
    }

    /// Applies the lists' own values to the settings. Returns `true` if words are made differently
    /// from now on.
    fn settle(&mut self) -> Result<bool> {
        let settings = &mut self.settings;
        settings.parameters = self.asked.filled_in(self.lists.robx());
        let robx = settings.parameters.robx;
        if !(0.0..=1.0).contains(&robx) {
            return Err(Error::Robx(robx));
        }
        settings.encoding = Some(self.lists.encoding());
        let address_prefix = match self.lists.has_ip_prefix() {
            true => AddressPrefix::Ip,
            false => AddressPrefix::Url,
        };
        let word_encoding = self.lists.encoding();
        let options = Options { word_encoding, address_prefix, ..settings.tokens.clone() };
        let before = self.tokenizer.options();
        let is_same = before.word_encoding == word_encoding
            && (before.address_prefix == address_prefix || !options.block_on_subnets);
        if !is_same {
            self.tokenizer = Tokenizer::new(options);
        }
        self.is_settled = true;
        Ok(!is_same)
    }

    /// Returns the settings, with unset values filled in.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the options for making words of messages.
    ///
    /// # Errors
    /// As [`Judge::new`].
    pub fn token_options(&mut self) -> Result<&Options> {
        if !self.is_settled {
            self.lists.ask()?;
            self.settle()?;
        }
        Ok(self.tokenizer.options())
    }

    /// Returns the word lists.
    pub fn lists(&mut self) -> &mut Lists {
        &mut self.lists
    }

    /// Loads what others have trained since the lists were opened or last refreshed.
    ///
    /// # Errors
    /// [`Error::List`].
    pub fn refresh(&mut self) -> Result<()> {
        if self.lists.refresh()? {
            self.settle()?;
        }
        Ok(())
    }

    /// Judges a message as it arrives: with a From_ line, with LF or CRLF.
    ///
    /// # Errors
    /// [`Error::List`].
    pub fn judge(&mut self, message: &[u8]) -> Result<Verdict> {
        self.read(message);
        self.score(message, 1)
    }

    /// Reads a message in place of the one before.
    pub(super) fn read(&mut self, message: &[u8]) {
        self.words.read(&mut self.tokenizer, message);
    }

    /// Takes the words of a message in place of the one before; `words` receives the previous
    /// words.
    pub(super) fn take(&mut self, words: &mut MessageWords) {
        std::mem::swap(&mut self.words, words);
    }

    /// Returns the words of the message, in byte order once it was scored.
    pub(super) fn words(&self) -> impl Iterator<Item = &[u8]> + Clone {
        storable_tokens(&self.words.distinct)
    }

    /// Returns the words with their hashes.
    pub(super) fn hashed_words(&self) -> impl Iterator<Item = (u32, &[u8])> + Clone {
        storable_hashed(&self.words.distinct)
    }

    /// Returns the number of words.
    pub(super) fn words_len(&self) -> usize {
        self.words.distinct.len()
    }

    /// Scores the message that was read.
    pub(super) fn score(&mut self, message: &[u8], number: u32) -> Result<Verdict> {
        self.look_up()?;
        if !self.is_settled && self.settle()? {
            self.read(message);
            self.look_up()?;
        }
        let evidence = self.evidence.iter().copied();
        let score = self.scorer.score_evidence(&self.settings.parameters, evidence);
        Ok(Verdict { score, words: self.words.distinct.len(), number, run: "" })
    }

    fn look_up(&mut self) -> Result<()> {
        self.words.distinct.sort();
        let words: Vec<&[u8]> = storable_tokens(&self.words.distinct).collect();
        self.lists.look_up(&words, &mut self.evidence)
    }

    /// Returns the facts that the message states about itself.
    pub(super) fn facts(&self) -> &Facts {
        &self.words.facts
    }

    /// Returns the verdict that is reported for a message before it was judged.
    pub(super) fn unjudged(&self) -> Verdict {
        let parameters = &self.settings.parameters;
        let (spamicity, min_dev) = (0.0, parameters.min_dev);
        let status = parameters.status(spamicity);
        let score = Score { spamicity, status, used: 0, p: 0.0, q: 0.0, min_dev };
        Verdict { score, words: 0, number: 0, run: "" }
    }

    /// Explains the contribution of each word of the message to its score.
    pub fn explain(&mut self) -> Explanation<'_> {
        let words = storable_tokens(&self.words.distinct).zip(self.evidence.iter().copied());
        self.scorer.explain(&self.settings.parameters, words)
    }

    /// Writes the line with the verdict on the message judged last, without a line end: the header
    /// line, or with [`Settings::is_terse`] the terse one.
    ///
    /// # Errors
    /// [`Error::Directive`].
    pub fn write_line(&self, verdict: &Verdict, to: &mut Vec<u8>) -> Result<()> {
        let formats = &self.settings.formats;
        let format = if self.settings.is_terse { &formats.terse } else { &formats.header };
        self.write_format(verdict, format, to)
    }

    pub(super) fn write_format(
        &self,
        verdict: &Verdict,
        format: &[u8],
        to: &mut Vec<u8>,
    ) -> Result<()> {
        let Verdict { score, words, number, run } = *verdict;
        let (settings, facts) = (&self.settings, self.facts());
        let now = self.vfs.now().unix_seconds();
        let (spamicity, status) = (score.spamicity, score.status);
        let messages = number;
        Saying { settings, facts, spamicity, status, words, messages, run, now }.write(format, to)
    }

    /// Writes bogofilter's output for the message judged last: nothing, a line, statistics, or with
    /// [`Settings::passes_through`] the message with them in its header.
    ///
    /// # Errors
    /// [`Error::Directive`].
    pub fn write(&mut self, message: &[u8], verdict: &Verdict, to: &mut Vec<u8>) -> Result<()> {
        let Settings { passes_through, is_terse, verbose, r_table, .. } = self.settings;
        let mut line = Vec::new();
        let is_said = passes_through || verbose > 0 || is_terse;
        if is_said {
            self.write_line(verdict, &mut line)?;
        }
        let mut stats = Vec::new();
        if passes_through || verbose > 0 || r_table {
            self.write_stats(verdict, &mut stats);
        }
        if passes_through {
            pass(&self.settings, self.facts(), message, verdict.score.status, (&line, &stats), to);
            return Ok(());
        }
        if is_said {
            to.extend_from_slice(&line);
            to.push(b'\n');
        }
        to.extend_from_slice(&stats);
        Ok(())
    }

    /// Writes the requested statistics, more of them with [`Settings::passes_through`].
    fn write_stats(&mut self, verdict: &Verdict, to: &mut Vec<u8>) {
        let Settings { stats_in_header, r_table, unsure_stats, is_quiet, .. } = self.settings;
        let verbose = self.settings.verbose + u32::from(self.settings.passes_through);
        let is_unsure = unsure_stats && verdict.score.status == Status::Unsure && verbose > 0;
        if is_quiet || !(r_table || is_unsure || verbose >= 2) {
            return;
        }
        let parameters = self.settings.parameters;
        let token_len_max = self.settings.tokens.token_len_max;
        let explanation = self.explain();
        let indent = if stats_in_header { "  " } else { "" };
        if r_table {
            explanation.write_r_table(&parameters, indent, token_len_max, to);
        } else if verbose >= 3 {
            explanation.write_table(&parameters, indent, token_len_max, to);
        } else {
            let indent = if stats_in_header { "  " } else { "# " };
            if !stats_in_header {
                to.push(b'\n');
            }
            explanation.write_histogram(&parameters, indent, to);
        }
    }
}
