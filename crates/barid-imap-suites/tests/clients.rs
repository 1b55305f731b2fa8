//! Real clients, each as a test of its own. `BARID_IMAP_DOWNLOADS=yes` adds those that Debian does
//! not have.

use std::sync::Mutex;
use std::thread;

use barid_imap_suites::MailFormat;
use barid_imap_suites::clients::{CLIENTS, Client, ClientOutcome, run_client};
use barid_testkit::skip_or_fail;

use crate::servers::{format_or, server};

/// First user of the clients.
const USER: u32 = 11;
/// Clients that run at the same time.
const AT_ONCE: usize = 4;

fn run(format: MailFormat) {
    let only = std::env::var("BARID_IMAP_CLIENT").ok();
    let Some(server) = server(format) else { return };
    let is_wanted = |client: &&Client| only.as_ref().is_none_or(|only| client.name == only);
    let clients: Vec<(&Client, u32)> = CLIENTS.iter().zip(USER..).collect();
    // Most of the time they wait for each other's disks and screens.
    let next = Mutex::new(clients.into_iter().filter(|(client, _)| is_wanted(client)));
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some((client, user)) = next.lock().unwrap().next() else { break };
                    match run_client(client, &*server, user) {
                        ClientOutcome::Pass => {
                            println!("{} and {}: pass", client.name, server.name())
                        }
                        ClientOutcome::Skip(why) => println!("{}: not run: {why}", client.name),
                        ClientOutcome::Missing(what) => skip_or_fail(&what),
                        ClientOutcome::Fail(text) => {
                            println!("{} and {}: FAIL: {text}", client.name, server.name());
                            failures.lock().unwrap().push(client.name);
                        }
                    }
                }
            });
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
