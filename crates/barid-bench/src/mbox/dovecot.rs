//! Dovecot's `imap`, one session for all steps.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use barid_testkit::disk;
use barid_testkit::peers::{Dovecot as Peer, Imap};
use barid_testkit::watch::{Watch, so_far};
use barid_types::{Flag, FlagSet};

use super::material::Material;
use super::model::{Model, lists};
use super::step::{Side, Step};
use super::system::{Mode, System, take};
use crate::lab::Figures;
use crate::limits::COMMAND_LEN_MAX;
use crate::systems::dovecot::{SELECT, select};

/// Dovecot with its copy of the mailbox.
#[derive(Debug)]
pub(crate) struct Dovecot {
    pub(crate) peer: Peer,
    pub(crate) is_lazy: bool,
    pub(crate) file: PathBuf,
    pub(crate) mode: Mode,
    pub(crate) session: Option<Imap>,
}

/// The command that makes Dovecot write.
const CHECK: &str = "CHECK";

impl Dovecot {
    fn start(&mut self) -> Result<()> {
        let location = self.peer.mbox_location(&self.file);
        let options = [("mbox_lazy_writes", if self.is_lazy { "yes" } else { "no" })];
        let session = match self.mode.is_counted {
            true => self.peer.imap_counted(&location, &options),
            false => self.peer.imap(&location, &options),
        };
        self.session = Some(session.context("Dovecot")?);
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        match self.session.take() {
            Some(session) => session.logout().map(drop).context("LOGOUT"),
            None => Ok(()),
        }
    }

    fn session(&mut self) -> Result<&mut Imap> {
        self.session.as_mut().context("no session of Dovecot")
    }

    fn command(&mut self, text: &str) -> Result<()> {
        self.session()?.command(text).map(drop).context("Dovecot")
    }

    /// Returns the commands of a step. Even without lazy writes, Dovecot checks the file only every
    /// few seconds unless CHECK asks for it.
    fn commands(&self, step: Step, model: &Model) -> Vec<String> {
        let target = model.targets(step).first().copied().unwrap_or(0);
        let store = |set: &str, flag: &str| format!("STORE {set} +FLAGS.SILENT (\\{flag})");
        let check = || CHECK.to_owned();
        match step {
            Step::Sync => vec![SELECT.to_owned()],
            Step::Late => vec![check()],
            Step::FlagOne => vec![store(&target.to_string(), "Flagged"), check()],
            Step::FlagLater => vec![store(&target.to_string(), "Answered")],
            Step::FlagAll => vec![store("1:*", "Seen"), check()],
            Step::ExpungeSmall | Step::ExpungeLarge | Step::ExpungeThird => {
                vec!["EXPUNGE".to_owned(), check()]
            }
            _ => Vec::new(),
        }
    }
}

impl System for Dovecot {
    fn side(&self) -> Side {
        if self.is_lazy { Side::DovecotLazy } else { Side::Dovecot }
    }

    fn file(&self) -> &Path {
        &self.file
    }

    fn begin(&mut self, mode: Mode) -> Result<()> {
        self.mode = mode;
        self.session = None;
        take(&self.file)?;
        self.peer.clear_indexes(&self.file)?;
        self.start()
    }

    fn prepare(&mut self, step: Step, model: &Model) -> Result<()> {
        match step {
            Step::ExpungeSmall | Step::ExpungeLarge | Step::ExpungeThird => {
                for list in lists(&model.targets(step), COMMAND_LEN_MAX) {
                    self.command(&format!("STORE {list} +FLAGS.SILENT (\\Deleted)"))?;
                }
                if !self.is_lazy {
                    self.command(CHECK)?;
                }
            }
            // A session with the mailbox selected would check it after each message.
            Step::Append | Step::AppendBatch => {
                self.stop()?;
                self.start()?;
            }
            Step::Open => self.stop()?,
            _ => {}
        }
        Ok(())
    }

