//! NeoMutt on the Maildir, with the header cache of Debian's build.

use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use barid_testkit::peers::{NeoMuttEnd, NeoMuttRun, NeoMuttSettings};
use barid_testkit::usage::Sampling;

use super::material::Material;
use super::step::{Part, Side, Step};
use super::system::{Answers, System};
use crate::lab::{Figures, fresh_folder};
use crate::systems::neomutt::NeoMuttProcess;

/// The store of the header cache.
pub(crate) const STORE: &str = "tokyocabinet";

/// NeoMutt with its header cache.
#[derive(Debug)]
pub(crate) struct NeoMutt {
    pub(crate) process: NeoMuttProcess,
    pub(crate) material: Rc<Material>,
    /// The folder of configuration and header cache.
    pub(crate) folder: PathBuf,
}

impl NeoMutt {
    fn open(&self, end: NeoMuttEnd, sampling: Sampling) -> Result<NeoMuttRun> {
        let cache = self.folder.join("cache");
        let settings = NeoMuttSettings {
            maildir: &self.material.of(Part::Maildir)?.path,
            cache: &cache,
            store: STORE,
            compression: None,
            end,
        };
        self.process.start(&settings, &self.folder, sampling)
    }
}

impl System for NeoMutt {
    fn side(&self) -> Side {
        Side::NeoMutt
    }

    fn prepare(&mut self, step: Step) -> Result<()> {
        if step == Step::MaildirFirst { fresh_folder(&self.folder.join("cache")) } else { Ok(()) }
    }

    fn run(&mut self, _: Step, sampling: Sampling) -> Result<Figures> {
        let run = self.open(NeoMuttEnd::Leave, sampling)?;
        let index_bytes = disk::allocated(&self.folder.join("cache"))?;
        Ok(Figures { index_bytes, ..Figures::of_process(&run.usage) })
    }

    fn answers(&mut self, part: Part) -> Result<Answers> {
        if part != Part::Maildir {
            return Ok(Answers::default());
        }
        fresh_folder(&self.folder.join("cache"))?;
        let run = self.open(NeoMuttEnd::Count, Sampling::Off)?;
        let count = run.messages.context("NeoMutt does not say how many messages there are")?;
        Ok(Answers { count: Some(count.into()), ..Answers::default() })
    }
}
