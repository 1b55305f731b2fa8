//! The scripts of imaptest, which are part of the corpora.

use barid_imap_suites::scripts::{
    Outcome, RunOptions, Script, run_folder, run_script, script_names,
};
use barid_imap_suites::{MailFormat, Transport};
use barid_testkit::corpora;

use crate::servers::{format_or, is_dovecot, server};

/// The folder of the scripts in the corpora.
const FOLDER: &str = "torture/dovecot-imaptest/raw/src/tests";
/// Number of scripts.
const SCRIPTS: usize = 72;
/// Scripts that Dovecot 2.3 skips for want of a capability.
const SKIPPED_BY_DOVECOT: [&str; 4] = ["sort-partial", "urlauth", "urlauth-binary", "urlauth2"];
/// Scripts that begin before login.
const BEFORE_LOGIN: [&str; 2] = ["id", "logout"];

/// Runs all scripts. `skipped` are those that Dovecot must skip.
fn run(transport: Transport, skipped: &[&str]) {
    let Some(folder) = corpora::find(FOLDER) else { return };
    let Some(server) = server(format_or(MailFormat::Maildir)) else { return };
    assert_eq!(script_names(&folder).unwrap().len(), SCRIPTS);
    let only = std::env::var("BARID_IMAP_SCRIPT").ok();
    let is_wanted = |name: &str| only.as_ref().is_none_or(|only| name == only);
    let options = RunOptions { transport, user: 1 };
    let report = run_folder(&*server, &folder, options, &is_wanted).unwrap();
    println!("imaptest, {}, {transport:?}: {report}", server.name());
    let failed: Vec<_> = report.failed().iter().map(|result| result.name.as_str()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    if is_dovecot() && only.is_none() {
        let names: Vec<_> = report.skipped().iter().map(|(name, _)| *name).collect();
        assert_eq!(names, skipped);
        assert_eq!(report.passed(), SCRIPTS - skipped.len());
    }
    if only.is_none() {
        assert!(report.passed() >= SCRIPTS - skipped.len(), "fewer than Dovecot");
    }
}

#[test]
fn scripts_of_imaptest_pass_over_tcp() {
    run(Transport::Tcp, &SKIPPED_BY_DOVECOT);
}

#[test]
fn scripts_of_imaptest_pass_over_stdio() {
    let mut skipped = [&BEFORE_LOGIN[..], &SKIPPED_BY_DOVECOT].concat();
    skipped.sort_unstable();
    run(Transport::Stdio, &skipped);
}

/// Messages of the scripts below.
const MBOX: &[u8] = b"From a@b Fri Feb 22 17:06:23 2008\nSubject: s\n\nbody\n\n";

#[test]
fn wrong_responses_are_found() {
    let Some(server) = server(format_or(MailFormat::Maildir)) else { return };
    let options = RunOptions { transport: Transport::Stdio, user: 3 };
    let check = |text: &str, expected: &str| {
        let script = Script::parse("own", text.as_bytes()).unwrap();
        let result = run_script(&*server, &script, MBOX, options);
        let outcome = match &result.outcome {
            Outcome::Fail(reason) => reason.lines().next().unwrap(),
            other => panic!("{text}: {other:?}, not {expected}"),
        };
        assert!(outcome.contains(expected), "{outcome}, not {expected}");
    };
    check("messages: 1\n\nok fetch 1 uid\n* 1 fetch (uid 9)\n", "missing: 1 fetch (uid 9)");
    check("messages: 1\n\nok fetch 1 uid\n! 1 fetch (uid $)\n", "it came: 1 FETCH");
    check("messages: 1\n\nno noop\n", "the reply is OK");
    check("messages: 1\n\nselect $mailbox\nok [read-only]\n", "the reply is OK [READ-WRITE]");
    check("ignore_extra_untagged: no\n\nok select $mailbox\n", "not listed: ");
    check(
        "messages: 2\n\nok store 1:2 flags \\seen\n* 2 fetch ()\n* 1 fetch ()\n!ordered\n",
        "missing",
    );
    check("state: auth\n\n\"\" logout\nok noop\n", "the server has closed the connection");
    check("\nok append x\n", "the reply is NO [TRYCREATE]");
    check("\nok store 1 flags $none\n", "$none has no value");
}
