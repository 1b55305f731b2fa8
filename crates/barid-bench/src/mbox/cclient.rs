//! UW c-client behind its driver, one session for all steps.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use barid_testkit::peers::CClient as Peer;
use barid_testkit::watch::{Watch, so_far};
use barid_types::{Flag, FlagSet};

use super::material::Material;
use super::model::{Model, lists};
use super::step::{Side, Step};
use super::system::{Mode, System, take};
use crate::lab::Figures;
use crate::limits::COMMAND_LEN_MAX;

/// c-client with its copy of the mailbox.
#[derive(Debug)]
pub(crate) struct CClient {
    pub(crate) file: PathBuf,
    pub(crate) mode: Mode,
    pub(crate) session: Option<Peer>,
}

/// The prefix of error messages of the library.
const ERROR: &str = "2 ";

impl CClient {
    fn start(&mut self) -> Result<()> {
        let session = Peer::new_in(self.file.parent(), self.mode.is_counted);
        self.session = Some(session.context("c-client is missing")?);
        Ok(())
    }

    /// Returns the name of the mailbox in the home folder of the driver; c-client looks nowhere
    /// else.
    fn name(&self) -> String {
        self.file.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn session(&mut self) -> Result<&mut Peer> {
        self.session.as_mut().context("no session of c-client")
    }

    /// Returns the answer to a command.
    ///
    /// # Errors
    ///
    /// Returns an error if the library reports one.
    fn command(&mut self, text: &str) -> Result<Vec<String>> {
        let session = self.session()?;
        session.messages.clear();
        let lines = session.command(text).context("c-client")?;
        let is_error = |said: &&String| said.starts_with(ERROR) || said.starts_with("needs ");
        if let Some(said) = session.messages.iter().find(is_error) {
            let words: String = text.chars().take(80).collect();
            bail!("c-client at {words}: {said}");
        }
        Ok(lines)
    }

    fn commands(&self, step: Step, model: &Model, material: &Material) -> Vec<String> {
        let file = self.name();
        let target = model.targets(step).first().copied().unwrap_or(0);
        let set = |set: &str, flag: &str| format!("setflag {set} \\{flag}");
        let check = || "check".to_owned();
        let framed = material.batch(step).framed.display();
        match step {
            Step::Sync => vec![format!("open {file}"), check()],
            Step::FlagOne => vec![set(&target.to_string(), "Flagged"), check()],
            Step::FlagLater => vec![set(&target.to_string(), "Answered")],
            Step::FlagAll => vec![set(&format!("1:{}", model.len()), "Seen"), check()],
            Step::ExpungeSmall | Step::ExpungeLarge | Step::ExpungeThird => {
                vec!["expunge".to_owned()]
            }
            Step::Append => vec![format!("append {file} {framed}")],
            Step::AppendBatch => vec![format!("multiappend {file} {framed}")],
            _ => Vec::new(),
        }
    }
}

impl System for CClient {
    fn side(&self) -> Side {
        Side::CClient
    }

    fn file(&self) -> &Path {
        &self.file
    }

    fn begin(&mut self, mode: Mode) -> Result<()> {
        self.mode = mode;
        self.session = None;
        take(&self.file)?;
        self.start()
    }

    fn prepare(&mut self, step: Step, model: &Model) -> Result<()> {
        match step {
            Step::ExpungeSmall | Step::ExpungeLarge | Step::ExpungeThird => {
                for list in lists(&model.targets(step), COMMAND_LEN_MAX) {
                    self.command(&format!("setflag {list} \\Deleted"))?;
                }
            }
            Step::Open => {
                // c-client writes pending changes when it ends.
                if let Some(session) = self.session.take() {
                    session.quit().context("c-client")?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn run(&mut self, step: Step, model: &Model, material: &Material) -> Result<Figures> {
        if step == Step::Open {
            return self.open();
        }
        let (commands, sampling) = (self.commands(step, model, material), self.mode.sampling);
        let session = self.session()?;
        let before = session.barriers();
        let watch = Watch::start(session.pid().context("c-client has gone")?, sampling);
        for command in &commands {
            let lines = self.command(command)?;
            ensure!(
                !command.contains("append ")
                    || lines == [material.batch(step).wire.len().to_string()],
                "c-client appended {lines:?}"
            );
        }
        let mut figures = Figures::of_session(&watch.end());
        let after = self.session()?.barriers();
        figures.barriers = after.zip(before).map(|(after, before)| after - before);
        Ok(figures)
    }

    fn view(&mut self) -> Result<Vec<(u32, FlagSet)>> {
        self.command("ping")?;
        let (uids, flags) = (self.command("uids")?, self.command("flags")?);
        ensure!(uids.len() == flags.len(), "{} UIDs, {} flags", uids.len(), flags.len());
        let parse = |(uid, flags): (&String, &String)| {
            let uid = uid.parse().with_context(|| format!("UID {uid}"))?;
            Ok((uid, letters(flags)))
        };
        uids.iter().zip(&flags).map(parse).collect()
    }

    fn index_bytes(&self) -> Result<u64> {
        Ok(0)
    }

    fn end(&mut self) -> Result<()> {
        self.session = None;
        Ok(())
    }
}

impl CClient {
    /// Opens the mailbox in a new process, timed from the start of the process to the answer.
    fn open(&mut self) -> Result<Figures> {
        self.start()?;
        let command = format!("open {}", self.name());
        self.command(&command)?;
        let session = self.session()?;
        let real_s = session.elapsed().as_secs_f64();
        let watched = so_far(session.pid().context("c-client has gone")?);
        Ok(Figures { real_s, barriers: session.barriers(), ..Figures::of_session(&watched) })
    }
}

/// Parses the flags of a line of the driver.
fn letters(line: &str) -> FlagSet {
    let flag = |letter| match letter {
        'A' => Some(Flag::Answered),
        'D' => Some(Flag::Deleted),
        'F' => Some(Flag::Flagged),
        'S' => Some(Flag::Seen),
        'T' => Some(Flag::Draft),
        'R' => Some(Flag::Recent),
        _ => None,
    };
    line.split('-').next().unwrap_or_default().chars().filter_map(flag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_flags() {
        assert_eq!(letters("FS- Seen"), FlagSet::EMPTY.with(Flag::Flagged).with(Flag::Seen));
        assert_eq!(letters("-"), FlagSet::EMPTY);
    }
}
