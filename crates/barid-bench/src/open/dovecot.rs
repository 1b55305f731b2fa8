//! Dovecot's `imap`, a new process for each step.
//!
//! It works on its own copy of the mbox, which already contains its headers: despite its default of
//! lazy writes, it rewrites a file without any UID at the first SELECT, and that is not compared.
//! SELECT is timed from the start of the process to its answer, THREAD from the command to its
//! answer.

use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context as _, Result};
use barid_testkit::peers::{Dovecot as Peer, Imap};
use barid_testkit::usage::Sampling;

use super::material::{Material, hand_over};
use super::step::{Part, Side, Step};
use super::system::{Answers, System};
use crate::lab::Figures;
use crate::systems::answer::{Answer, threads};
use crate::systems::dovecot::{exists, figures_of, select};

/// The number of messages that are compared by their order.
const NEWEST: usize = 50;
const THREAD: &str = "THREAD REFERENCES UTF-8 ALL";

/// Dovecot with its copy of the mbox, and the Maildir of all.
#[derive(Debug)]
pub(crate) struct Dovecot {
    pub(crate) peer: Peer,
    pub(crate) material: Rc<Material>,
    /// Its copy of the mbox.
    pub(crate) mbox: PathBuf,
}

impl Dovecot {
    /// Makes Dovecot write its headers into its copy of the mbox.
    pub(crate) fn fill(&self) -> Result<()> {
        hand_over(&self.mbox)?;
        self.session(Part::Mbox)?.0.logout().map(drop).context("LOGOUT")
    }

    /// Returns a session in which the mailbox is open, and its number of messages.
    fn session(&self, part: Part) -> Result<(Imap, u64)> {
        let location = match part {
            Part::Maildir | Part::Million => {
                self.peer.maildir_location(&self.material.of(part)?.path)
            }
            Part::Mbox | Part::Thread => self.peer.mbox_location(&self.mbox),
        };
        let mut session = self.peer.imap(&location, &[]).context("Dovecot")?;
        let count = exists(&select(&mut session)?)?;
        Ok((session, count.into()))
    }
}

impl System for Dovecot {
    fn side(&self) -> Side {
        Side::Dovecot
    }

    fn prepare(&mut self, step: Step) -> Result<()> {
        match step {
            Step::MboxFirst => self.peer.clear_indexes(&self.mbox).context("Dovecot's indexes"),
            _ => Ok(()),
        }
    }

    fn run(&mut self, step: Step, _: Sampling) -> Result<Figures> {
        let (mut session, _) = self.session(step.part())?;
        let mut real = session.elapsed();
        if step == Step::ThreadAgain {
            session.command(THREAD).context("Dovecot")?;
            real = session.elapsed() - real;
        }
        Ok(Figures { real_s: real.as_secs_f64(), ..figures_of(session)? })
    }

    fn answers(&mut self, part: Part) -> Result<Answers> {
        if part == Part::Million {
            return Ok(Answers::default());
        }
        let (mut session, count) = self.session(part)?;
        let mut answers = Answers { count: Some(count), ..Answers::default() };
        if part == Part::Thread {
            let reply = session.command(THREAD).context("Dovecot")?;
            let list = reply.find("THREAD").context("no THREAD response")?;
            answers.threads = Some(threads(&list, usize::try_from(count)?)?);
        } else {
            let reply = session.command("SORT (DATE) UTF-8 ALL").context("Dovecot")?;
            let mut order = reply.numbers("SORT").context("no SORT response")?;
            order.drain(..order.len().saturating_sub(NEWEST));
            answers.newest = Some(Answer::Numbers(order));
        }
        session.logout().context("LOGOUT")?;
        Ok(answers)
    }
}
