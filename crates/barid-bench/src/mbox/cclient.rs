//! UW c-client behind its driver, one session for all steps.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use barid_testkit::peers::CClient as Peer;
use barid_testkit::watch::Watch;
use barid_types::FlagSet;

use super::material::Material;
use super::model::{Model, lists};
use super::step::{Side, Step};
use super::system::{Mode, System, take};
use crate::lab::Figures;
use crate::limits::COMMAND_LEN_MAX;
use crate::systems::cclient::{command, figures_so_far, flags};

/// c-client with its copy of the mailbox.
#[derive(Debug)]
pub(crate) struct CClient {
    pub(crate) file: PathBuf,
    pub(crate) mode: Mode,
    pub(crate) session: Option<Peer>,
}

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

    fn command(&mut self, text: &str) -> Result<Vec<String>> {
        command(self.session()?, text)
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
        let (uids, letters) = (self.command("uids")?, self.command("flags")?);
        ensure!(uids.len() == letters.len(), "{} UIDs, {} flags", uids.len(), letters.len());
        let parse = |(uid, letters): (&String, &String)| {
            let uid = uid.parse().with_context(|| format!("UID {uid}"))?;
            Ok((uid, flags(letters)))
        };
        uids.iter().zip(&letters).map(parse).collect()
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
        Ok(Figures { real_s, barriers: session.barriers(), ..figures_so_far(session)? })
    }
}
