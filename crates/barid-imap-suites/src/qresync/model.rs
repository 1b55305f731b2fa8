//! All that a disconnected client remembers of a mailbox.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use super::report::Counts;
use crate::wire::{Arg, Fetched, Reply, parse_args};

/// Most UIDs of a set that a server may send.
const SET_LEN_MAX: u32 = 1_000_000;

/// Flags of messages by UID.
pub(super) type Messages = BTreeMap<u32, Vec<String>>;

/// The memory of a client.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) uidvalidity: Option<u64>,
    /// The highest mod-sequence up to which it knows everything.
    pub(super) highest: u64,
    pub(super) messages: Messages,
    /// UIDs that have vanished.
    gone: BTreeSet<u32>,
    /// UIDs that had vanished up to `highest` of the last SELECT: nothing names them again to a
    /// client that knows so much, unless the server has lost its records.
    settled: BTreeSet<u32>,
    /// A UID above all that messages have had, as far as the client knows.
    uidnext: u64,
    pub(super) counts: Counts,
}

/// The kind of a command, which decides what its answer may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandKind {
    /// SELECT with or without QRESYNC.
    Select,
    /// FETCH, STORE or SEARCH with sequence numbers: no message may vanish.
    Numbered,
    /// STORE of one flag with `.SILENT`: an answer without flags means that it is set or cleared.
    Silent(&'static str, bool),
    /// Anything else.
    Other,
}

/// The selected mailbox of a session: for each sequence number the UID, if it is known.
pub(super) type View = Vec<Option<u32>>;

impl Model {
    /// Takes an answer.
    ///
    /// # Errors
    /// A rule that the server has broken.
    pub(super) fn take(
        &mut self,
        kind: CommandKind,
        view: &mut View,
        reply: &Reply,
    ) -> Result<(), String> {
        if kind == CommandKind::Select {
            return self.take_select(view, reply);
        }
        let mut modseq = 0;
        for line in &reply.untagged {
            let shown = || crate::wire::shown(line);
            let text = String::from_utf8_lossy(line).to_ascii_uppercase();
            let words: Vec<&str> = text.split(' ').take(3).collect();
            match words.as_slice() {
                [number, "EXISTS", ..] => exists(view, number)?,
                [_, "EXPUNGE", ..] => return Err(format!("EXPUNGE after ENABLE: {}", shown())),
                ["VANISHED", "(EARLIER)", ..] => drop(self.vanish_earlier(line)?),
                ["VANISHED", ..] if kind == CommandKind::Numbered => {
                    return Err(format!("it must wait: {}", shown()));
                }
                ["VANISHED", ..] => self.vanish(view, line)?,
                [_, "FETCH", ..] => {
                    let fetched = Fetched::of(line).ok_or_else(shown)?;
                    let of_fetch = self.fetch(kind, view, &fetched);
                    modseq = modseq.max(of_fetch.map_err(|error| format!("{error}: {}", shown()))?);
                }
                _ => {}
            }
        }
        self.follow(reply, modseq);
        Ok(())
    }

    /// Takes the highest mod-sequence of an answer (RFC 7162 section 6): that of a response code
    /// if there is one, even if FETCH has shown higher ones.
    fn follow(&mut self, reply: &Reply, of_fetch: u64) {
        match reply.value_of("HIGHESTMODSEQ").and_then(|value| value.parse().ok()) {
            Some(highest) => {
                self.counts.falls += u64::from(highest < self.highest);
                self.highest = highest;
            }
            None => self.highest = self.highest.max(of_fetch),
        }
    }

