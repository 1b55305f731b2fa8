//! The program under test, started as a new process for each step.

use std::rc::Rc;

use anyhow::{Context as _, Result, ensure};
use barid_testkit::disk;
use barid_testkit::usage::Sampling;
use serde::Deserialize;

use super::material::Material;
use super::step::{Part, Side, Step};
use super::system::{Answers, System};
use crate::lab::Figures;
use crate::systems::answer::{Answer, threads};
use crate::systems::barid::BaridProcess;

/// The arguments that list the newest 50 messages by date.
pub(crate) const NEWEST_50: [&str; 5] = ["ls", "--sort", "date", "--limit", "50"];

/// barid with a cache and state for each mailbox.
#[derive(Debug)]
pub(crate) struct Barid {
    pub(crate) process: BaridProcess,
    pub(crate) material: Rc<Material>,
    /// The size of the mbox without deliveries.
    pub(crate) mbox_len: u64,
    /// Number of messages delivered to the mbox in all rounds.
    pub(crate) delivered: u64,
}

/// The field read from a line of `ls --json`.
#[derive(Deserialize)]
struct Line {
    seq: u32,
}

impl Barid {
    /// Returns the arguments of a step, with the mailbox as the last one.
    pub(crate) fn words(&self, step: Step) -> Result<Vec<String>> {
        let mailbox = self.mailbox(step.mailbox())?;
        let words: &[&str] = match step {
            Step::MaildirAll => &["ls"],
            Step::ThreadFirst | Step::ThreadAgain => &["thread", "--imap"],
            _ => &NEWEST_50,
        };
        let words = words.iter().map(|word| (*word).to_owned());
        Ok(words.chain([mailbox]).collect())
    }

    fn mailbox(&self, part: Part) -> Result<String> {
        Ok(self.material.of(part)?.path.display().to_string())
    }

    /// Removes cache and state, so that the next run is a first one; in a Maildir also the UID
    /// list. Without what was delivered to it, the mbox is as it was made.
    fn forget(&self, part: Part) -> Result<()> {
        let mailbox = self.material.of(part)?;
        if matches!(part, Part::Mbox | Part::Thread) {
            self.material.restore_mbox(self.mbox_len)?;
        }
        let list = mailbox.path.join("dovecot-uidlist");
        if disk::exists(&list) {
            disk::remove_file(&list).with_context(|| list.display().to_string())?;
        }
        self.process.forget(name_of(part))
    }

    fn text(&self, part: Part, words: &[&str]) -> Result<String> {
        let mailbox = self.mailbox(part)?;
        self.process.text(name_of(part), &[words, &[mailbox.as_str()]].concat())
    }
}

/// Returns the name of the cache and state of the mailbox of a part.
fn name_of(part: Part) -> &'static str {
    match part {
        Part::Mbox | Part::Thread => Part::Mbox.name(),
        other => other.name(),
    }
}

impl System for Barid {
    fn side(&self) -> Side {
        Side::Barid
    }

    fn prepare(&mut self, step: Step) -> Result<()> {
        let is_first = matches!(step, Step::MaildirFirst | Step::MboxFirst | Step::MillionFirst);
        if is_first {
            return self.forget(step.part());
        }
        match step {
            // The headers are cached, the threads are not.
            Step::ThreadFirst => {
                self.forget(Part::Thread)?;
                self.text(Part::Thread, &NEWEST_50).map(drop)
            }
            Step::MboxDelivered => {
                self.delivered += 1;
                self.material.deliver(self.delivered)
            }
            // What a first run leaves undone while files are new is done by the second.
            _ => self.run(step, Sampling::Off).map(drop),
        }
    }

    fn run(&mut self, step: Step, sampling: Sampling) -> Result<Figures> {
        let figures = self.process.run(name_of(step.mailbox()), &self.words(step)?, sampling)?;
        if step == Step::MboxDelivered {
            let seen = count(&self.text(Part::Mbox, &["status", "--json"])?)?;
            let expected = self.material.of(Part::Mbox)?.count + 1;
            ensure!(seen == expected, "{seen} messages after a delivery and not {expected}");
        }
        Ok(figures)
    }

    fn answers(&mut self, part: Part) -> Result<Answers> {
        self.forget(part)?;
        let status = self.text(part, &["status", "--json"])?;
        let mut answers = Answers { count: Some(count(&status)?), ..Answers::default() };
        match part {
            Part::Maildir | Part::Mbox => {
                let lines = self.text(part, &[&NEWEST_50[..], &["--json"]].concat())?;
                let number = |line: &str| {
                    let line: Line = serde_json::from_str(line).with_context(|| line.to_owned())?;
                    Ok::<_, anyhow::Error>(line.seq)
                };
                let numbers: Result<Vec<u32>> = lines.lines().map(number).collect();
                answers.newest = Some(Answer::Numbers(numbers?));
            }
            Part::Thread => {
                let text = self.text(part, &["thread", "--imap"])?;
                let list = text.trim().strip_prefix("* THREAD").context("no THREAD response")?;
                let count = usize::try_from(answers.count.unwrap_or_default())?;
                answers.threads = Some(threads(list, count)?);
            }
            Part::Million => {}
        }
        Ok(answers)
    }
}

/// Returns the number of messages that `status --json` reports.
fn count(status: &str) -> Result<u64> {
    #[derive(Deserialize)]
    struct Status {
        messages: u64,
    }
    let status: Status = serde_json::from_str(status).with_context(|| status.to_owned())?;
    Ok(status.messages)
}
