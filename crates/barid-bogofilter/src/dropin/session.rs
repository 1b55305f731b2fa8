//! One run of bogofilter: registering and judging messages, and writing them out.

use std::sync::Arc;

use barid_bayes::Status;
use barid_vfs::Vfs;
use barid_wordlist::{Batch, Class, Sums};

use super::printf;
use super::{Judge, Lists, ReadMessage, Registration, Result, Settings, Verdict};
use crate::limits::BATCH_LEN;

/// A run of bogofilter, message for message.
#[derive(Debug)]
pub struct BogofilterRun {
    judge: Judge,
    sums: Sums,
    /// Sum of the numbers of words of the messages in `sums`.
    sums_words: usize,
    sums_messages: u32,
    /// The running number of the message.
    number: u32,
    last: Option<Verdict>,
    /// The log line of the last registration.
    registered: Vec<u8>,
    run: &'static str,
}

/// Output of a run. The caller writes each part to its destination, after every message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Bytes for standard output, or for the file of `-O`.
    pub out: Vec<u8>,
    /// Bytes for standard error, or with `-D` for standard output.
    pub diagnostics: Vec<u8>,
    /// Lines for the system's log.
    pub logged: Vec<Vec<u8>>,
}

impl BogofilterRun {
    /// Creates a run with these settings and word lists.
    ///
    /// # Errors
    /// As [`Judge::new`].
    pub fn new(vfs: Arc<dyn Vfs>, settings: Settings, lists: Lists) -> Result<Self> {
        Ok(Self {
            judge: Judge::new(vfs, settings, lists)?,
            sums: Sums::default(),
            sums_words: 0,
            sums_messages: 0,
            number: 0,
            last: None,
            registered: Vec::new(),
            run: "",
        })
    }

    /// Returns the judge.
    pub fn judge(&mut self) -> &mut Judge {
        &mut self.judge
    }

    /// Returns the exit code after the last message, ignoring `-e`: 0 spam, 1 ham, 2 unsure, and 0
    /// if no message was judged.
    pub fn exit_code(&self) -> u8 {
        self.last.map_or(0, |verdict| verdict.exit_code())
    }

    /// Processes a message as the settings request. `name` is the file that it is from, if it is to
    /// be reported.
    ///
    /// # Errors
    /// [`super::Error::List`], [`super::Error::Directive`].
    pub fn message(
        &mut self,
        message: &[u8],
        name: Option<&[u8]>,
        reply: &mut Reply,
    ) -> Result<()> {
        self.judge.read(message);
        self.judge_read(message, name, reply)
    }

    /// As [`BogofilterRun::message`], for a message that was read ahead.
    ///
    /// # Errors
    /// As [`BogofilterRun::message`].
    pub fn read_message(&mut self, message: &mut ReadMessage, reply: &mut Reply) -> Result<()> {
        self.judge.take(&mut message.words);
        self.judge_read(&message.bytes, message.name.as_deref(), reply)
    }

    fn judge_read(&mut self, message: &[u8], name: Option<&[u8]>, reply: &mut Reply) -> Result<()> {
        self.number += 1;
        let Settings { registration, passes_through, is_quiet, verbose, logs, .. } =
            *self.judge.settings();
        match registration {
            Some(registration) if passes_through => self.register(registration, 1, reply)?,
            Some(registration) => self.collect(registration, reply)?,
            None => {}
        }
        if !self.judge.settings().classifies() {
            return Ok(());
        }
        let mut verdict = self.judge.score(message, self.number)?;
        if self.judge.settings().updates {
            self.update(&mut verdict, reply)?;
        }
        verdict.run = self.run;
        self.last = Some(verdict);
        if let Some(name) = name.filter(|_| verbose > 0 && !passes_through && !is_quiet) {
            reply.out.extend_from_slice(name);
            reply.out.push(b' ');
        }
        self.judge.write(message, &verdict, &mut reply.out)?;
        if logs && registration.is_none() {
            self.log(&verdict, reply)?;
            self.number = 0;
        }
        Ok(())
    }

    /// Ends the run: registers the collected messages.
    ///
    /// # Errors
    /// As [`BogofilterRun::message`].
    pub fn finish(&mut self, reply: &mut Reply) -> Result<()> {
        let Settings { registration, passes_through, logs, .. } = *self.judge.settings();
        if let Some(registration) = registration.filter(|_| !passes_through) {
            self.write_sums(registration, reply)?;
        }
        if logs && registration.is_some() {
            reply.logged.push(std::mem::take(&mut self.registered));
        }
        Ok(())
    }

