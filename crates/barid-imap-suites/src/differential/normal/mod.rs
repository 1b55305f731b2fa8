//! Answers in a form in which only what a client can rely on is compared.
//!
//! - Texts are dropped, response codes kept.
//! - Data of FETCH belongs to messages, not to places: a message is named after its place when the
//!   mailbox was selected, so that it does not matter when an EXPUNGE is announced. Several FETCH
//!   responses of one command are one.
//! - Flags, attributes and sets have no order; SEARCH neither, SORT and THREAD have one.
//! - Mod-sequences are all the same, as are UIDVALIDITYs of mailboxes that a script has created:
//!   each server has its own.

mod codes;
mod fetched;
mod values;

use std::collections::BTreeMap;
use std::io;

use self::codes::{code, is_ignored};
use self::fetched::items;
use self::values::{number_set, numbers, numbers_in_order, serialised, sorted_words, uidvalidity};
use crate::wire::{Arg, Reply, code_len, parse_args};

/// Condition of a command without an answer.
const CLOSED: &str = "CLOSED";

/// An answer in normal form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NormalReply {
    /// `OK`, `NO` or `BAD`; `CLOSED` if there was none.
    pub(super) condition: String,
    /// Values by their names: `FETCH m3 FLAGS`, `LIST INBOX`, `CODE UIDNEXT`.
    pub(super) values: BTreeMap<String, Vec<u8>>,
}

/// The selected mailbox of a session, which its answers are read with.
#[derive(Clone, Debug, Default)]
pub(super) struct Normaliser {
    /// Names of the messages: their places at the time of SELECT, and later numbers for new ones.
    messages: Vec<u32>,
    last_message: u32,
    is_selected: bool,
    compares_recent: bool,
}

impl Normaliser {
    pub(super) fn new(compares_recent: bool) -> Self {
        Self { compares_recent, ..Self::default() }
    }

    /// Brings an answer into the normal form.
    pub(super) fn reply(&mut self, command: &[u8], reply: &Reply) -> NormalReply {
        let command = String::from_utf8_lossy(command).to_ascii_uppercase();
        let is_select = command.starts_with("SELECT") || command.starts_with("EXAMINE");
        let mut normal = NormalReply { condition: reply.condition(), ..NormalReply::default() };
        if is_select {
            self.leave();
        }
        let context = Context { is_select, is_sort: command.contains("SORT ") };
        for line in &reply.untagged {
            self.untagged(context, line, &mut normal);
        }
        self.status(context, &reply.status, &mut normal);
        if is_select {
            self.is_selected = reply.is_ok();
        }
        if !self.is_selected || (reply.is_ok() && ["CLOSE", "UNSELECT"].contains(&&*command)) {
            self.leave();
        } else {
            normal.set("EXISTS", self.messages.len().to_string().as_bytes());
        }
        normal
    }

    fn leave(&mut self) {
        self.messages.clear();
        self.last_message = 0;
        self.is_selected = false;
    }

    fn untagged(&mut self, context: Context, line: &[u8], normal: &mut NormalReply) {
        let Ok(args) = parse_args(line) else {
            normal.set("UNPARSABLE", line);
            return;
        };
        let first = upper(args.first());
        if let Ok(number) = first.parse() {
            self.numbered(context, number, &args, normal);
            return;
        }
        let rest = args.get(1..).unwrap_or_default();
        match first.as_str() {
            "OK" | "NO" | "BAD" | "BYE" | "PREAUTH" => self.status(context, line, normal),
            // Elsewhere it is sent when a server pleases.
            "FLAGS" if !context.is_select => {}
            "FLAGS" => normal.set("FLAGS", &sorted_words(rest.first())),
            "SEARCH" => normal.set("SEARCH", &numbers(rest)),
            "SORT" => normal.set("SORT", &numbers_in_order(rest)),
            "THREAD" => normal.set("THREAD", &serialised(rest)),
            "ESEARCH" => esearch(context, rest, normal),
            "LIST" | "LSUB" => list(&first, rest, normal),
            "STATUS" => status_items(rest, normal),
            "ENABLED" => normal.set("ENABLED", &sorted_words(Some(&Arg::List(rest.to_vec())))),
            "CAPABILITY" => {}
            _ => normal.set(&first, &serialised(rest)),
        }
    }

