//! `barid serve` is killed while several sessions change mailboxes: all that it has acknowledged is
//! there after a restart.
//!
//! `BARID_IMAP_KILLS` is the number of kills, `BARID_SERVER_KILLS` that of processes of a server of
//! several, `BARID_IMAP_SEED` the seed.

#![expect(clippy::print_stdout, reason = "what was compared is printed")]

use std::path::Path;

use barid_imap_suites::crash::{CrashOptions, crash_test};
use barid_imap_suites::{ConfiguredServer, MailFormat, Server as _};

use crate::serve_qresync::{number, serve};

/// Kills in a short run.
const KILLS: u64 = 15;
/// Kills of a process of a server of several, in a short run.
const PART_KILLS: u64 = 25;

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

/// Kills a worker, the front, auth or the supervisor while sessions of several users work.
fn kill_parts(format: MailFormat) {
    let server = ConfiguredServer::start(Path::new(env!("CARGO_BIN_EXE_barid")), format).unwrap();
    let kills = number("BARID_SERVER_KILLS", PART_KILLS);
    let options = CrashOptions {
        sessions: 6,
        users: 3,
        ..CrashOptions::new(number("BARID_IMAP_SEED", 1), kills)
    };
    let report = crash_test(&server, options).unwrap();
    println!("killed in parts, {}: {report}", format.name());
    println!("slowest start of a supervisor: {:?}", server.slowest_start());
    assert!(report.failure.is_none(), "something was lost: {}", server.log());
    assert_eq!(report.kills, kills);
    for part in ["server", "front", "worker", "other"] {
        assert!(report.kills_of.contains_key(part), "no {part}");
    }
    for name in ["APPEND", "COPY", "MOVE", "STORE", "EXPUNGE"] {
        assert!(report.acknowledged.contains_key(name), "no {name}");
    }
    assert!(report.pending > 0 && report.compared > kills);
}

#[test]
fn a_server_killed_in_parts_has_lost_nothing_in_maildirs() {
    kill_parts(MailFormat::Maildir);
}

#[test]
fn a_server_killed_in_parts_has_lost_nothing_in_mboxes() {
    kill_parts(MailFormat::Mbox);
}

#[test]
fn a_killed_server_has_lost_nothing_in_an_mbx() {
    kill(MailFormat::Mbx);
}

#[test]
fn a_killed_server_has_lost_nothing_in_a_mix() {
    kill(MailFormat::Mix);
}