    /// Registers the message as the class of its verdict, unless it is unsure or too certain.
    fn update(&mut self, verdict: &mut Verdict, reply: &mut Reply) -> Result<()> {
        let thresh = self.judge.settings().thresh_update;
        let spamicity = verdict.score.spamicity;
        let class = match verdict.status() {
            Status::Spam if spamicity <= 1.0 - thresh => Class::Spam,
            Status::Ham if spamicity >= thresh => Class::Ham,
            _ => return Ok(()),
        };
        let messages = if self.judge.settings().quirks.update_counts { self.number } else { 1 };
        self.register(Registration::of(class), messages, reply)
    }

    /// Registers the message that was read.
    fn register(
        &mut self,
        registration: Registration,
        messages: u32,
        reply: &mut Reply,
    ) -> Result<()> {
        let mut batch = Batch::new(self.judge.settings().date);
        let (add, sub) = registration.counts(1);
        for word in self.judge.words() {
            batch.change(word, add, sub)?;
        }
        let words = self.judge.words_len();
        self.write_batch(registration, batch, (words, messages), reply)
    }

    /// Keeps the words of the message until the end of the run.
    fn collect(&mut self, registration: Registration, reply: &mut Reply) -> Result<()> {
        let (add, sub) = registration.counts(1);
        self.sums.count(self.judge.hashed_words(), add, sub);
        self.sums_words += self.judge.words_len();
        self.sums_messages += 1;
        if self.sums.bytes_len() > BATCH_LEN {
            self.write_sums(registration, reply)?;
        }
        Ok(())
    }

    fn write_sums(&mut self, registration: Registration, reply: &mut Reply) -> Result<()> {
        let mut batch = Batch::new(self.judge.settings().date);
        self.sums.write(&mut batch)?;
        let words = match self.judge.settings().quirks.word_counts {
            true => self.sums.tokens_len() + self.sums_words,
            false => self.sums.tokens_len(),
        };
        let messages = self.sums_messages;
        self.sums = Sums::default();
        (self.sums_words, self.sums_messages) = (0, 0);
        self.write_batch(registration, batch, (words, messages), reply)
    }

    fn write_batch(
        &mut self,
        registration: Registration,
        mut batch: Batch,
        (words, messages): (usize, u32),
        reply: &mut Reply,
    ) -> Result<()> {
        let messages = if words == 0 { 0 } else { messages };
        self.run = registration.letters();
        if self.judge.settings().logs {
            self.print_registered(words, messages)?;
        }
        if self.judge.settings().verbose > 0 {
            let plural = |count: u64| if count == 1 { "" } else { "s" };
            let (s, t) = (plural(words as u64), plural(u64::from(messages)));
            let args = format_args!("# {words} word{s}, {messages} message{t}\n");
            printf::text(&mut reply.diagnostics, args);
        }
        let (add, sub) = registration.counts(messages);
        batch.messages(add, sub)?;
        let listed = self.judge.lists().default_list()?;
        listed.list.update(&batch)?;
        listed.totals = listed.list.totals()?;
        Ok(())
    }

    /// Stores the log line of a registration. Its score is that of the previous message.
    fn print_registered(&mut self, words: usize, messages: u32) -> Result<()> {
        let before = self.last.unwrap_or_else(|| self.judge.unjudged());
        let verdict = Verdict { words, number: messages, run: self.run, ..before };
        let format = self.judge.settings().formats.log_update.clone();
        self.registered.clear();
        let mut registered = std::mem::take(&mut self.registered);
        self.judge.write_format(&verdict, &format, &mut registered)?;
        self.registered = registered;
        Ok(())
    }

    fn log(&mut self, verdict: &Verdict, reply: &mut Reply) -> Result<()> {
        let mut line = Vec::new();
        let settings = self.judge.settings();
        self.judge.write_format(verdict, &settings.formats.log_header, &mut line)?;
        let says = settings.updates && verdict.status() != Status::Unsure;
        if says && !self.registered.is_empty() {
            line.extend_from_slice(b", ");
            line.append(&mut self.registered);
        }
        reply.logged.push(line);
        Ok(())
    }
}