    fn numbered(
        &mut self,
        context: Context,
        number: usize,
        args: &[Arg],
        normal: &mut NormalReply,
    ) {
        match upper(args.get(1)).as_str() {
            "EXISTS" => {
                while self.messages.len() < number {
                    self.last_message += 1;
                    self.messages.push(self.last_message);
                }
                if number < self.messages.len() {
                    normal.set("EXISTS WITHOUT EXPUNGE", number.to_string().as_bytes());
                }
            }
            // Elsewhere it is sent when a server pleases.
            "RECENT" if context.is_select && self.compares_recent => {
                normal.set("RECENT", number.to_string().as_bytes());
            }
            "RECENT" => {}
            "EXPUNGE" if (1..=self.messages.len()).contains(&number) => {
                let message = self.messages.remove(number - 1);
                normal.set(&format!("EXPUNGE m{message}"), b"");
            }
            "FETCH" if (1..=self.messages.len()).contains(&number) => {
                let message = self.messages[number - 1];
                let list = args.get(2).and_then(Arg::list).unwrap_or_default();
                for (name, value) in items(list, self.compares_recent) {
                    normal.set(&format!("FETCH m{message} {name}"), &value);
                }
            }
            other => normal.set(&format!("OUT OF RANGE {number} {other}"), b""),
        }
    }

    /// Takes the response code of a status response.
    fn status(&self, context: Context, line: &[u8], normal: &mut NormalReply) {
        let space = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let (condition, text) = line.split_at(space);
        let text = text.strip_prefix(b" ").unwrap_or(text);
        let len = code_len(text);
        if len < 2 {
            let is_tagged = condition.eq_ignore_ascii_case(normal.condition.as_bytes());
            if !condition.eq_ignore_ascii_case(b"OK") && !is_tagged {
                normal.set(&String::from_utf8_lossy(condition).to_ascii_uppercase(), b"");
            }
            return;
        }
        let (name, value) = code(&text[1..len - 1]);
        let is_of_select = ["UNSEEN", "PERMANENTFLAGS"].contains(&name.as_str());
        if !is_ignored(&name) && (!is_of_select || context.is_select) {
            normal.set(&format!("CODE {name}"), &value);
        }
    }
}

/// The command that is answered.
#[derive(Clone, Copy, Debug)]
struct Context {
    is_select: bool,
    is_sort: bool,
}

impl NormalReply {
    /// Returns the answer of a server that has gone.
    pub(super) fn closed(error: &io::Error) -> Self {
        let mut reply = Self { condition: CLOSED.to_owned(), ..Self::default() };
        reply.set("ERROR", error.kind().to_string().as_bytes());
        reply
    }

    /// Returns `true` if the server has gone.
    pub(super) fn is_closed(&self) -> bool {
        self.condition == CLOSED
    }

    /// Sets a value; a later one replaces it.
    pub(super) fn set(&mut self, name: &str, value: &[u8]) {
        self.values.insert(name.to_owned(), value.to_vec());
    }

    /// Adds a value to those of the same name.
    fn add(&mut self, name: &str, value: &[u8]) {
        let values = self.values.entry(name.to_owned()).or_default();
        if !values.is_empty() {
            values.extend_from_slice(b" AND ");
        }
        values.extend_from_slice(value);
    }
}

fn upper(arg: Option<&Arg>) -> String {
    let bytes = arg.and_then(Arg::bytes).unwrap_or_default();
    String::from_utf8_lossy(bytes).to_ascii_uppercase()
}

/// `LIST (attributes) "/" name`, and the data of LIST-EXTENDED.
fn list(first: &str, rest: &[Arg], normal: &mut NormalReply) {
    let [attributes, separator, name, extended @ ..] = rest else {
        normal.set(&format!("BROKEN {first}"), &serialised(rest));
        return;
    };
    // Nothing but a hint, which a server may always leave out (RFC 9051 section 7.3.1).
    let is_kept = |arg: &Arg| !arg.is_atom("\\Marked") && !arg.is_atom("\\UnMarked");
    let attributes = attributes.list().unwrap_or_default().iter().filter(|arg| is_kept(arg));
    let attributes = Arg::List(attributes.cloned().collect());
    let separator = serialised(std::slice::from_ref(separator));
    let extended = serialised(extended).to_ascii_uppercase();
    let value = [&sorted_words(Some(&attributes)), separator.as_slice(), &extended].join(&b' ');
    let name = String::from_utf8_lossy(name.bytes().unwrap_or_default()).into_owned();
    normal.add(&format!("{first} {name}"), &value);
}