    fn take_select(&mut self, view: &mut View, reply: &Reply) -> Result<(), String> {
        let number = |name| reply.value_of(name).and_then(|value| value.parse::<u64>().ok());
        let uidvalidity = number("UIDVALIDITY").ok_or("SELECT has no UIDVALIDITY")?;
        let highest = number("HIGHESTMODSEQ").ok_or("SELECT has no HIGHESTMODSEQ")?;
        let exists = reply.number("EXISTS").ok_or("SELECT has no EXISTS")?;
        self.uidnext = number("UIDNEXT").ok_or("SELECT has no UIDNEXT")?;
        if self.uidvalidity.is_some_and(|known| known != uidvalidity) {
            self.counts.uidvalidity_changes += 1;
            self.messages.clear();
            self.gone.clear();
            self.settled.clear();
        } else {
            self.counts.falls += u64::from(highest < self.highest);
        }
        self.uidvalidity = Some(uidvalidity);
        for line in &reply.untagged {
            let text = String::from_utf8_lossy(line).to_ascii_uppercase();
            if text.starts_with("VANISHED (EARLIER) ") {
                self.vanish_earlier(line)?;
            } else if text.starts_with("VANISHED") {
                return Err(format!("SELECT is not done yet: {text}"));
            }
        }
        let known = self.messages.keys().map(|uid| Some(*uid));
        *view = known.collect();
        if view.len() > exists as usize {
            return Err(format!("{} messages are known, {exists} exist", view.len()));
        }
        // Messages that were announced before, but not fetched, are not sent again.
        view.resize(exists as usize, None);
        for fetched in reply.untagged.iter().filter_map(|line| Fetched::of(line)) {
            fetched.flags().ok_or("a FETCH of SELECT has no FLAGS")?;
            let taken = self.fetch(CommandKind::Select, view, &fetched);
            taken.map_err(|error| format!("FETCH {} of SELECT: {error}", fetched.seq))?;
        }
        self.highest = highest;
        self.settled.clone_from(&self.gone);
        Ok(())
    }

    /// Takes `VANISHED (EARLIER)`.
    fn vanish_earlier(&mut self, line: &[u8]) -> Result<(), String> {
        for uid in uids_of(line)? {
            if u64::from(uid) >= self.uidnext {
                return Err(format!("UID {uid} vanishes, which no message has had"));
            }
            self.counts.vanished += 1;
            self.counts.repeated += u64::from(self.settled.contains(&uid));
            self.messages.remove(&uid);
            self.gone.insert(uid);
        }
        Ok(())
    }

    fn vanish(&mut self, view: &mut View, line: &[u8]) -> Result<(), String> {
        for uid in uids_of(line)? {
            self.counts.vanished += 1;
            // A message that was announced by EXISTS alone has a UID that nobody has asked for.
            let unknown = || view.iter().rposition(Option::is_none);
            let place = view.iter().position(|known| *known == Some(uid)).or_else(unknown);
            let place = place.ok_or_else(|| format!("UID {uid} vanishes, which is not visible"))?;
            view.remove(place);
            self.messages.remove(&uid);
            self.gone.insert(uid);
        }
        Ok(())
    }

    /// Takes a FETCH response. Returns its mod-sequence.
    fn fetch(
        &mut self,
        kind: CommandKind,
        view: &mut View,
        fetched: &Fetched,
    ) -> Result<u64, String> {
        let uid = uid_of(fetched).ok_or("a FETCH without UID")?;
        let modseq = fetched.number("MODSEQ").ok_or("a FETCH without MODSEQ")?;
        let is_visible = view.contains(&Some(uid));
        let place = (fetched.seq as usize).checked_sub(1).and_then(|place| view.get_mut(place));
        match place {
            None => return Err("a FETCH of a message that is not announced".to_owned()),
            Some(Some(known)) if *known != uid => return Err(format!("it is UID {known}")),
            Some(known) => *known = Some(uid),
        }
        self.counts.fetches += 1;
        self.uidnext = self.uidnext.max(u64::from(uid) + 1);
        if self.gone.contains(&uid) {
            // VANISHED (EARLIER) has named it, while it is still visible.
            return if is_visible {
                Ok(modseq)
            } else {
                Err(format!("UID {uid} has vanished before"))
            };
        }
        if let Some(flags) = fetched.flags() {
            self.messages.insert(uid, flags);
        } else if let CommandKind::Silent(flag, is_set) = kind
            && let Some(flags) = self.messages.get_mut(&uid)
        {
            flags.retain(|known| known != flag);
            if is_set {
                flags.push(flag.to_owned());
                flags.sort();
            }
        }
        Ok(modseq)
    }

    /// Forgets the messages after the first one that was announced and not fetched, before a
    /// session ends: only UIDs up to some last one are known then, and others are fetched again.
    pub(super) fn forget_after_gap(&mut self, view: &View) {
        let after = view.iter().skip_while(|uid| uid.is_some()).flatten();
        for uid in after {
            self.messages.remove(uid);
        }
    }

