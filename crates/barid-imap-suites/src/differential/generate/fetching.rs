//! FETCH.

use super::{Generator, MODSEQ};

/// Items without arguments.
const PLAIN: [&str; 7] =
    ["FLAGS", "UID", "INTERNALDATE", "RFC822.SIZE", "ENVELOPE", "BODY", "BODYSTRUCTURE"];
/// Names for HEADER.FIELDS.
const FIELDS: [&str; 8] =
    ["Subject", "FROM", "to", "X-None", "Received", "Message-ID", "Content-Type", "References"];

impl Generator<'_> {
    pub(super) fn fetch(&mut self) -> String {
        let (prefix, of_uids) = self.uid_prefix();
        let set = self.set(of_uids);
        let items = match self.rng.u32(0..12) {
            0 => self.pick(&["ALL", "FAST", "FULL"]).to_owned(),
            1 => self.item(),
            _ => {
                let count = self.rng.usize(1..5);
                let items: Vec<String> = (0..count).map(|_| self.item()).collect();
                format!("({})", items.join(" "))
            }
        };
        let modifier = if self.has_condstore && self.one_in(5) {
            format!(" (CHANGEDSINCE {})", self.modseq())
        } else {
            String::new()
        };
        format!("{prefix}FETCH {set} {items}{modifier}")
    }

    /// Returns a mod-sequence: the last one, or one before all changes.
    pub(super) fn modseq(&mut self) -> String {
        if self.one_in(3) { "1".to_owned() } else { MODSEQ.to_owned() }
    }

    fn item(&mut self) -> String {
        match self.rng.u32(0..20) {
            0..9 => self.pick(&PLAIN).to_owned(),
            9 => self.pick(&["RFC822.HEADER", "RFC822.TEXT", "RFC822"]).to_owned(),
            10 | 11 if self.has("BINARY") => self.binary(),
            12 if self.has_condstore => "MODSEQ".to_owned(),
            _ => self.body(),
        }
    }

    fn body(&mut self) -> String {
        let peek = if self.one_in(5) { "" } else { ".PEEK" };
        let section = self.section();
        let partial = self.partial();
        format!("BODY{peek}[{section}]{partial}")
    }

    fn binary(&mut self) -> String {
        let part = if self.one_in(6) { String::new() } else { self.part() };
        if self.one_in(3) {
            return format!("BINARY.SIZE[{part}]");
        }
        let peek = if self.one_in(5) { "" } else { ".PEEK" };
        let partial = self.partial();
        format!("BINARY{peek}[{part}]{partial}")
    }

    fn partial(&mut self) -> String {
        if !self.one_in(4) {
            return String::new();
        }
        let start = if self.one_in(3) { 0 } else { self.rng.u32(0..3_000) };
        format!("<{start}.{}>", self.rng.u32(1..2_000))
    }

    fn section(&mut self) -> String {
        match self.rng.u32(0..12) {
            0..2 => String::new(),
            2 => "HEADER".to_owned(),
            3 => "TEXT".to_owned(),
            4..7 => {
                let not = if self.one_in(3) { ".NOT" } else { "" };
                format!("HEADER.FIELDS{not} ({})", self.some(&FIELDS, 30).join(" "))
            }
            7..10 => self.part(),
            _ => {
                let part = self.part();
                format!("{part}.{}", self.pick(&["MIME", "HEADER", "TEXT"]))
            }
        }
    }

    fn part(&mut self) -> String {
        let first = self.rng.u32(1..4);
        match self.rng.u32(0..8) {
            0 => format!("{first}.{}", self.rng.u32(1..3)),
            1 => format!("{first}.{}.1", self.rng.u32(1..3)),
            _ => first.to_string(),
        }
    }
}
