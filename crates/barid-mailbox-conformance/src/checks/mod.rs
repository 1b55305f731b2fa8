//! The checks, and their list.

mod changing;
mod concurrency;
mod histories;
mod identity;
mod reading;
mod recovering;
mod scanning;
mod stamps;

use std::thread;

use barid_mailbox::{ChangeSet, FlagChange, NewMessage, Storage};
use barid_types::{Flag, FlagSet, Keyword, Uid};
use fastrand::Rng;

use crate::fixture::{Backend, Fixture};
use crate::session::StorageHandle;
use crate::texts::text;

/// A check of the contract.
pub struct Check {
    /// Its name, which says what it checks.
    pub name: &'static str,
    run: fn(&dyn Fixture),
}

impl Check {
    /// Runs the check with an empty storage.
    ///
    /// # Panics
    /// If the check fails.
    pub fn run(&self, fixture: &dyn Fixture) {
        (self.run)(fixture);
    }
}

macro_rules! checks {
    ($($module:ident::$name:ident,)*) => {
        &[$(Check { name: stringify!($name), run: $module::$name },)*]
    };
}

/// All checks. Each begins with an empty storage.
pub static CHECKS: &[Check] = checks![
    scanning::an_empty_storage_has_no_messages,
    scanning::appended_messages_are_scanned_once_in_order,
    scanning::a_scan_gives_what_an_append_was_given,
    scanning::sizes_and_keys_are_those_of_the_bytes,
    scanning::a_second_scan_finds_nothing,
    scanning::a_scan_finds_only_what_changed,
    scanning::a_full_check_finds_nothing_else,
    scanning::delivered_mail_is_found,
    scanning::uids_are_never_given_twice,
    identity::it_is_that_of_every_handle,
    stamps::a_settled_stamp_stays_the_same,
    stamps::every_change_changes_the_stamp,
    stamps::change_numbers_never_fall,
    stamps::stamps_survive_as_bytes,
    reading::all_ways_of_reading_agree,
    reading::a_message_is_read_in_pieces,
    reading::an_expunged_message_is_never_another,
    reading::locations_of_nothing_are_refused,
    reading::a_large_message_is_only_read_in_pieces,
    changing::flags_arrive_in_another_handle,
    changing::keywords_arrive_in_another_handle,
    changing::the_longest_keyword_is_stored,
    changing::expunges_arrive_in_another_handle,
    changing::reported_uids_are_true,
    changing::requested_uids_are_given,
    changing::missing_messages_are_reported,
    changing::recent_is_dropped,
    changing::a_dry_run_changes_nothing,
    changing::a_followed_change_equals_a_scan,
    histories::two_handles_follow_a_model,
    concurrency::nothing_is_lost_among_four_writers,
    recovering::an_interrupted_change_is_done_or_undone,
];

/// Runs all checks of a backend, each with an empty storage and in a thread of its name, which the
/// message of a failure shows.
///
/// # Panics
/// If a check fails, after all have run.
pub fn check_all(backend: &dyn Backend) {
    let mut failed = Vec::new();
    for check in CHECKS {
        let name = format!("{}: {}", backend.name(), check.name);
        let run = || check.run(&*backend.create());
        thread::scope(|scope| {
            let thread = thread::Builder::new().name(name.clone()).spawn_scoped(scope, run);
            if thread.unwrap().join().is_err() {
                failed.push(name);
            }
        });
    }
    assert!(failed.is_empty(), "{failed:#?} failed");
}

/// Makes a number of texts, from `first` on.
fn texts(first: u32, count: u32) -> Vec<Vec<u8>> {
    let mut rng = Rng::with_seed(first.into());
    (first..first + count).map(|number| text(number, &mut rng)).collect()
}

/// Makes messages of texts, without flags.
fn messages(texts: &[Vec<u8>]) -> Vec<NewMessage<'_>> {
    texts.iter().map(|text| NewMessage { bytes: text, ..NewMessage::default() }).collect()
}

/// Opens and scans a storage, and appends `count` messages.
fn filled(fixture: &dyn Fixture, count: u32) -> StorageHandle<'_> {
    let mut session = StorageHandle::scanned(fixture);
    session.sync(&ChangeSet::default(), &messages(&texts(1, count)));
    assert_eq!(session.known.rows().len(), count as usize);
    session
}

/// Makes a set of flags.
fn flags(of: &[Flag]) -> FlagSet {
    of.iter().copied().collect()
}

/// Makes the change that adds a flag to a message.
fn adding(uid: Uid, flag: Flag) -> ChangeSet {
    flagging(uid, FlagChange { add: flags(&[flag]), ..FlagChange::default() })
}

/// Makes the change of one message's flags.
fn flagging(uid: Uid, change: FlagChange) -> ChangeSet {
    ChangeSet { flags: vec![(uid, change)].into(), ..ChangeSet::default() }
}

/// Makes the change that expunges messages.
fn expunging(uids: &[Uid]) -> ChangeSet {
    ChangeSet { expunge: uids.to_vec(), ..ChangeSet::default() }
}

/// Returns keywords that every backend with keywords can store.
fn keywords(storage: &dyn Storage) -> Vec<Keyword> {
    let most = storage.caps().keywords_max as usize;
    let names = ["todo", "$Forwarded", "Junk", "later"];
    names.iter().take(most).map(|name| Keyword::new(name).unwrap()).collect()
}
