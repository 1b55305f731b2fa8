//! Random commands to two servers.
//!
//! `BARID_IMAP_SCRIPTS` is the number of scripts, `BARID_IMAP_SEED` the first seed.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use barid_imap_suites::differential::{DifferentialOptions, differential};
use barid_imap_suites::{DovecotServer, Login, MailFormat, Server, TlsListener};
use barid_testkit::disk;

use crate::servers::{format_or, number, server};

fn compare(format: MailFormat) {
    let Some(peer) = DovecotServer::start(format) else { return };
    let Some(server) = server(format) else { return };
    let seed = number("BARID_IMAP_SEED", 1);
    let options = DifferentialOptions::new(seed, number("BARID_IMAP_SCRIPTS", 60));
    let report = differential(&peer, &*server, &options).unwrap();
    println!("differential, {} and dovecot: {report}", server.name());
    assert!(report.values > 10 * report.commands, "{} values are too few", report.values);
    assert_eq!(report.failed, 0);
}

#[test]
fn random_commands_are_answered_alike_on_a_maildir() {
    compare(format_or(MailFormat::Maildir));
}

#[test]
fn random_commands_are_answered_alike_on_an_mbox() {
    compare(format_or(MailFormat::Mbox));
}

/// A server that has lost a message of INBOX.
struct Forgetful(DovecotServer);

impl Server for Forgetful {
    fn name(&self) -> &str {
        "forgetful"
    }

    fn address(&self) -> SocketAddr {
        self.0.address()
    }

    fn tls(&self) -> Option<TlsListener> {
        self.0.tls()
    }

    fn login(&self, user: u32) -> Login {
        self.0.login(user)
    }

    fn stdio(&self, user: u32) -> io::Result<Option<Command>> {
        self.0.stdio(user)
    }

    fn mail_dir(&self, user: u32) -> PathBuf {
        self.0.mail_dir(user)
    }

    fn format(&self) -> MailFormat {
        self.0.format()
    }

    fn log(&self) -> String {
        self.0.log()
    }

    fn prepare(&self, user: u32, fill: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        self.0.prepare(user, &|dir| {
            fill(dir)?;
            disk::list(&dir.join("cur"))?.last().map_or(Ok(()), |path| disk::remove_file(path))
        })
    }
}

#[test]
fn differences_are_found_and_made_small() {
    let Some(peer) = DovecotServer::start(MailFormat::Maildir) else { return };
    let Some(other) = DovecotServer::start(MailFormat::Maildir) else { return };
    let options = DifferentialOptions::new(1, 1);
    let report = differential(&peer, &Forgetful(other), &options).unwrap();
    assert_eq!(report.failed, 1, "{report}");
    let failure = &report.failures[0];
    let (script, text) = (&failure.script, report.to_string());
    assert!(failure.is_repeatable && script.commands.is_empty(), "{text}");
    assert_eq!(script.mailboxes[0].messages.len(), 1, "{text}");
    assert!(text.contains("DIFFERENT: seed 1") && text.contains("(at the end)"), "{text}");
}
