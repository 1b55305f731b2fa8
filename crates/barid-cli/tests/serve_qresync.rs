//! A client that synchronises with `barid serve` by QRESYNC alone, while sessions and programs that
//! know nothing but files change the mailbox, and the server is killed and loses its cache.
//!
//! `BARID_IMAP_ROUNDS` is the number of rounds, `BARID_IMAP_REAL_ROUNDS` that with procmail,
//! mutt and mbsync, `BARID_IMAP_SEED` the seed.

#![expect(clippy::print_stdout, reason = "what was compared is printed")]

use std::path::Path;

use barid_imap_suites::qresync::{QresyncOptions, WriterKind, kills_and_losses, qresync_model};
use barid_imap_suites::{MailFormat, ProgramArgs, ProgramServer};
use barid_testkit::peers::program;
use barid_testkit::skip_or_fail;

/// Rounds with imitated writers in a short run.
const ROUNDS: u64 = 40;
/// Rounds with real writers in a short run.
const REAL_ROUNDS: u64 = 5;

/// Returns a number of the environment, or that of a short run.
pub(crate) fn number(name: &str, short: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(short)
}

/// Starts `barid serve`.
pub(crate) fn serve(format: MailFormat) -> ProgramServer {
    let barid = Path::new(env!("CARGO_BIN_EXE_barid"));
    ProgramServer::start(barid, ProgramArgs::default(), format).unwrap()
}

fn follow(format: MailFormat, writers: Option<Vec<WriterKind>>, rounds: u64) {
    let server = serve(format);
    let defaults = QresyncOptions::new(number("BARID_IMAP_SEED", 1), rounds);
    let options = QresyncOptions {
        writers: writers.unwrap_or_else(|| defaults.writers.clone()),
        is_exact: true,
        disturb: &|rng| kills_and_losses(&server, rng),
        ..defaults
    };
    let report = qresync_model(&server, &options).unwrap();
    println!("qresync, {}, {:?}: {report}", format.name(), options.writers);
    assert!(report.failure.is_none(), "the model differs");
    assert_eq!((report.rounds, report.uidvalidity_changes), (rounds, 0));
    assert!(report.vanished > 0 && report.resyncs > 0 && report.compared > report.rounds);
}

#[test]
fn a_client_follows_a_maildir_by_qresync() {
    follow(MailFormat::Maildir, None, number("BARID_IMAP_ROUNDS", ROUNDS));
}

#[test]
fn a_client_follows_an_mbox_by_qresync() {
    follow(MailFormat::Mbox, None, number("BARID_IMAP_ROUNDS", ROUNDS));
}

#[test]
fn a_client_follows_an_mbx_by_qresync() {
    follow(MailFormat::Mbx, None, number("BARID_IMAP_ROUNDS", ROUNDS));
}

#[test]
fn a_client_follows_a_mix_by_qresync() {
    follow(MailFormat::Mix, None, number("BARID_IMAP_ROUNDS", ROUNDS));
}

fn follow_real(format: MailFormat) {
    for name in ["procmail", "mutt", "mbsync"] {
        if program(name).is_none() {
            return skip_or_fail(name);
        }
    }
    let writers = [WriterKind::Own, WriterKind::Procmail, WriterKind::Mbsync, WriterKind::Mutt];
    follow(format, Some(writers.to_vec()), number("BARID_IMAP_REAL_ROUNDS", REAL_ROUNDS));
}

#[test]
fn a_client_follows_a_maildir_that_real_programs_change() {
    follow_real(MailFormat::Maildir);
}

#[test]
fn a_client_follows_an_mbox_that_real_programs_change() {
    follow_real(MailFormat::Mbox);
}