    fn run(&mut self, step: Step, model: &Model, material: &Material) -> Result<Figures> {
        if step == Step::Open {
            return self.open();
        }
        let (commands, sampling) = (self.commands(step, model), self.mode.sampling);
        let session = self.session()?;
        let pid = session.pid().context("Dovecot has gone")?;
        let barriers = session.barriers();
        let batch = material.batch(step);
        let at_once = (step == Step::AppendBatch).then(|| multiappend(&batch.wire));
        let watch = Watch::start(pid, sampling);
        match step {
            Step::Append => batch.wire.iter().try_for_each(|message| {
                session.append("INBOX", "", message).map(drop).context("APPEND")
            })?,
            Step::AppendBatch => {
                session.command_bytes(&at_once.unwrap_or_default()).context("APPEND")?;
            }
            _ => {
                for command in &commands {
                    let reply = session.command(command).context("Dovecot")?;
                    let status = reply.status;
                    ensure!(!status.contains("READ-ONLY"), "Dovecot at {command}: {status}");
                }
            }
        }
        let mut figures = Figures::of_session(&watch.end());
        figures.barriers = session.barriers().zip(barriers).map(|(after, before)| after - before);
        if matches!(step, Step::Append | Step::AppendBatch) {
            self.command("SELECT INBOX")?;
        }
        Ok(figures)
    }

    fn view(&mut self) -> Result<Vec<(u32, FlagSet)>> {
        self.command("NOOP")?;
        let reply = self.session()?.command("FETCH 1:* (UID FLAGS)").context("FETCH")?;
        let lines = reply.untagged.iter().map(|line| String::from_utf8_lossy(line));
        let lines = lines.filter(|line| line.contains(" FETCH ("));
        lines.map(|line| parse(&line).with_context(|| line.into_owned())).collect()
    }

    fn index_bytes(&self) -> Result<u64> {
        Ok(disk::allocated(&self.peer.index_folder(&self.file))?)
    }

    fn end(&mut self) -> Result<()> {
        self.stop()?;
        Ok(self.peer.clear_indexes(&self.file)?)
    }
}

impl Dovecot {
    /// Opens the mailbox with SELECT in a new process, timed from the start of the process to the
    /// answer.
    fn open(&mut self) -> Result<Figures> {
        self.start()?;
        let session = self.session()?;
        select(session)?;
        let real_s = session.elapsed().as_secs_f64();
        let watched = so_far(session.pid().context("Dovecot has gone")?);
        Ok(Figures { real_s, barriers: session.barriers(), ..Figures::of_session(&watched) })
    }
}

/// Returns an APPEND of many messages (RFC 3502).
fn multiappend(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut text = b"APPEND INBOX".to_vec();
    for message in messages {
        text.extend_from_slice(format!(" {{{}+}}\r\n", message.len()).as_bytes());
        text.extend_from_slice(message);
    }
    text
}

/// Parses `3 FETCH (UID 4 FLAGS (\Seen))`.
fn parse(line: &str) -> Option<(u32, FlagSet)> {
    let uid = line.split("UID ").nth(1)?.split([' ', ')']).next()?.parse().ok()?;
    let flags = line.split("FLAGS (").nth(1)?.split(')').next()?;
    let flag = |name: &str| Flag::ALL.into_iter().find(|flag| flag.name() == name);
    Some((uid, flags.split(' ').filter_map(flag).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_is_read() {
        let flags = FlagSet::EMPTY.with(Flag::Seen).with(Flag::Answered);
        let check = |line, expected| assert_eq!(parse(line), expected, "{line}");
        check("3 FETCH (UID 4 FLAGS (\\Seen \\Answered))", Some((4, flags)));
        check("3 FETCH (FLAGS (NonJunk) UID 7)", Some((7, FlagSet::EMPTY)));
        check("3 FETCH (UID 4)", None);
    }
}
