//! Dovecot's `imap`, started as a new process for each operation.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use barid_testkit::peers::{Dovecot as Peer, Imap};
use barid_testkit::usage::Sampling;

use super::material::RARE_WORD;
use super::step::{Program, Side, Store, Work};
use super::system::{Ready, System, as_io, give, restore};
use crate::lab::{Figures, with_libraries};
use crate::limits::BODIES_AT_ONCE;
use crate::systems::answer::{
    Answer, CONTENT_ITEMS, body, content_hash, numbers, summary, threads,
};
use crate::systems::dovecot::{exists, figures_of, select};
use crate::systems::run_quietly;

/// Dovecot with its copy of the mailbox.
#[derive(Debug)]
pub(crate) struct Dovecot {
    pub(crate) peer: Rc<Peer>,
    pub(crate) store: Store,
    /// The side's own folder: `box` is the mailbox, `index` the indexes, `first` the indexes of a
    /// mailbox that was never opened, for the formats that require indexes.
    pub(crate) folder: PathBuf,
    /// The mbox that is converted.
    pub(crate) source: PathBuf,
}

impl Dovecot {
    fn in_folder(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn location(&self) -> String {
        self.location_of("box", "index", "control")
    }

    fn location_of(&self, mailbox: &str, index: &str, control: &str) -> String {
        let path = |name: &str| self.in_folder(name).display().to_string();
        let (mailbox, index) = (path(mailbox), path(index));
        match self.store {
            Store::Maildir => format!("maildir:{mailbox}:INDEX={index}:CONTROL={}", path(control)),
            Store::Sdbox | Store::Mdbox => {
                format!("{}:{mailbox}:INDEX={index}", self.store.name())
            }
            _ => format!("mbox:{}:INBOX={mailbox}:INDEX={index}", path("dir")),
        }
    }

    /// Imports all messages of the mbox into an empty mailbox.
    pub(crate) fn fill(&self) -> Result<()> {
        give(&self.folder)?;
        self.import(&self.location(), &mut || Ok(()))?;
        self.remove_caches()?;
        restore(&self.in_folder("index"), &self.in_folder("first"))
    }

    /// Removes the caches that the import wrote.
    fn remove_caches(&self) -> Result<()> {
        let mut waiting = vec![self.in_folder("index")];
        while let Some(path) = waiting.pop() {
            if let Ok(entries) = disk::list(&path) {
                waiting.extend(entries);
            } else if path.file_name().is_some_and(|name| name == "dovecot.index.cache") {
                disk::remove_file(&path).with_context(|| path.display().to_string())?;
            }
        }
        Ok(())
    }

    fn import(&self, location: &str, ready: Ready<'_>) -> Result<Figures> {
        // Dovecot looks for folders beside the mbox and writes its indexes there.
        let source = self.in_folder("source");
        restore(&self.source, &source.join("mbox"))?;
        disk::create_dir_all(&source.join("dir"))?;
        give(&source)?;
        let source = source.display();
        let source = format!("mbox:{source}/dir:INBOX={source}/mbox:INDEX=MEMORY");
        let args = ["import", &source, "", "mailbox", "INBOX"];
        let mut command = self.peer.doveadm_command(location, &[], &args)?;
        ready()?;
        Ok(Figures::of_process(&run_quietly(&mut command)?))
    }

    fn start(&self, location: &str, ready: Ready<'_>) -> Result<Imap> {
        let session = self.peer.imap_when(location, &[], &mut || as_io(ready()));
        let mut session = session.context("Dovecot")?;
        select(&mut session)?;
        Ok(session)
    }

    /// Returns the command of an operation on the open mailbox.
    fn command_of(work: Work) -> Option<String> {
        match work {
            Work::Select | Work::Convert => None,
            Work::Fetch => Some(
                "FETCH 1:* (FLAGS INTERNALDATE RFC822.SIZE ENVELOPE BODY BODY.PEEK[])".to_owned(),
            ),
            Work::All => Some("FETCH 1:* ALL".to_owned()),
            Work::Thread => Some("THREAD REFERENCES UTF-8 ALL".to_owned()),
            Work::Search => Some(format!("SEARCH BODY {RARE_WORD}")),
        }
    }

    fn count(&self, session: &mut Imap) -> Result<u32> {
        exists(&select(session)?)
    }

    fn fetched<T>(
        &self,
        session: &mut Imap,
        items: &str,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>> {
        let count = self.count(session)?;
        let mut found = Vec::with_capacity(count as usize);
        for first in (1..=count).step_by(BODIES_AT_ONCE) {
            let last = (first + BODIES_AT_ONCE as u32 - 1).min(count);
            let reply = session.command(&format!("FETCH {first}:{last} {items}"))?;
            // Other responses report flags.
            found.extend(reply.untagged.iter().filter_map(|response| parse(response)));
        }
        Ok(found)
    }

    fn contents(&self, session: &mut Imap) -> Result<Answer> {
        let hash = |response: &[u8]| body(response).map(content_hash);
        self.fetched(session, CONTENT_ITEMS, hash).map(Answer::Contents)
    }

    fn remove(&self, names: &[&str]) -> Result<()> {
        for path in names.iter().map(|name| self.in_folder(name)) {
            if disk::exists(&path) {
                disk::remove_tree(&path).with_context(|| path.display().to_string())?;
            }
        }
        Ok(())
    }

    fn converted(&self) -> String {
        self.location_of("converted", "converted-index", "converted-control")
    }
}

/// Names of the files that a conversion makes.
const CONVERTED: [&str; 3] = ["converted", "converted-index", "converted-control"];

impl System for Dovecot {
    fn side(&self) -> Side {
        Side::new(Program::Dovecot, self.store)
    }

    fn files(&self) -> Vec<PathBuf> {
        ["box", "index", "control"].map(|name| self.in_folder(name)).into()
    }

    fn programs(&self) -> Vec<PathBuf> {
        let programs = ["/usr/lib/dovecot/imap", "/usr/bin/doveconf", "/usr/bin/doveadm"];
        programs.iter().flat_map(|program| with_libraries(Path::new(program))).collect()
    }

    fn reset(&mut self) -> Result<()> {
        self.remove(&CONVERTED)?;
        match self.store {
            Store::Sdbox | Store::Mdbox => {
                restore(&self.in_folder("first"), &self.in_folder("index"))?;
                give(&self.in_folder("index"))
            }
            _ => self.remove(&["index", "control"]),
        }
    }

    fn run(&mut self, work: Work, _: Sampling, ready: Ready<'_>) -> Result<Figures> {
        if work == Work::Convert {
            return self.import(&self.converted(), ready);
        }
        let mut session = self.start(&self.location(), ready)?;
        if let Some(text) = Self::command_of(work) {
            session.drain(&text).context("Dovecot")?;
        }
        figures_of(session)
    }

    fn answer(&mut self, work: Work) -> Result<Answer> {
        if work == Work::Convert {
            self.reset()?;
            self.import(&self.converted(), &mut || Ok(()))?;
            let mut session = self.start(&self.converted(), &mut || Ok(()))?;
            return self.contents(&mut session);
        }
        let mut session = self.start(&self.location(), &mut || Ok(()))?;
        match work {
            Work::Select | Work::Convert => {
                self.count(&mut session).map(|count| Answer::Count(count.into()))
            }
            Work::Fetch => self.contents(&mut session),
            Work::All => self.fetched(&mut session, "ALL", summary).map(Answer::Summaries),
            Work::Thread | Work::Search => {
                let count = self.count(&mut session)? as usize;
                let text = Self::command_of(work).context("it has a command")?;
                let reply = session.command(&text).context("Dovecot")?;
                let name = if work == Work::Thread { "THREAD" } else { "SEARCH" };
                let found = reply.find(name).with_context(|| format!("no {name} response"))?;
                if work == Work::Thread { threads(&found, count) } else { numbers(&found) }
            }
        }
    }

    fn index_bytes(&self) -> Result<u64> {
        let index = self.in_folder("index");
        if disk::exists(&index) { Ok(disk::allocated(&index)?) } else { Ok(0) }
    }
}
