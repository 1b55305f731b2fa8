//! UW c-client behind its driver, started as a new process for each operation.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use barid_testkit::peers::CClient as Peer;
use barid_testkit::usage::{Sampling, Usage};

use super::material::RARE_WORD;
use super::step::{Program, Side, Store, Work};
use super::system::{Ready, System, as_io, give, restore};
use crate::lab::{Figures, fresh_folder};
use crate::systems::answer::{Answer, numbers, threads};
use crate::systems::cclient::{command, contents, count, figures_of, programs, sizes};
use crate::systems::run_quietly;

/// c-client with its copy of the mailbox.
#[derive(Debug)]
pub(crate) struct CClient {
    pub(crate) store: Store,
    /// The side's own folder: `home/box` is the mailbox, `first` an untouched copy of it.
    pub(crate) folder: PathBuf,
    /// The mbox that is converted.
    pub(crate) source: PathBuf,
}

/// The mailbox by c-client's name; c-client only looks in its home folder.
const NAME: &str = "box";

impl CClient {
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    fn start(&self, ready: Ready<'_>) -> Result<Peer> {
        Peer::new_when(&self.home(), &mut || as_io(ready())).context("c-client")
    }

    fn open(&self) -> Result<Peer> {
        let mut session = self.start(&mut || Ok(()))?;
        command(&mut session, &format!("open {NAME}"))?;
        Ok(session)
    }

    /// Returns the command of an operation on the open mailbox.
    fn command_of(work: Work) -> Option<String> {
        match work {
            Work::Select | Work::Convert => None,
            Work::Fetch => Some("fetch full".to_owned()),
            Work::All => Some("fetch all".to_owned()),
            Work::Thread => Some("thread REFERENCES".to_owned()),
            Work::Search => Some(format!("search {RARE_WORD}")),
        }
    }

    /// Makes the initial mailbox.
    pub(crate) fn fill(&self) -> Result<()> {
        fresh_folder(&self.home())?;
        self.copy_to(NAME, &mut || Ok(()))?;
        restore(&self.home().join(NAME), &self.folder.join("first"))
    }

    /// Copies the mbox with `mailutil`.
    fn copy_to(&self, name: &str, ready: Ready<'_>) -> Result<Usage> {
        restore(&self.source, &self.home().join("source"))?;
        let target = format!("#driver.{}/{name}", self.store.name());
        let mut command = Peer::mailutil_command(&self.home(), &["copy", "source", &target])?;
        ready()?;
        run_quietly(&mut command)
    }
}

impl System for CClient {
    fn side(&self) -> Side {
        Side::new(Program::CClient, self.store)
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.home(), self.source.clone()]
    }

    fn programs(&self) -> Vec<PathBuf> {
        programs()
    }

    fn reset(&mut self) -> Result<()> {
        let home = self.home();
        if disk::exists(&home) {
            disk::remove_tree(&home).with_context(|| home.display().to_string())?;
        }
        restore(&self.folder.join("first"), &home.join(NAME))?;
        give(&home)
    }

    fn run(&mut self, work: Work, _: Sampling, ready: Ready<'_>) -> Result<Figures> {
        if work == Work::Convert {
            return Ok(Figures::of_process(&self.copy_to("converted", ready)?));
        }
        let mut session = self.start(ready)?;
        command(&mut session, &format!("open {NAME}"))?;
        if let Some(text) = Self::command_of(work) {
            command(&mut session, &text)?;
        }
        figures_of(session)
    }

    fn answer(&mut self, work: Work) -> Result<Answer> {
        if work == Work::Convert {
            self.reset()?;
            self.copy_to("converted", &mut || Ok(()))?;
            let mut session = self.start(&mut || Ok(()))?;
            command(&mut session, "open converted")?;
            return contents(&mut session);
        }
        let mut session = self.open()?;
        match work {
            Work::Select | Work::Convert => count(&mut session).map(Answer::Count),
            Work::Fetch => contents(&mut session),
            Work::All => sizes(&mut session),
            Work::Thread => {
                let count = usize::try_from(count(&mut session)?)?;
                threads(&command(&mut session, "thread REFERENCES")?.concat(), count)
            }
            Work::Search => {
                numbers(&command(&mut session, &format!("search {RARE_WORD}"))?.join(" "))
            }
        }
    }

    fn index_bytes(&self) -> Result<u64> {
        Ok(0)
    }
}
