//! Makes the mailboxes of all sides before anything is measured.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use anyhow::Result;
use barid_testkit::peers::{CClient as CClientPeer, Dovecot as DovecotPeer};

use super::Options;
use super::barid::Barid;
use super::cclient::CClient;
use super::dovecot::Dovecot;
use super::material::Material;
use super::step::{Program, Side, Store, Work};
use super::system::{System, give, restore};
use crate::lab::{Runner, fresh_folder, short};

/// Makes the mailboxes of all sides.
#[derive(Debug)]
pub(crate) struct Maker<'a> {
    options: &'a Options,
    material: &'a Material,
    work: &'a Path,
    /// Notes for the report, such as skipped sides.
    pub(crate) notes: Vec<String>,
    /// `true` if the program can convert mailboxes.
    converts: bool,
}

impl<'a> Maker<'a> {
    pub(crate) fn new(options: &'a Options, material: &'a Material, work: &'a Path) -> Self {
        let mut command = Command::new(&options.program);
        command.args(["convert", "--help"]).stdin(Stdio::null());
        let converts = command.output().is_ok_and(|output| output.status.success());
        Self { options, material, work, notes: Vec::new(), converts }
    }

    /// Returns barid's command lines, without the paths of this machine.
    pub(crate) fn commands(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for work in self.works() {
            let sides = self.options.stores.iter().map(|store| Side::new(Program::Barid, *store));
            let Some(side) = sides.into_iter().find(|side| work.is_of(*side)) else { continue };
            let words = self.own(side, self.work.join(side.store.name())).words(work).join(" ");
            let words = words.replace(&*self.work.to_string_lossy(), "DIR");
            lines.push(format!("barid {}", short(&words)));
        }
        lines
    }

    fn own(&self, side: Side, folder: PathBuf) -> Barid {
        let (program, source) = (self.options.program.clone(), self.material.mbox.clone());
        let runner =
            Runner { launcher: self.options.launcher.clone(), folder: self.work.to_owned() };
        Barid { program, store: side.store, folder, source, runner }
    }

    /// Makes a new folder for a side, accessible to peers.
    fn folder(&self, side: Side) -> Result<PathBuf> {
        let folder = self.work.join(side.to_string().replace(' ', "-"));
        fresh_folder(&folder)?;
        Ok(folder)
    }

    /// Makes all sides that can run, in the order of the tables.
    pub(crate) fn systems(&mut self) -> Result<Vec<Box<dyn System>>> {
        let wants = |peer| self.options.peers.contains(&peer);
        let (wants_cclient, wants_dovecot) = (wants(Program::CClient), wants(Program::Dovecot));
        let peer = wants_dovecot.then(DovecotPeer::new).flatten().map(Rc::new);
        // A start shows whether c-client works.
        let has_cclient = wants_cclient && CClientPeer::new().is_some();
        for (is_missing, program) in [
            (wants_cclient && !has_cclient, Program::CClient),
            (wants_dovecot && peer.is_none(), Program::Dovecot),
        ] {
            if is_missing {
                self.notes.push(format!("skipped: {} is missing", program.name()));
            }
        }
        let sides = |program| Side::ALL.into_iter().filter(move |side| side.program == program);
        let mut cclients = Vec::new();
        for side in sides(Program::CClient).filter(|_| has_cclient) {
            cclients.push(self.cclient(side)?);
        }
        let mut all: Vec<Box<dyn System>> = Vec::new();
        for side in sides(Program::Barid).filter(|side| self.options.stores.contains(&side.store)) {
            match self.barid(side, &cclients)? {
                Some(system) => all.push(Box::new(system)),
                None => self.notes.push(format!("skipped: {side}: nobody makes its mailbox")),
            }
        }
        all.extend(cclients.into_iter().map(|system| Box::new(system) as Box<dyn System>));
        for side in sides(Program::Dovecot) {
            if let Some(peer) = &peer {
                all.push(Box::new(self.dovecot(side, peer)?));
            }
        }
        Ok(all)
    }

    /// Returns the requested operations that the program supports.
    pub(crate) fn works(&self) -> Vec<Work> {
        let can = |work: &Work| self.converts || *work != Work::Convert;
        self.options.works.iter().copied().filter(can).collect()
    }

    /// Makes barid's side. For mbx and mix it uses a mailbox that c-client made, if there is one;
    /// returns `None` if nothing can make the mailbox.
    fn barid(&self, side: Side, cclients: &[CClient]) -> Result<Option<Barid>> {
        let barid = self.own(side, self.folder(side)?);
        let mailbox = barid.mailbox();
        let made = cclients.iter().find(|made| made.side().store == side.store);
        match (side.store, made) {
            (Store::Maildir, _) => self.material.write_maildir(&mailbox)?,
            (Store::Mh, _) => self.material.write_mh(&mailbox)?,
            (Store::Mbx | Store::Mix, Some(made)) => {
                restore(&made.folder.join("first"), &mailbox)?;
            }
            (Store::Mbx | Store::Mix, None) if self.converts => barid.convert_to(&mailbox)?,
            (Store::Mbx | Store::Mix, None) => return Ok(None),
            _ => restore(&self.material.mbox, &mailbox)?,
        }
        Ok(Some(barid))
    }

    fn cclient(&self, side: Side) -> Result<CClient> {
        let (folder, source) = (self.folder(side)?, self.material.mbox.clone());
        let system = CClient { store: side.store, folder, source };
        match side.store {
            Store::Mbox => restore(&self.material.mbox, &system.folder.join("first"))?,
            _ => system.fill()?,
        }
        Ok(system)
    }

    fn dovecot(&self, side: Side, peer: &Rc<DovecotPeer>) -> Result<Dovecot> {
        let (folder, source) = (self.folder(side)?, self.material.mbox.clone());
        let peer = Rc::clone(peer);
        let system = Dovecot { peer, store: side.store, folder, source };
        match side.store {
            Store::Mbox => restore(&self.material.mbox, &system.folder.join("box"))?,
            Store::Maildir => self.material.write_maildir(&system.folder.join("box"))?,
            _ => system.fill()?,
        }
        give(&system.folder)?;
        Ok(system)
    }
}
