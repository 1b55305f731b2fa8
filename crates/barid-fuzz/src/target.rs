//! The table of targets.

use crate::seal;
use crate::seeds::{self, AUTH_WORDS, BOX_WORDS, MAIL_WORDS, QUERY_WORDS};
use crate::targets::extract::DOCUMENT_WORDS;
use crate::targets::{
    auth, cache, extract, folders, imap, lmtp, mailbox, message, query, serve, spam, state,
};

/// A function that takes any bytes, and what inputs are made of.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: small letters, digits and dashes.
    pub name: &'static str,
    /// The function. Panics if a promise is broken.
    pub run: fn(&[u8]),
    /// Returns the inputs that others are made from, well-formed ones.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words that mutations insert.
    pub words: &'static [&'static str],
    /// Number of inputs in a run of the tests.
    pub inputs: u64,
}

/// Returns the target with a name.
#[must_use]
pub fn target_named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Numbers of inputs in the tests: parsers take microseconds, mailboxes milliseconds.
const MANY: u64 = 4_000;
const SOME: u64 = 1_000;
const FEW: u64 = 120;

const fn parser(
    name: &'static str,
    run: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
    words: &'static [&'static str],
) -> Target {
    Target { name, run, seeds, words, inputs: MANY }
}

const fn file(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Target {
    Target { name, run, seeds, words: BOX_WORDS, inputs: FEW }
}

const fn document(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Target {
    Target { name, run, seeds, words: DOCUMENT_WORDS, inputs: MANY }
}

/// Every parser and every file format.
pub static TARGETS: &[Target] = &[
    parser("headers", message::headers, seeds::messages, MAIL_WORDS),
    parser("lines", message::lines, seeds::messages, MAIL_WORDS),
    Target { inputs: SOME, ..parser("mime", message::mime, seeds::messages, MAIL_WORDS) },
    parser("dates", message::dates, seeds::dates, MAIL_WORDS),
    parser("addresses", message::addresses, seeds::addresses, MAIL_WORDS),
    parser("ids", message::ids, seeds::ids, MAIL_WORDS),
    parser("words", message::words, seeds::words, MAIL_WORDS),
    parser("subjects", message::subjects, seeds::subjects, MAIL_WORDS),
    parser("charsets", message::charsets, seeds::charsets, MAIL_WORDS),
    parser("search-imap", query::search_imap, seeds::imap_searches, QUERY_WORDS),
    parser("search-short", query::search_short, seeds::short_searches, QUERY_WORDS),
    parser("fetch", query::fetch, seeds::fetches, QUERY_WORDS),
    parser("imap-decoder", imap::decoder, imap::decoder_seeds, imap::IMAP_WORDS),
    parser(
        "process-messages",
        serve::process_messages,
        serve::process_message_seeds,
        serve::MESSAGE_WORDS,
    ),
    Target { inputs: SOME, ..file("deliveries", serve::deliveries, serve::deliveries_seeds) },
    Target {
        inputs: SOME,
        ..file("deliveries-sealed", serve::deliveries_sealed, serve::deliveries_seeds)
    },
    parser("lmtp-session", lmtp::session, lmtp::session_seeds, lmtp::LMTP_WORDS),
    parser("imap-session", imap::session, imap::session_seeds, imap::IMAP_WORDS),
    Target { inputs: SOME, ..parser("sort", query::sorting, seeds::sorts, QUERY_WORDS) },
    Target { inputs: SOME, ..parser("thread", query::threading, query::thread_seeds, &[]) },
    parser("stored-threads", query::stored_threads, query::stored_thread_seeds, &[]),
    file("any-file", mailbox::any_file, mailbox::any_file_seeds),
    file("compressed-file", mailbox::compressed_file, mailbox::compressed_seeds),
    file(
        "mbox",
        |bytes| on(&mailbox::MBOX, "/mail/box", bytes),
        || of(&mailbox::MBOX, "/mail/box"),
    ),
    file(
        "mboxcl2",
        |bytes| on(&mailbox::MBOXCL2, "/mail/box", bytes),
        || of(&mailbox::MBOXCL2, "/mail/box"),
    ),
    file(
        "mmdf",
        |bytes| on(&mailbox::MMDF, "/mail/box", bytes),
        || of(&mailbox::MMDF, "/mail/box"),
    ),
    file("mbx", |bytes| on(&mailbox::MBX, "/mail/box", bytes), || of(&mailbox::MBX, "/mail/box")),
    file(
        "mix-meta",
        |bytes| on(&mailbox::MIX, ".mixmeta", bytes),
        || of(&mailbox::MIX, ".mixmeta"),
    ),
    file(
        "mix-index",
        |bytes| on(&mailbox::MIX, ".mixindex", bytes),
        || of(&mailbox::MIX, ".mixindex"),
    ),
    file(
        "mix-status",
        |bytes| on(&mailbox::MIX, ".mixstatus", bytes),
        || of(&mailbox::MIX, ".mixstatus"),
    ),
    file("mix-data", |bytes| on(&mailbox::MIX, "/.mix6", bytes), || of(&mailbox::MIX, "/.mix6")),
    file(
        "mh-sequences",
        |bytes| on(&mailbox::MH, ".mh_sequences", bytes),
        || of(&mailbox::MH, ".mh_sequences"),
    ),
    file("mh-message", |bytes| on(&mailbox::MH, "/box/1", bytes), || of(&mailbox::MH, "/box/1")),
    file("git-pack", |bytes| on(&mailbox::INBOX, ".pack", bytes), || of(&mailbox::INBOX, ".pack")),
    file("git-index", |bytes| on(&mailbox::INBOX, ".idx", bytes), || of(&mailbox::INBOX, ".idx")),
    file("git-head", |bytes| on(&mailbox::INBOX, "HEAD", bytes), || of(&mailbox::INBOX, "HEAD")),
    file(
        "maildir-uidlist",
        |bytes| on(&mailbox::MAILDIR, "dovecot-uidlist", bytes),
        || of(&mailbox::MAILDIR, "dovecot-uidlist"),
    ),
    file(
        "maildir-keywords",
        |bytes| on(&mailbox::MAILDIR, "dovecot-keywords", bytes),
        || of(&mailbox::MAILDIR, "dovecot-keywords"),
    ),
    file("maildir-name", mailbox::maildir_name, mailbox::maildir_name_seeds),
    Target { inputs: SOME, ..file("names", mailbox::names, mailbox::maildir_name_seeds) },
    file("ledger", |bytes| on(&mailbox::MH, ".ledger", bytes), state::ledger_seeds),
    file(
        "ledger-sealed",
        |bytes| {
            let mut bytes = bytes.to_vec();
            seal::ledger(&mut bytes);
            on(&mailbox::MH, ".ledger", &bytes);
        },
        state::ledger_seeds,
    ),
    file("pending", |bytes| on(&mailbox::MBOX, ".pending", bytes), state::pending_seeds),
    file(
        "pending-sealed",
        |bytes| cache::sealed(&mailbox::MBOX, ".pending", bytes, seal::pending),
        state::pending_seeds,
    ),
    file("expunged", |bytes| on(&mailbox::MBOX, ".kept/", bytes), state::expunged_seeds),
    file(
        "expunged-sealed",
        |bytes| cache::sealed(&mailbox::MBOX, ".kept/", bytes, seal::expunged),
        state::expunged_seeds,
    ),
    file("mbox-journal", |bytes| on(&state::MBOX_JOURNAL, "journal", bytes), state::mbox_journals),
    file(
        "mbox-journal-sealed",
        |bytes| cache::sealed(&state::MBOX_JOURNAL, "journal", bytes, seal::mbox_journal),
        state::mbox_journals,
    ),
    file("redo-journal", |bytes| on(&state::MIX_JOURNAL, "journal", bytes), state::redo_journals),
    file(
        "redo-journal-sealed",
        |bytes| cache::sealed(&state::MIX_JOURNAL, "journal", bytes, seal::redo_journal),
        state::redo_journals,
    ),
    file(
        "redo-journal-mbx-sealed",
        |bytes| cache::sealed(&state::MBX_JOURNAL, "journal", bytes, seal::redo_journal),
        state::redo_journals,
    ),
    file("repair-manifest", state::manifest, || of(&state::REPAIRED, "/manifest")),
    file(
        "repair-manifest-sealed",
        |bytes| with_tail(bytes, state::manifest),
        || of(&state::REPAIRED, "/manifest"),
    ),
    file("convert-note", state::note, || of(&state::CONVERTED, "/convert-")),
    file(
        "convert-note-sealed",
        |bytes| with_tail(bytes, state::note),
        || of(&state::CONVERTED, "/convert-"),
    ),
    file("move-note", state::move_note, || of(&state::MOVING, "/move-")),
    file(
        "move-note-sealed",
        |bytes| with_tail(bytes, state::move_note),
        || of(&state::MOVING, "/move-"),
    ),
    file("folder-names", folders::names, folders::names_seeds),
    file("folder-names-sealed", |bytes| with_tail(bytes, folders::names), folders::names_seeds),
    file("folder-journal", folders::journal, folders::journal_seeds),
    file(
        "folder-journal-sealed",
        |bytes| with_tail(bytes, folders::journal),
        folders::journal_seeds,
    ),
    file("folder-subscriptions", folders::subscriptions, folders::subscription_seeds),
    file("folder-patterns", folders::patterns, folders::pattern_seeds),
    file("cache", |bytes| cache::unsealed(&mailbox::MBOX, ".bhc", bytes), cache::cache_seeds),
    file(
        "cache-maildir",
        |bytes| cache::unsealed(&mailbox::MAILDIR, ".bhc", bytes),
        cache::cache_seeds,
    ),
    file(
        "cache-sealed",
        |bytes| cache::sealed(&mailbox::MBOX, ".bhc", bytes, seal::cache),
        || of(&mailbox::MBOX, ".bhc"),
    ),
    file(
        "cache-maildir-sealed",
        |bytes| cache::sealed(&mailbox::MAILDIR, ".bhc", bytes, seal::cache),
        || of(&mailbox::MAILDIR, ".bhc"),
    ),
    file(
        "cache-packed",
        |bytes| cache::unsealed(&cache::PACKED, ".bhc", bytes),
        || of(&cache::PACKED, ".bhc"),
    ),
    Target { inputs: MANY, ..file("cache-file", cache::cache_file, cache::cache_file_seeds) },
    Target {
        inputs: MANY,
        ..file(
            "cache-file-sealed",
            |bytes| {
                let mut bytes = bytes.to_vec();
                seal::cache(&mut bytes);
                cache::cache_file(&bytes);
            },
            cache::cache_file_seeds,
        )
    },
    file(
        "derived-sort",
        |bytes| column(".bhc.sort-date", bytes),
        || of(&mailbox::MBOX, ".bhc.sort-date"),
    ),
    file(
        "derived-threads",
        |bytes| column(".bhc.threads-ref", bytes),
        || of(&mailbox::MBOX, ".bhc.threads-ref"),
    ),
    file("derived-links", |bytes| column(".bhc.links", bytes), || of(&mailbox::MBOX, ".bhc.links")),
    file(
        "derived-structures",
        |bytes| column(".bhc.structures", bytes),
        || of(&mailbox::MBOX, ".bhc.structures"),
    ),
    file(
        "derived-email-ids",
        |bytes| column(".bhc.email-ids", bytes),
        || of(&mailbox::MBOX, ".bhc.email-ids"),
    ),
    file(
        "derived-restarts",
        |bytes| cache::sealed(&cache::RESTARTS, ".bhc.restarts", bytes, seal::derived),
        || of(&cache::RESTARTS, ".bhc.restarts"),
    ),
    parser("record", cache::record, cache::record_seeds, &[]),
    parser("record-sealed", cache::record_sealed, cache::record_seeds, &[]),
    Target { inputs: SOME, ..parser("tokens", spam::tokens, seeds::messages, MAIL_WORDS) },
    file("word-list", spam::table, || spam::list_seed(0)),
    file(
        "word-list-sealed",
        |bytes| {
            let mut bytes = bytes.to_vec();
            seal::word_list(&mut bytes);
            spam::table(&bytes);
        },
        || spam::list_seed(0),
    ),
    file("word-list-log", spam::log, || spam::list_seed(1)),
    Target { inputs: SOME, ..file("word-list-dump", spam::dump_text, || vec![DUMP.to_vec()]) },
    parser("daemon-frame", spam::frame, spam::frame_seeds, MAIL_WORDS),
    file("spam-scores", spam::scores, || vec![spam::seed("/scores-")]),
    file(
        "spam-scores-sealed",
        |bytes| with_tail(bytes, spam::scores),
        || vec![spam::seed("/scores-")],
    ),
    file("spam-parameters", spam::parameters, || vec![spam::seed("wordlist.parameters")]),
    Target { inputs: SOME, ..parser("sasl", auth::sasl, auth::sasl_seeds, AUTH_WORDS) },
    parser("sasl-line", auth::sasl_line, auth::sasl_line_seeds, AUTH_WORDS),
    parser("passwd-file", auth::passwd_file, auth::passwd_file_seeds, AUTH_WORDS),
    parser("token", auth::token, auth::token_seeds, AUTH_WORDS),
    document("office", extract::office, extract::office_seeds),
    document("office-members", extract::members, extract::member_seeds),
    document("document-texts", extract::texts, extract::text_seeds),
    document("document-types", extract::types, extract::type_seeds),
    Target {
        inputs: SOME,
        ..file("attachment-texts", extract::remembered, extract::remembered_seeds)
    },
    Target {
        inputs: SOME,
        ..file(
            "attachment-texts-sealed",
            |bytes| {
                let mut bytes = bytes.to_vec();
                seal::attachment_texts(&mut bytes);
                extract::remembered(&bytes);
            },
            extract::remembered_seeds,
        )
    },
];

const DUMP: &[u8] = b".MSG_COUNT 3 2 20240603\n.ENCODING 2 0 0\nfree 3 0 20240603\n\
    caf\xc3\xa9 1 1 20240601\n\"quoted\" 0 4294967295 0\nsubj:one 1 2\n";

/// Uses a derived column as it is, and with the checksums that it should have.
fn column(text: &str, bytes: &[u8]) {
    cache::unsealed(&mailbox::MBOX, text, bytes);
    cache::sealed(&mailbox::MBOX, text, bytes, seal::derived);
}

fn on(world: &crate::world::World, text: &str, bytes: &[u8]) {
    mailbox::replaced(world, text, bytes);
}

fn of(world: &crate::world::World, text: &str) -> Vec<Vec<u8>> {
    vec![mailbox::seed(world, text)]
}

fn with_tail(bytes: &[u8], run: fn(&[u8])) {
    let mut bytes = bytes.to_vec();
    seal::tail(&mut bytes);
    run(&bytes);
}
