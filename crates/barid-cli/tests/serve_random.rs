//! `barid serve` and Dovecot answer the same random commands over the same mail.
//!
//! `BARID_IMAP_SCRIPTS` is the number of scripts, `BARID_IMAP_SEED` the seed of the first one.

#![expect(clippy::print_stdout, reason = "what was compared is printed")]

use barid_imap_suites::differential::{Difference, DifferentialOptions, differential};
use barid_imap_suites::{DovecotServer, MailFormat};

use crate::serve_qresync::{number, serve};

/// Random command scripts in a short run.
const RANDOM_SCRIPTS: u64 = 25;
/// One value of so many may differ from Dovecot's without an explanation.
const DIFFERING_PART: u64 = 5_000;

/// Returns the reason of a difference that docs/deviations.md names.
fn explain(difference: &Difference) -> Option<&'static str> {
    of_codes(difference)
        .or_else(|| of_lists(difference))
        .or_else(|| of_changes(difference))
        .or_else(|| of_fetches(difference))
}

fn text(value: &Option<Vec<u8>>) -> Option<&str> {
    std::str::from_utf8(value.as_deref()?).ok()
}

fn of_codes(difference: &Difference) -> Option<&'static str> {
    let Difference { name, first, second, .. } = difference;
    if name == "CODE HIGHESTMODSEQ" && first.is_none() {
        return Some("Dovecot counts mod-sequences once a client has asked for them");
    }
    if name.starts_with("CODE ") && first.is_none() {
        return Some("barid has more response codes");
    }
    let is_of_recent = |word: &str| ["NEW", "OLD", "RECENT"].contains(&word);
    let is_search = ["SEARCH", "ESEARCH", "SORT", "THREAD"].iter().any(|it| name.starts_with(it));
    let mut words = difference.command.split([' ', '(', ')']);
    if name.ends_with(" RECENT") || is_search && words.any(is_of_recent) {
        return Some("which session sees a message first depends on the sessions before");
    }
    if ["FLAGS", "CODE PERMANENTFLAGS"].contains(&name.as_str()) {
        let has = |word: &str| text(first).is_some_and(|it| it.split(' ').any(|of| of == word));
        let fits = text(second).is_some_and(|it| it.split(' ').all(has));
        return fits.then_some("Dovecot lists keywords that no message has");
    }
    None
}

fn of_lists(difference: &Difference) -> Option<&'static str> {
    let Difference { name, first, second, command, .. } = difference;
    if name.starts_with("LIST ") && command.starts_with("LIST ") && command.ends_with(" \"\"") {
        return Some("the root of a name without a leading separator is empty");
    }
    if name == "LIST INBOX" && text(first).is_some_and(|it| it.contains("noinferiors")) {
        return Some("INBOX may have mailboxes below it, also where it is a file");
    }
    if name.starts_with("LIST ") {
        let plain = text(second).map(without_special_use);
        if first.is_some() && text(first).map(str::to_owned) == plain {
            return Some("well-known names have special uses");
        }
    }
    None
}

fn without_special_use(attributes: &str) -> String {
    const USES: [&str; 5] = ["\\archive", "\\drafts", "\\junk", "\\sent", "\\trash"];
    let words = attributes.split(' ').filter(|word| !USES.contains(word));
    words.collect::<Vec<_>>().join(" ")
}

fn of_changes(difference: &Difference) -> Option<&'static str> {
    let Difference { name, first, second, command, is_read_only, .. } = difference;
    let verb = command.strip_prefix("UID ").unwrap_or(command).to_ascii_uppercase();
    let is_store = verb.starts_with("STORE ");
    let words: Vec<&str> = verb.split(' ').collect();
    if is_store && first.is_none() {
        return Some("barid answers for messages whose flags were so before");
    }
    let is_refused = name == "CONDITION" && text(first) == Some("OK");
    if is_refused && *is_read_only && (is_store || verb.starts_with("EXPUNGE")) {
        return Some("Dovecot answers OK to changes of a read-only mailbox, and does nothing");
    }
    let last = words.last().copied().unwrap_or_default();
    let has_no_flags = is_store && (last.ends_with("FLAGS") || last.ends_with("FLAGS.SILENT"));
    if has_no_flags && (is_refused || second.is_none()) {
        return Some("Dovecot accepts STORE without flags");
    }
    None
}

