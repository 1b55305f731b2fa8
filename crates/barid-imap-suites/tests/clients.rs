//! Real clients, each as a test of its own. `BARID_IMAP_DOWNLOADS=yes` adds those that Debian does
//! not have.

use std::sync::Mutex;

use barid_imap_suites::MailFormat;
use barid_imap_suites::clients::{ClientOutcome, run_clients};
use barid_testkit::skip_or_fail;

use crate::servers::{format_or, server};

/// First user of the clients.
const USER: u32 = 11;

fn run(format: MailFormat) {
    let only = std::env::var("BARID_IMAP_CLIENT").ok();
    let Some(server) = server(format) else { return };
    let failures = Mutex::new(Vec::new());
    run_clients(&*server, USER, only.as_deref(), &|client, outcome| match outcome {
        ClientOutcome::Pass => println!("{} and {}: pass", client.name, server.name()),
        ClientOutcome::Skip(why) => println!("{}: not run: {why}", client.name),
        ClientOutcome::Missing(what) => skip_or_fail(&what),
        ClientOutcome::Fail(text) => {
            println!("{} and {}: FAIL: {text}", client.name, server.name());
            failures.lock().unwrap().push(client.name);
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{failures:?}");
}

#[test]
fn real_clients_work_with_maildirs() {
    run(format_or(MailFormat::Maildir));
}

#[test]
fn real_clients_work_with_mboxes() {
    run(format_or(MailFormat::Mbox));
}
