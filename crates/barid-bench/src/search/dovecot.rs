//! Dovecot's `imap`, with the text index of fts-xapian or without.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use barid_testkit::disk;
use barid_testkit::peers::{Dovecot as DovecotPeer, Imap, Reply};
use barid_testkit::usage::{Sampling, measure};

use super::material::messages_of;
use super::query::Query;
use super::step::Side;
use super::system::{Size, System};
use crate::lab::Figures;
use crate::limits::STEP_DEADLINE;
use crate::systems::dovecot::{figures_of, select};

/// The settings of the text index, as its manual has them: all parts of words of 3 to 20
/// characters.
const FTS: [(&str, &str); 3] = [
    ("mail_plugins", "fts fts_xapian"),
    ("plugin/fts", "xapian"),
    ("plugin/fts_xapian", "partial=3 full=20"),
];

/// The library of the text index.
const LIBRARY: &str = "/usr/lib/dovecot/modules/lib21_fts_xapian_plugin.so";

/// Dovecot with indexes of its own.
#[derive(Debug)]
pub(crate) struct Dovecot {
    pub(crate) peer: DovecotPeer,
    pub(crate) maildir: PathBuf,
    /// [`Side::Dovecot`] or [`Side::Fts`].
    pub(crate) side: Side,
}

impl Dovecot {
    /// Prepares a Dovecot; `None` if it, or its text index, is not installed.
    pub(crate) fn new(side: Side, maildir: PathBuf) -> Option<Self> {
        if side == Side::Fts && !disk::exists(LIBRARY.as_ref()) {
            return None;
        }
        Some(Self { peer: DovecotPeer::new()?, maildir, side })
    }

    fn location(&self) -> String {
        self.peer.maildir_location(&self.maildir)
    }

    fn settings(&self) -> &'static [(&'static str, &'static str)] {
        if self.side == Side::Fts { &FTS } else { &[] }
    }

    fn session(&self) -> Result<Imap> {
        self.peer.imap(&self.location(), self.settings()).context("Dovecot")
    }

    /// Searches in a new session.
    fn search(&self, query: &Query) -> Result<(Imap, Reply)> {
        let mut session = self.session()?;
        select(&mut session)?;
        let (key, needle) = (query.field.name().to_ascii_uppercase(), &query.needle);
        let command = format!("UID SEARCH CHARSET UTF-8 {key} {{{}+}}\r\n{needle}", needle.len());
        let reply = session.command_bytes(command.as_bytes()).context("Dovecot: SEARCH")?;
        Ok((session, reply))
    }
}

impl System for Dovecot {
    fn side(&self) -> Side {
        self.side
    }

    fn forget(&mut self) -> Result<()> {
        self.peer.clear_indexes(&self.maildir)?;
        Ok(())
    }

    fn index(&mut self, sampling: Sampling) -> Result<Figures> {
        let words = ["index", "INBOX"];
        let mut command = self.peer.doveadm_command(&self.location(), self.settings(), &words)?;
        let (at, log) =
            (|| self.peer.folder().display().to_string(), self.peer.folder().join("log"));
        command.stdout(Stdio::null()).stderr(disk::create(&log).with_context(at)?);
        let usage = measure(&mut command, STEP_DEADLINE, sampling).context("doveadm")?;
        let said = || disk::read_text(&log).unwrap_or_default();
        ensure!(usage.status.success(), "doveadm index: {}: {}", usage.status, said());
        let index_bytes = disk::allocated(&self.peer.index_folder(&self.maildir))?;
        Ok(Figures { index_bytes, ..Figures::of_process(&usage) })
    }

    fn can_ask(&self, _: &Query) -> bool {
        true
    }

    fn ask(&mut self, query: &Query) -> Result<Figures> {
        let (session, _) = self.search(query)?;
        let real_s = session.elapsed().as_secs_f64();
        Ok(Figures { real_s, ..figures_of(session)? })
    }

    fn found(&mut self, query: &Query) -> Result<Vec<u32>> {
        let (session, reply) = self.search(query)?;
        session.logout().context("LOGOUT")?;
        let uids = reply.numbers("SEARCH").context("Dovecot: no response to SEARCH")?;
        let control = self.peer.index_folder(&self.maildir).join("control/.INBOX");
        messages_of(&uids, &control.join("dovecot-uidlist"))
    }

    fn sizes(&mut self) -> Result<Vec<Size>> {
        let bytes = disk::allocated(&self.peer.index_folder(&self.maildir))?;
        Ok(vec![Size { side: self.side, part: "all its indexes", bytes }])
    }

    fn commands(&self) -> Vec<String> {
        match self.side == Side::Fts {
            true => vec![
                format!(
                    "doveadm {} index INBOX",
                    FTS.map(|(name, value)| format!("-o '{name}={value}'")).join(" ")
                ),
                "imap: SELECT INBOX, UID SEARCH CHARSET UTF-8 BODY \"WORD\"".to_owned(),
            ],
            false => Vec::new(),
        }
    }
}