    /// Returns the parameter of SELECT; none at the first time.
    pub(super) fn parameter(&self, rng: &mut Rng) -> String {
        let Some(uidvalidity) = self.uidvalidity else { return String::new() };
        let highest = self.highest;
        let uids: Vec<u32> = self.messages.keys().copied().collect();
        let last = uids.last().copied().unwrap_or(1);
        let known = match rng.u32(0..4) {
            0 => String::new(),
            1 => format!(" 1:{last}"),
            2 if !uids.is_empty() => format!(" {}", set_of(&uids)),
            _ if uids.is_empty() => String::new(),
            _ => {
                // Some places and their UIDs.
                let places: Vec<usize> = (0..uids.len()).filter(|_| rng.u32(0..3) == 0).collect();
                if places.is_empty() {
                    format!(" 1:{last}")
                } else {
                    let seqs: Vec<u32> = places.iter().map(|place| *place as u32 + 1).collect();
                    let matched: Vec<u32> = places.iter().map(|place| uids[*place]).collect();
                    format!(" 1:{last} ({} {})", set_of(&seqs), set_of(&matched))
                }
            }
        };
        format!(" (QRESYNC ({uidvalidity} {highest}{known}))")
    }
}

fn exists(view: &mut View, number: &str) -> Result<(), String> {
    let number: usize = number.parse().map_err(|_| format!("{number} EXISTS"))?;
    if number < view.len() {
        return Err(format!("EXISTS falls from {} to {number}", view.len()));
    }
    view.resize(number, None);
    Ok(())
}

fn uid_of(fetched: &Fetched) -> Option<u32> {
    u32::try_from(fetched.number("UID")?).ok()
}

/// Returns the UIDs of a VANISHED response.
fn uids_of(line: &[u8]) -> Result<Vec<u32>, String> {
    let args = parse_args(line).map_err(|error| error.to_string())?;
    let set = args.last().and_then(Arg::bytes).unwrap_or_default();
    let set = String::from_utf8_lossy(set).into_owned();
    let mut uids = Vec::new();
    for part in set.split(',') {
        let (first, last) = part.split_once(':').unwrap_or((part, part));
        match (first.parse::<u32>(), last.parse::<u32>()) {
            (Ok(first), Ok(last)) if first.abs_diff(last) < SET_LEN_MAX => {
                uids.extend(first.min(last)..=first.max(last));
            }
            _ => return Err(format!("not a set of UIDs: {set}")),
        }
    }
    Ok(uids)
}

