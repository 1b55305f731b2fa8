//! `barid serve` and the mail programs that people use.

#![expect(clippy::print_stdout, reason = "the clients that ran are printed")]

use std::path::Path;
use std::sync::Mutex;

use barid_imap_suites::clients::{ClientOutcome, run_clients};
use barid_imap_suites::{MailFormat, ProgramArgs, ProgramServer};
use barid_testkit::skip_or_fail;

/// First user of the clients.
const USER: u32 = 11;
/// Least number of clients that must have run, unless one is missing.
const PASSES_MIN: usize = 14;

fn check(format: MailFormat) {
    let program = Path::new(env!("CARGO_BIN_EXE_barid"));
    let server = ProgramServer::start(program, ProgramArgs::default(), format).unwrap();
    let (passes, missing, failures) = (Mutex::new(0), Mutex::new(0), Mutex::new(Vec::new()));
    run_clients(&server, USER, None, &|client, outcome| match outcome {
        ClientOutcome::Pass => *passes.lock().unwrap() += 1,
        ClientOutcome::Skip(why) => println!("{}: not run: {why}", client.name),
        ClientOutcome::Missing(what) => {
            *missing.lock().unwrap() += 1;
            skip_or_fail(&what);
        }
        ClientOutcome::Fail(text) => {
            println!("{}: {text}", client.name);
            failures.lock().unwrap().push(client.name);
        }
    });
    let (passes, failures) = (passes.into_inner().unwrap(), failures.into_inner().unwrap());
    println!("{}: {passes} clients", format.name());
    assert!(failures.is_empty(), "{failures:?}");
    assert!(passes + missing.into_inner().unwrap() >= PASSES_MIN);
}

#[test]
fn mail_programs_work_on_maildirs() {
    check(MailFormat::Maildir);
}

#[test]
fn mail_programs_work_on_mboxes() {
    check(MailFormat::Mbox);
}
