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
const DIFFERING_PART: u64 = 20_000;

/// Returns the reason of a difference that docs/deviations.md names.
fn explain(difference: &Difference) -> Option<&'static str> {
    of_codes(difference)
        .or_else(|| of_lists(difference))
        .or_else(|| of_searches(difference))
        .or_else(|| of_changes(difference))
        .or_else(|| of_fetches(difference))
}

fn text(value: &Option<Vec<u8>>) -> Option<&str> {
    std::str::from_utf8(value.as_deref()?).ok()
}

fn of_codes(difference: &Difference) -> Option<&'static str> {
    let Difference { name, first, second, .. } = difference;
    if name == "ENABLED" && text(second) == Some("") {
        return Some("an extension that a command has enabled before is not named again");
    }
    if name == "CODE HIGHESTMODSEQ" && first.is_none() {
        return Some("Dovecot counts mod-sequences once a client has asked for them");
    }
    if name == "CODE CANNOT" && second.is_none() && difference.command.starts_with("RENAME ") {
        return Some("Dovecot looks at the new name before the old one");
    }
    if difference.command.contains("(UNCHANGEDSINCE @MODSEQ@)") {
        return Some("each server has its own mod-sequences: of expunges, too, or of flags alone");
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
    let is_root = command.ends_with(" \"\"") || command.contains(" \"\" RETURN ");
    if name.starts_with("LIST ") && command.starts_with("LIST ") && is_root {
        return Some("the root of a name without a leading separator is empty");
    }
    if name == "LSUB " && first.is_none() && command.ends_with(" \"\"") {
        return Some("LSUB with an empty name is answered as LIST is");
    }
    if name == "LIST INBOX" && text(first).is_some_and(|it| it.contains("noinferiors")) {
        return Some("INBOX may have mailboxes below it, also where it is a file");
    }
    if name.starts_with("LIST ") {
        let plain = text(second).map(|it| without(it, &SPECIAL_USES));
        if first.is_some() && text(first).map(str::to_owned) == plain {
            return Some("well-known names have special uses");
        }
        let childless = plain.map(|it| without(&it, &["\\haschildren", "\\hasnochildren"]));
        let asks = command.contains("RETURN (") && !command.contains("CHILDREN");
        if asks && first.is_some() && text(first).map(str::to_owned) == childless {
            return Some("attributes of children are not left out where they were not asked for");
        }
    }
    None
}

const SPECIAL_USES: [&str; 5] = ["\\archive", "\\drafts", "\\junk", "\\sent", "\\trash"];

/// Removes words; the space before the separator stays, as for a list without words.
fn without(attributes: &str, removed: &[&str]) -> String {
    let words = attributes.split(' ').filter(|word| !removed.contains(word));
    let text = words.collect::<Vec<_>>().join(" ");
    if text.starts_with('\'') { format!(" {text}") } else { text }
}

fn of_searches(difference: &Difference) -> Option<&'static str> {
    let Difference { name, first, second, command, is_broken, .. } = difference;
    if !["SEARCH", "ESEARCH", "SORT", "THREAD"].iter().any(|it| name.starts_with(it)) {
        return None;
    }
    if command.contains("RETURN (SAVE)") && first.is_some() && second.is_none() {
        return Some("a search that is only saved has no response");
    }
    if command.contains("MODSEQ @MODSEQ@") {
        return Some("each server has its own mod-sequences: of expunges, too, or of flags alone");
    }
    let is_by_date = ["SENTBEFORE", "SENTON", "SENTSINCE"].iter().any(|it| command.contains(it));
    (is_by_date && *is_broken).then_some("malformed dates are read otherwise")
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
    let is_accepted = name == "CONDITION" && text(first) == Some("BAD");
    if is_accepted && text(second) == Some("OK") && command.contains("(CHANGEDSINCE ") {
        return Some("Dovecot does not find a modifier behind one item with brackets");
    }
    let is_refused_too = name == "CONDITION" && text(first) == Some("NO");
    let is_copy = verb.starts_with("COPY ") || verb.starts_with("MOVE ");
    if is_refused_too && has_last_beside_others(&verb) && (is_copy || text(second) == Some("BAD")) {
        return Some("Dovecot does not find messages of some sets with `*` and others");
    }
    if is_refused && text(second) == Some("BAD") && has_last_beside_others(&verb) {
        return Some("Dovecot accepts numbers beyond the last message beside `*`");
    }
    if is_refused && text(second) == Some("BAD") && *is_read_only {
        return Some("Dovecot accepts numbers beyond the last message after EXAMINE");
    }
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

