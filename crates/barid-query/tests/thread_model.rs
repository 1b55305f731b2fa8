//! The library against the model.

use barid_query::{Profile, ThreadAlgorithm, threads};

use crate::model;
use crate::random::Mailbox;

/// Returns the THREAD response of the library, with rows counted from 1.
pub(crate) fn imap(algorithm: ThreadAlgorithm, mailbox: &Mailbox, profile: Profile) -> String {
    let threads = threads(algorithm, &mailbox.columns(), profile).unwrap();
    let mut out = Vec::new();
    threads.write_imap(|row| row + 1, &mut out);
    String::from_utf8(out).unwrap()
}

fn check(algorithm: ThreadAlgorithm) {
    let mut random = fastrand::Rng::with_seed(11);
    for round in 0..20_000 {
        let rows_max = if round % 10 == 0 { 40 } else { 10 };
        let mailbox = Mailbox::random(&mut random, rows_max);
        let expected = model::threads(algorithm, &mailbox);
        assert_eq!(imap(algorithm, &mailbox, Profile::Rfc), expected, "round {round}: {mailbox:?}");
        let dovecot = imap(algorithm, &mailbox, Profile::Dovecot);
        assert_eq!(dovecot, expected, "round {round}: {mailbox:?}");
    }
}

#[test]
fn references() {
    check(ThreadAlgorithm::References);
}

#[test]
fn refs() {
    check(ThreadAlgorithm::Refs);
}

#[test]
fn ordered_subject() {
    check(ThreadAlgorithm::OrderedSubject);
}