fn of_fetches(difference: &Difference) -> Option<&'static str> {
    let Difference { name, first, second, is_broken, .. } = difference;
    if name.starts_with("SORT") || name == "ESEARCH ALL" && difference.command.contains("SORT ") {
        return repeats_a_key(&difference.command)
            .then_some("Dovecot's REVERSE of a repeated key applies to the next key");
    }
    let item = name.strip_prefix("FETCH ")?.split_once(' ')?.1;
    let is_leaf = item.starts_with("BINARY") && item.contains(".1]");
    if is_leaf && second.as_deref().is_some_and(<[u8]>::is_empty) && first.is_some() {
        return Some("a part that is no multipart has no parts, for BINARY too");
    }
    let is_whole = item.starts_with("BINARY[]") || item.starts_with("BINARY.SIZE[]");
    if is_whole && first.is_some() && second.is_some() {
        return Some("BINARY of a message or multipart is not decoded");
    }
    let has_filler = |it: &str| it.contains("MISSING_") || it.contains("SYNTAX_ERROR");
    if *is_broken && item == "ENVELOPE" && text(first).is_some_and(has_filler) {
        return Some("Dovecot has fillers for missing parts of addresses");
    }
    if *is_broken && item.starts_with("BODY") && !item.contains('[') {
        return Some("malformed Content-Type fields are read otherwise");
    }
    None
}

/// Returns the reason of a difference that only mboxes have.
fn explain_mbox(difference: &Difference) -> Option<&'static str> {
    let Difference { name, first, second, is_broken, .. } = difference;
    let number = |value| text(value)?.parse::<u64>().ok();
    let is_longer = number(first)? + 2 == number(second)?;
    let is_size = name.starts_with("FETCH ") && name.ends_with(" RFC822.SIZE");
    (*is_broken && is_size && is_longer)
        .then_some("a blank line between a header without a body and a From_ line ends the header")
}

/// Returns `true` for a SORT with a key that is named twice.
fn repeats_a_key(command: &str) -> bool {
    let lists = command.split('(').skip(1).filter_map(|rest| rest.split(')').next());
    let Some(keys) = lists.filter(|list| !list.is_empty()).last() else { return false };
    let mut keys: Vec<&str> = keys.split(' ').filter(|key| *key != "REVERSE").collect();
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    keys.len() < count
}

fn check_random(format: MailFormat) {
    let Some(dovecot) = DovecotServer::start(format) else { return };
    let seed = number("BARID_IMAP_SEED", 1);
    let options = DifferentialOptions {
        // Which session sees it first depends on the other sessions before.
        compares_recent: false,
        explain: &|difference| {
            let of_mbox = || explain_mbox(difference).filter(|_| format == MailFormat::Mbox);
            explain(difference).or_else(of_mbox)
        },
        ..DifferentialOptions::new(seed, number("BARID_IMAP_SCRIPTS", RANDOM_SCRIPTS))
    };
    let server = serve(format);
    let report = differential(&dovecot, &server, &options).unwrap();
    println!("barid and Dovecot, {}: {report}", format.name());
    assert!(report.values > 10 * report.commands, "{} values are too few", report.values);
    // docs/deviations.md has the kinds of answers that differ.
    let differing: u64 = report.names.values().sum();
    assert!(differing * DIFFERING_PART <= report.values, "{differing} values differ");
}

#[test]
fn random_commands_are_answered_as_by_dovecot_on_a_maildir() {
    check_random(MailFormat::Maildir);
}

#[test]
fn random_commands_are_answered_as_by_dovecot_on_an_mbox() {
    check_random(MailFormat::Mbox);
}