/// Returns numbers as a set, in their order.
pub(crate) fn set_of(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers.iter().copied() {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let ranges = ranges.into_iter().map(|(first, last)| {
        if first == last { first.to_string() } else { format!("{first}:{last}") }
    });
    ranges.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(lines: &[&str], status: &str) -> Reply {
        let untagged = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
        Reply { untagged, status: status.as_bytes().to_vec() }
    }

    /// A model that has selected a mailbox of UIDs 1, 3 and 4.
    fn selected() -> (Model, View) {
        let (mut model, mut view) = (Model::default(), View::new());
        let lines =
            ["3 EXISTS", "OK [UIDVALIDITY 7] x", "OK [UIDNEXT 5] x", "OK [HIGHESTMODSEQ 10] x"];
        model.take(CommandKind::Select, &mut view, &reply(&lines, "OK")).unwrap();
        assert_eq!(view, [None, None, None]);
        let lines = [
            "1 FETCH (UID 1 FLAGS (\\Seen) MODSEQ (3))",
            "2 FETCH (UID 3 FLAGS () MODSEQ (10))",
            "3 FETCH (UID 4 FLAGS (x) MODSEQ (12))",
        ];
        model.take(CommandKind::Other, &mut view, &reply(&lines, "OK")).unwrap();
        assert_eq!((model.highest, view.clone()), (12, vec![Some(1), Some(3), Some(4)]));
        (model, view)
    }

    #[test]
    fn answers_are_taken() {
        let (mut model, mut view) = selected();
        let lines = ["4 EXISTS", "VANISHED 3", "2 FETCH (UID 4 FLAGS (y) MODSEQ (15))"];
        let answer = reply(&lines, "OK [HIGHESTMODSEQ 14] x");
        model.take(CommandKind::Other, &mut view, &answer).unwrap();
        assert_eq!((model.highest, view), (14, vec![Some(1), Some(4), None]));
        assert_eq!(model.messages[&4], ["y"]);
        let lines = [
            "2 EXISTS",
            "OK [UIDVALIDITY 7] x",
            "OK [UIDNEXT 10] x",
            "OK [HIGHESTMODSEQ 20] x",
            "VANISHED (EARLIER) 1:3,9",
            "2 FETCH (UID 8 FLAGS () MODSEQ (20))",
        ];
        let mut view = View::new();
        model.take(CommandKind::Select, &mut view, &reply(&lines, "OK")).unwrap();
        assert_eq!(view, [Some(4), Some(8)]);
        // 3 had vanished before, but the server need not know that the model knew.
        assert_eq!((model.counts.vanished, model.counts.repeated), (5, 0));
        let answer = reply(&["VANISHED (EARLIER) 3"], "OK");
        model.take(CommandKind::Other, &mut view, &answer).unwrap();
        assert_eq!((model.counts.vanished, model.counts.repeated), (6, 1));
        assert_eq!(model.counts.falls, 0);
        let answer = reply(&[], "OK [HIGHESTMODSEQ 19] x");
        model.take(CommandKind::Other, &mut view, &answer).unwrap();
        assert_eq!(model.counts.falls, 1);
    }

    #[test]
    fn silent_changes_are_followed() {
        let (mut model, mut view) = selected();
        let lines = ["1 FETCH (UID 1 MODSEQ (20))", "2 FETCH (UID 3 FLAGS (y) MODSEQ (21))"];
        let kind = CommandKind::Silent("a", true);
        model.take(kind, &mut view, &reply(&lines, "OK")).unwrap();
        assert_eq!(model.messages[&1], ["\\seen", "a"]);
        assert_eq!(model.messages[&3], ["y"]);
        let kind = CommandKind::Silent("\\seen", false);
        model.take(kind, &mut view, &reply(&lines[..1], "OK")).unwrap();
        assert_eq!(model.messages[&1], ["a"]);
    }

    #[test]
    fn broken_rules_are_found() {
        let check = |kind, line: &str, expected: &str| {
            let (mut model, mut view) = selected();
            let error = model.take(kind, &mut view, &reply(&[line], "OK")).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(CommandKind::Other, "1 EXPUNGE", "EXPUNGE after ENABLE");
        check(CommandKind::Other, "VANISHED 9", "not visible");
        check(CommandKind::Other, "VANISHED (EARLIER) 5", "which no message has had");
        check(CommandKind::Numbered, "VANISHED 3", "it must wait");
        check(CommandKind::Other, "2 EXISTS", "EXISTS falls from 3 to 2");
        check(CommandKind::Other, "1 FETCH (UID 3 FLAGS () MODSEQ (5))", "it is UID 1");
        check(CommandKind::Other, "9 FETCH (UID 3 FLAGS () MODSEQ (5))", "not announced");
        check(CommandKind::Other, "1 FETCH (UID 1 FLAGS ())", "without MODSEQ");
        let (mut model, mut view) = selected();
        let lines = ["VANISHED 3", "3 EXISTS", "3 FETCH (UID 3 FLAGS () MODSEQ (9))"];
        let error = model.take(CommandKind::Other, &mut view, &reply(&lines, "OK")).unwrap_err();
        assert!(error.contains("has vanished before"), "{error}");
        check(CommandKind::Other, "1 FETCH (FLAGS () MODSEQ (5))", "without UID");
    }

    #[test]
    fn messages_after_a_gap_are_forgotten() {
        let (mut model, mut view) = selected();
        let lines = ["5 EXISTS", "5 FETCH (UID 9 FLAGS () MODSEQ (20))"];
        model.take(CommandKind::Other, &mut view, &reply(&lines, "OK")).unwrap();
        assert!(model.messages.contains_key(&9));
        model.forget_after_gap(&view);
        assert_eq!(model.messages.keys().copied().collect::<Vec<_>>(), [1, 3, 4]);
    }

    #[test]
    fn sets_are_written() {
        assert_eq!(set_of(&[1, 2, 3, 7, 9, 10]), "1:3,7,9:10");
        assert_eq!(uids_of(b"VANISHED (EARLIER) 5:3,9").unwrap(), [3, 4, 5, 9]);
        assert!(uids_of(b"VANISHED 1:*").is_err());
    }
}
