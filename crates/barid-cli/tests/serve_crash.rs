//! `barid serve` is killed while several sessions change mailboxes: all that it has acknowledged is
//! there after a restart.
//!
//! `BARID_IMAP_KILLS` is the number of kills, `BARID_IMAP_SEED` the seed.

#![expect(clippy::print_stdout, reason = "what was compared is printed")]

use barid_imap_suites::MailFormat;
use barid_imap_suites::crash::{CrashOptions, crash_test};

use crate::serve_qresync::{number, serve};

/// Kills in a short run.
const KILLS: u64 = 15;

fn kill(format: MailFormat) {
    let server = serve(format);
    let kills = number("BARID_IMAP_KILLS", KILLS);
    let options = CrashOptions::new(number("BARID_IMAP_SEED", 1), kills);
    let report = crash_test(&server, options).unwrap();
    println!("killed, {}: {report}", format.name());
    assert!(report.failure.is_none(), "something was lost");
    assert_eq!(report.kills, kills);
    for name in ["APPEND", "COPY", "MOVE", "STORE", "EXPUNGE"] {
        assert!(report.acknowledged.contains_key(name), "no {name}");
    }
    assert!(report.pending > 0 && report.compared > kills);
}

#[test]
fn a_killed_server_has_lost_nothing_in_a_maildir() {
    kill(MailFormat::Maildir);
}

#[test]
fn a_killed_server_has_lost_nothing_in_an_mbox() {
    kill(MailFormat::Mbox);
}

#[test]
fn a_killed_server_has_lost_nothing_in_an_mbx() {
    kill(MailFormat::Mbx);
}

#[test]
fn a_killed_server_has_lost_nothing_in_a_mix() {
    kill(MailFormat::Mix);
}