/// Returns `true` if the first set of a command has `*` and more.
fn has_last_beside_others(command: &str) -> bool {
    let sets =
        command.split(' ').find(|word| word.starts_with(|c: char| c.is_ascii_digit() || c == '*'));
    sets.is_some_and(|set| set.contains('*') && set.contains(','))
}

fn of_fetches(difference: &Difference) -> Option<&'static str> {
    let Difference { name, first, second, is_broken, command, .. } = difference;
    let is_malformed = *is_broken && text(first) == Some("NO") && text(second) == Some("OK");
    if name == "CONDITION" && is_malformed && command.contains("BINARY") {
        return Some("Dovecot refuses malformed encodings");
    }
    if name.starts_with("SORT") || name == "ESEARCH ALL" && command.contains("SORT ") {
        if *is_broken {
            return Some("malformed dates, subjects and sizes sort otherwise");
        }
        return repeats_a_key(command)
            .then_some("Dovecot's REVERSE of a repeated key applies to the next key");
    }
    if name == "THREAD" && *is_broken {
        return Some("malformed dates, subjects and sizes sort otherwise");
    }
    let item = name.strip_prefix("FETCH ")?.split_once(' ')?.1;
    let is_of_one = first.is_some() != second.is_some();
    if command.contains("(CHANGEDSINCE @MODSEQ@)") && is_of_one {
        return Some("each server has its own mod-sequences: of expunges, too, or of flags alone");
    }
    if item == "MODSEQ" && first.is_none() {
        return Some("every FETCH response has the mod-sequence once a client uses them");
    }
    let has_ended = first.is_none() || item == "UID" && second.is_none();
    if *is_broken && has_ended && command.contains("BINARY") {
        return Some("Dovecot ends a FETCH at the first part that it cannot decode");
    }
    let is_leaf = item.contains(".1]") || item.contains(".1.MIME]");
    let is_none = second.as_deref().is_some_and(|it| it.is_empty() || it == b"0");
    if is_leaf && is_none && first.is_some() {
        return Some("a part that is no multipart has no parts");
    }
    let is_whole = item.starts_with("BINARY[]") || item.starts_with("BINARY.SIZE[]");
    let has_parts = |it: &[u8]| it.windows(11).any(|at| at == b"\r\nContent-T");
    let has_parts = second.as_deref().is_some_and(has_parts) && item.starts_with("BINARY[");
    if (is_whole || has_parts) && first.is_some() && second.is_some() {
        return Some("BINARY of a message or multipart is not decoded");
    }
    if *is_broken && item == "ENVELOPE" && first.is_some() && second.is_some() {
        return Some("Dovecot shows the last of several fields, and addresses with fillers");
    }
    if *is_broken && item.contains(['[']) && item.contains(|c: char| c.is_ascii_digit()) {
        return Some("malformed messages are divided into parts otherwise");
    }
    if *is_broken && item.starts_with("BODY") && !item.contains('[') {
        return Some("malformed Content-Type fields are read otherwise");
    }
    None
}

/// Returns the reason of a difference that only mboxes have.
fn explain_mbox(difference: &Difference) -> Option<&'static str> {
    let Difference { name, first, second, is_broken, .. } = difference;
    let is_flags = ["FLAGS", "MODSEQ", "UID"].iter().any(|it| name.ends_with(&format!(" {it}")));
    if name.starts_with("FETCH ") && is_flags && first.is_none() && second.is_some() {
        return Some("changes of flags get another mod-sequence when they are written to the file");
    }
    if !*is_broken || !name.starts_with("FETCH ") && !name.starts_with("STATUS ") {
        return None;
    }
    let (first, second) = (first.as_deref()?, second.as_deref()?);
    let is_size = name.ends_with("SIZE");
    if is_size && is_longer_by_a_line_end(is_size, second, first, 1) {
        return Some("a last CR without LF becomes a line end in an mbox");
    }
    if is_longer_by_a_line_end(is_size, second, first, 2) {
        return Some("a blank line before a From_ line ends a header without a body");
    }
    is_longer_by_a_line_end(is_size, first, second, 2)
        .then_some("a last line without an end gets none in an mbox")
}

/// Returns `true` if a text is longer by a CRLF, or the size of one by `bytes`.
fn is_longer_by_a_line_end(is_size: bool, long: &[u8], short: &[u8], bytes: u64) -> bool {
    let number = |value: &[u8]| std::str::from_utf8(value).ok()?.parse::<u64>().ok();
    match number(long).zip(number(short)) {
        Some((long, short)) if is_size => short + bytes == long,
        _ => long.strip_suffix(b"\r\n") == Some(short),
    }
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
