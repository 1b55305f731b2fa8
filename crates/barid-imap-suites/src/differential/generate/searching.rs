//! SEARCH, SORT and THREAD.

use barid_testkit::corpus::Calendar;

use super::{Generator, KEYWORDS};

/// Deepest nesting of search keys.
const DEPTH_MAX: u32 = 3;
/// Keys without arguments.
const FLAG_KEYS: [&str; 16] = [
    "ALL",
    "ANSWERED",
    "DELETED",
    "DRAFT",
    "FLAGGED",
    "SEEN",
    "UNANSWERED",
    "UNDELETED",
    "UNDRAFT",
    "UNFLAGGED",
    "UNSEEN",
    "NEW",
    "OLD",
    "RECENT",
    "SEEN",
    "UNDELETED",
];
/// Keys with a text.
const TEXT_KEYS: [&str; 7] = ["SUBJECT", "FROM", "TO", "CC", "BCC", "BODY", "TEXT"];
/// Keys with a date.
const DATE_KEYS: [&str; 6] = ["BEFORE", "ON", "SINCE", "SENTBEFORE", "SENTON", "SENTSINCE"];
/// Criteria of SORT.
const SORT_KEYS: [&str; 7] = ["ARRIVAL", "CC", "DATE", "FROM", "SIZE", "SUBJECT", "TO"];
/// Options of RETURN.
const RETURNS: [&str; 4] = ["MIN", "MAX", "COUNT", "ALL"];

impl Generator<'_> {
    pub(super) fn search(&mut self) -> Vec<u8> {
        let (prefix, _) = self.uid_prefix();
        let mut options = self.return_options("ESEARCH");
        let charset = match self.rng.u32(0..8) {
            0 => "CHARSET UTF-8 ",
            1 => "CHARSET US-ASCII ",
            _ => "",
        };
        let count = self.rng.usize(1..4);
        let keys: Vec<String> = (0..count).map(|_| self.key(0)).collect();
        let keys = keys.join(" ");
        // Which messages these find differs between servers: nothing may depend on that later.
        let of_server = |word: &str| ["NEW", "OLD", "RECENT", "MODSEQ"].contains(&word);
        if keys.split([' ', '(', ')']).any(of_server) {
            options = options.replace("SAVE", "");
        }
        let command = format!("{prefix}SEARCH {options}{charset}{keys}");
        if options.contains("SAVE") {
            self.has_saved_search = true;
        }
        command.into_bytes()
    }

    /// Returns `RETURN (...) ` or nothing.
    fn return_options(&mut self, capability: &str) -> String {
        if !self.has(capability) || !self.one_in(3) {
            return String::new();
        }
        let mut options = if self.one_in(5) { Vec::new() } else { self.some(&RETURNS, 40) };
        if capability == "ESEARCH" && self.has("SEARCHRES") && self.one_in(3) {
            options.push("SAVE");
        }
        format!("RETURN ({}) ", options.join(" "))
    }

    pub(super) fn sort_or_thread(&mut self) -> Vec<u8> {
        let (prefix, _) = self.uid_prefix();
        let threads: Vec<&str> = ["REFERENCES", "REFS", "ORDEREDSUBJECT"]
            .into_iter()
            .filter(|algorithm| self.has(&format!("THREAD={algorithm}")))
            .collect();
        let key = if self.rng.bool() { "ALL".to_owned() } else { self.key(1) };
        if !threads.is_empty() && self.one_in(2) {
            let algorithm = self.pick(&threads);
            return format!("{prefix}THREAD {algorithm} UTF-8 {key}").into_bytes();
        }
        if !self.has("SORT") {
            return self.search();
        }
        let options = self.return_options("ESORT");
        let mut criteria = Vec::new();
        for _ in 0..self.rng.usize(1..4) {
            let reverse = if self.one_in(3) { "REVERSE " } else { "" };
            let criterion = if self.has("SORT=DISPLAY") && self.one_in(6) {
                self.pick(&["DISPLAYFROM", "DISPLAYTO"])
            } else {
                self.pick(&SORT_KEYS)
            };
            criteria.push(format!("{reverse}{criterion}"));
        }
        format!("{prefix}SORT {options}({}) UTF-8 {key}", criteria.join(" ")).into_bytes()
    }

    fn key(&mut self, depth: u32) -> String {
        let deep = depth < DEPTH_MAX;
        match self.rng.u32(0..24) {
            0..6 => self.pick(&FLAG_KEYS).to_owned(),
            6..11 => {
                let key = self.pick(&TEXT_KEYS);
                let word = self.word();
                format!("{key} {word}")
            }
            11 | 12 => {
                let field = self.pick(&["Subject", "message-id", "X-None", "Received", "to"]);
                let word = if self.one_in(3) { "\"\"".to_owned() } else { self.word() };
                format!("HEADER {field} {word}")
            }
            13 | 14 => {
                let key = self.pick(&DATE_KEYS);
                let date = self.date();
                format!("{key} {date}")
            }
            15 => format!("{} {}", self.pick(&["LARGER", "SMALLER"]), self.rng.u32(0..20_000)),
            16 => format!("{} {}", self.pick(&["KEYWORD", "UNKEYWORD"]), self.pick(&KEYWORDS)),
            17 => self.set(false),
            18 => format!("UID {}", self.set(true)),
            19 | 20 if deep => format!("NOT {}", self.key(depth + 1)),
            21 if deep => format!("OR {} {}", self.key(depth + 1), self.key(depth + 1)),
            22 if deep => format!("({} {})", self.key(depth + 1), self.key(depth + 1)),
            23 if self.has_condstore => format!("MODSEQ {}", self.modseq()),
            _ => "ALL".to_owned(),
        }
    }

    /// Returns a word of a message, or a part of one.
    fn word(&mut self) -> String {
        let message = &self.messages[self.rng.usize(0..self.messages.len())];
        let text = String::from_utf8_lossy(&message.bytes);
        let is_plain = |word: &&str| {
            (3..20).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        let words: Vec<&str> = text.split_ascii_whitespace().filter(is_plain).take(400).collect();
        let Some(word) = words.get(self.rng.usize(0..words.len().max(1))) else {
            return "\"re\"".to_owned();
        };
        let word = if self.one_in(4) { &word[1..] } else { word };
        match self.rng.u32(0..4) {
            0 => word.to_ascii_uppercase(),
            1 => format!("\"{word}\""),
            2 => format!("{{{}+}}\r\n{word}", word.len()),
            _ => word.to_owned(),
        }
    }

    /// Returns a date near one of the messages.
    fn date(&mut self) -> String {
        let message = &self.messages[self.rng.usize(0..self.messages.len())];
        let date = Calendar::new(message.date + i64::from(self.rng.i32(-2..3)) * 86_400);
        format!("{}-{}-{}", date.day, date.month, date.year)
    }
}
