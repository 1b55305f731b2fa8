//! The QRESYNC model.
//!
//! `BARID_IMAP_ROUNDS` is the number of rounds, `BARID_IMAP_REAL_ROUNDS` that with procmail and
//! mutt, `BARID_IMAP_SEED` the seed.

use barid_imap_suites::MailFormat;
use barid_imap_suites::qresync::{QresyncOptions, WriterKind, qresync_model};
use barid_testkit::peers::program;
use barid_testkit::skip_or_fail;

use crate::servers::{format_or, is_dovecot, number, server};

fn run(format: MailFormat, options: &QresyncOptions<'_>) {
    let Some(server) = server(format) else { return };
    let report =
        qresync_model(&*server, options).unwrap_or_else(|e| panic!("{e} {}", server.log()));
    println!("qresync, {}, {:?}: {report}", server.name(), options.writers);
    assert!(report.failure.is_none(), "the model differs");
    assert_eq!(report.rounds, options.rounds);
    assert_eq!(report.uidvalidity_changes, 0);
    assert!(report.vanished > 0 && report.resyncs > 0 && report.compared > report.rounds);
}

fn options(rounds: u64) -> QresyncOptions<'static> {
    let mut options = QresyncOptions::new(number("BARID_IMAP_SEED", 1), rounds);
    // While others write, Dovecot 2.3 ends a NOOP or CHECK with a HIGHESTMODSEQ that counts changes
    // which it has not sent: 499 after FETCH responses up to 495, when messages had 496 and 499. A
    // client that believes it never learns them. One round in some hundreds shows that.
    options.is_concurrent = !is_dovecot() || std::env::var_os("BARID_IMAP_CONCURRENT").is_some();
    options
}

fn imitated(format: MailFormat) {
    run(format, &options(number("BARID_IMAP_ROUNDS", 40)));
}

#[test]
fn a_client_follows_a_maildir_by_qresync() {
    imitated(format_or(MailFormat::Maildir));
}

#[test]
fn a_client_follows_an_mbox_by_qresync() {
    imitated(format_or(MailFormat::Mbox));
}

fn real(format: MailFormat) {
    for name in ["procmail", "mutt"] {
        if program(name).is_none() {
            skip_or_fail(name);
            return;
        }
    }
    let rounds = number("BARID_IMAP_REAL_ROUNDS", 10);
    let mut options = options(rounds);
    options.user = 33;
    options.writers =
        vec![WriterKind::Own, WriterKind::Procmail, WriterKind::Own, WriterKind::Mutt];
    run(format, &options);
}

#[test]
fn a_client_follows_a_maildir_that_procmail_and_mutt_change() {
    real(format_or(MailFormat::Maildir));
}

#[test]
fn a_client_follows_an_mbox_that_procmail_and_mutt_change() {
    real(format_or(MailFormat::Mbox));
}
