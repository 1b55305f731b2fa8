//! The dialogues of RFCs, as scripts.

use std::path::Path;

use barid_imap_suites::scripts::{RunOptions, run_folder, script_names};
use barid_imap_suites::{MailFormat, Transport};

use crate::servers::{format_or, is_dovecot, server};

/// Number of scripts.
const SCRIPTS: usize = 48;
/// Scripts that Dovecot 2.3 skips for want of a capability.
const SKIPPED_BY_DOVECOT: [&str; 6] = [
    "rfc10022-uidbatches",
    "rfc6154-special-use",
    "rfc8474-objectid",
    "rfc9051-rev2-names",
    "rfc9051-rev2-select",
    "rfc9394-save",
];
/// Scripts in which Dovecot 2.3 does not do what the RFC says.
const FAILED_BY_DOVECOT: [(&str, &str); 2] = [
    ("rfc5530-codes", "SELECT and STATUS of a mailbox that does not exist have no code"),
    ("rfc8514-savedate", "it has save dates"),
];

#[test]
fn dialogues_of_rfcs_are_as_they_are_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("rfc");
    let Some(server) = server(format_or(MailFormat::Maildir)) else { return };
    assert_eq!(script_names(&folder).unwrap().len(), SCRIPTS);
    let only = std::env::var("BARID_IMAP_SCRIPT").ok();
    let is_wanted = |name: &str| only.as_ref().is_none_or(|only| name == only);
    let options = RunOptions { transport: Transport::Tcp, user: 1 };
    let report = run_folder(&*server, &folder, options, &is_wanted).unwrap();
    println!("dialogues of RFCs, {}: {report}", server.name());
    let failed: Vec<_> = report.failed().iter().map(|result| result.name.as_str()).collect();
    let is_dovecots = |name: &&str| {
        is_dovecot() && FAILED_BY_DOVECOT.iter().any(|(expected, _)| expected == name)
    };
    let (expected, failed): (Vec<&str>, Vec<&str>) = failed.into_iter().partition(is_dovecots);
    assert!(failed.is_empty(), "{failed:?}");
    if is_dovecot() && only.is_none() {
        let names: Vec<_> = report.skipped().iter().map(|(name, _)| *name).collect();
        assert_eq!(names, SKIPPED_BY_DOVECOT);
        assert_eq!(expected.len(), FAILED_BY_DOVECOT.len());
    }
}