fn status_items(rest: &[Arg], normal: &mut NormalReply) {
    let name = rest.first().and_then(Arg::bytes).unwrap_or_default();
    let mut name = String::from_utf8_lossy(name).into_owned();
    if name.eq_ignore_ascii_case("INBOX") {
        name.make_ascii_uppercase();
    }
    let items = rest.get(1).and_then(Arg::list).unwrap_or_default();
    for pair in items.chunks(2) {
        let item = upper(pair.first());
        let value = pair.get(1).and_then(Arg::bytes).unwrap_or_default();
        let value = match item.as_str() {
            "UIDVALIDITY" => uidvalidity(value),
            "HIGHESTMODSEQ" => b"M".to_vec(),
            _ => value.to_vec(),
        };
        normal.set(&format!("STATUS {name} {item}"), &value);
    }
}

/// `ESEARCH (TAG "t") UID ALL 1:3 ...`.
fn esearch(context: Context, rest: &[Arg], normal: &mut NormalReply) {
    let mut args = rest.iter().filter(|arg| !matches!(arg, Arg::List(_))).peekable();
    normal.set("ESEARCH", b"");
    while let Some(arg) = args.next() {
        let name = upper(Some(arg));
        if name == "UID" {
            normal.set("ESEARCH UID", b"");
            continue;
        }
        let value = args.next().and_then(Arg::bytes).unwrap_or_default();
        let value = match name.as_str() {
            "MODSEQ" => b"M".to_vec(),
            "ALL" if !context.is_sort => number_set(value),
            _ => value.to_vec(),
        };
        normal.set(&format!("ESEARCH {name}"), &value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(normaliser: &mut Normaliser, command: &str, lines: &[&str], status: &str) -> String {
        let untagged = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
        let reply = Reply { untagged, status: status.as_bytes().to_vec() };
        let normal = normaliser.reply(command.as_bytes(), &reply);
        let values = normal
            .values
            .iter()
            .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)));
        format!("{}; {}", normal.condition, values.collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn messages_keep_their_names() {
        let mut normaliser = Normaliser::new(true);
        let selected =
            normal(&mut normaliser, "SELECT x", &["3 EXISTS", "1 RECENT"], "OK [READ-WRITE] x");
        assert_eq!(selected, "OK; CODE READ-WRITE=; EXISTS=3; RECENT=1");
        let lines = ["1 EXPUNGE", "2 FETCH (UID 9 FLAGS (\\Seen a))", "3 EXISTS"];
        let expected = "OK; EXISTS=3; EXPUNGE m1=; FETCH m3 FLAGS=\\seen a; FETCH m3 UID=9";
        assert_eq!(normal(&mut normaliser, "NOOP", &lines, "OK"), expected);
        let lines = ["2 FETCH (UID 9)", "1 EXPUNGE", "1 FETCH (FLAGS (A \\SEEN))"];
        let expected = "OK; EXISTS=2; EXPUNGE m2=; FETCH m3 FLAGS=A \\seen; FETCH m3 UID=9";
        assert_eq!(normal(&mut normaliser, "NOOP", &lines, "OK"), expected);
        assert_eq!(
            normal(&mut normaliser, "CLOSE", &["* 7 FETCH ()"], "OK").split(';').next(),
            Some("OK")
        );
    }

    #[test]
    fn the_rest_is_sorted() {
        let mut normaliser = Normaliser::new(false);
        let mut check = |command: &str, line: &str, expected: &str| {
            let found = normal(&mut normaliser, command, &[line], "no [x] y");
            let found = found.strip_prefix("NO; ").unwrap();
            assert_eq!(found.replace("CODE X=; ", "").replace("; CODE X=", ""), expected);
        };
        check("SEARCH ALL", "SEARCH 3 1 2", "SEARCH=1 2 3");
        check("SEARCH ALL", "SEARCH 3 1 (MODSEQ 7)", "SEARCH=1 3 MODSEQ");
        check("LIST", "LIST (\\Marked \\b \\A) \"/\" \"x y\"", "LIST x y=\\a \\b '/ ");
        check(
            "STATUS",
            "STATUS x (UIDVALIDITY 12345678 MESSAGES 2)",
            "STATUS x MESSAGES=2; STATUS x UIDVALIDITY=V",
        );
        check(
            "SEARCH",
            "ESEARCH (TAG \"x\") UID ALL 3,1:2 MODSEQ 9",
            "ESEARCH=; ESEARCH ALL=1:3; ESEARCH MODSEQ=M; ESEARCH UID=",
        );
        check("UID SORT x", "ESEARCH (TAG \"x\") ALL 3,1:2", "ESEARCH=; ESEARCH ALL=3,1:2");
        check("THREAD", "THREAD (1)(2 (3)(4))", "THREAD=(1) (2 (3) (4))");
        check("NOOP", "BAD x", "BAD=");
    }
}
