//! The report of a change, as text and as JSON.

use barid::vfs::Timestamp;
use barid::{Changed, KeptSummary, SyncFigures, Uid};

use super::ChangeCommand;
use crate::context::Context;
use crate::limits::UID_RANGES_SHOWN;
use crate::mail::selection::SelectedMessages;
use crate::output::date::write_short;
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::{counted, duration, grouped, size};
use crate::output::table::{Align, Table};

/// The commands that change a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Flag,
    Tag,
    Expunge,
    Append,
    Sync,
    Undo,
}

/// The data of the report of a change.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    /// The changes made.
    pub(super) changed: Changed,
    /// Requested UIDs that do not exist.
    pub(super) missing: Vec<Uid>,
    /// Expunges that are still kept after an undo.
    pub(super) left: KeptSummary,
    /// Number of selected messages, and `true` if a query found them; `None` for commands that
    /// select none.
    pub(super) selected: Option<(u64, bool)>,
}

impl Verb {
    /// The name of the command.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Tag => "tag",
            Self::Expunge => "expunge",
            Self::Append => "append",
            Self::Sync => "sync",
            Self::Undo => "undo",
        }
    }
}

impl Report {
    /// Returns the report of a command about these messages.
    pub(super) fn of(messages: &SelectedMessages) -> Self {
        let selected = &messages.selected;
        Self {
            missing: selected.missing.clone(),
            selected: Some((selected.uids.len() as u64, messages.is_found)),
            ..Self::default()
        }
    }

    /// Prints the report as text or JSON.
    pub(super) fn print(
        &self,
        context: &mut Context,
        session: &ChangeCommand,
    ) -> anyhow::Result<()> {
        if context.global.json {
            self.write_json(context.out.buffer(), session);
            return Ok(());
        }
        let name = visible(session.name.as_encoded_bytes());
        let mut line = self.in_words(session.verb, session.dry_run, &name);
        if !session.dry_run {
            line.push_str(&format!(", in {}", duration(session.started.elapsed())));
        }
        line.push_str(&self.what_follows(session.verb, session.dry_run, &name));
        context.out.line(&line)?;
        if session.dry_run || context.global.verbose {
            write_figures(context.out.buffer(), &self.changed.figures);
        }
        Ok(())
    }

    /// Returns the result, such as `archive.mbox: flagged 3 messages`.
    fn in_words(&self, verb: Verb, dry_run: bool, name: &str) -> String {
        let changed = &self.changed;
        let messages = |count: u64| counted(count, "message");
        let did = |done: &str, to_do: &str| match dry_run {
            true => format!("would {to_do}"),
            false => done.to_owned(),
        };
        let flagged = u64::from(changed.flagged);
        let appended = u64::from(changed.appends);
        let found = match self.selected {
            Some((count, true)) => format!("{} selected; ", messages(count)),
            _ => String::new(),
        };
        let mut text = match verb {
            _ if self.is_nothing() => return format!("{name}: {found}{}", nothing(verb)),
            Verb::Flag | Verb::Tag => {
                format!("{} {}", did("flagged", "flag"), messages(changed.asked.into()))
            }
            Verb::Expunge => {
                let expunged = messages(changed.expunged.into());
                format!("{} {expunged}", did("expunged", "expunge"))
            }
            Verb::Append => format!("{} {}", did("appended", "append"), messages(appended)),
            Verb::Undo => format!("{} {}", did("brought back", "bring back"), messages(appended)),
            Verb::Sync => {
                let written = messages(changed.figures.messages_written.max(flagged));
                format!("{} {written}", did("wrote flags and UIDs of", "write flags and UIDs of"))
            }
        };
        if !changed.appended.is_empty() {
            text.push_str(&format!(", {}", in_ranges(&changed.appended)));
        }
        let others = match verb {
            Verb::Sync => 0,
            _ => flagged.saturating_sub(changed.asked.into()),
        };
        if others > 0 {
            let flags = did("wrote the pending flags of", "write the pending flags of");
            text.push_str(&format!(", {flags} {}", messages(others)));
        }
        format!("{name}: {found}{text}")
    }

    /// Returns `true` if nothing was changed.
    fn is_nothing(&self) -> bool {
        let Changed { flagged, expunged, appends, figures, .. } = &self.changed;
        let written = figures.messages_written + figures.messages_expunged;
        *flagged == 0 && *expunged == 0 && *appends == 0 && written == 0
    }

    /// Returns the remarks on undo and pending changes.
    fn what_follows(&self, verb: Verb, dry_run: bool, name: &str) -> String {
        let mut text = String::new();
        if verb == Verb::Expunge && self.changed.expunged > 0 {
            let them = if self.changed.expunged == 1 { "it" } else { "them" };
            let until = until(self.changed.kept_until);
            match self.changed.kept {
                Some(bytes) if dry_run => {
                    text.push_str(&format!("; {} would be kept{until}", size(bytes)));
                }
                Some(_) => {
                    text.push_str(&format!("; `barid undo {name}` brings {them} back{until}"));
                }
                None if dry_run => text.push_str("; would not be kept"),
                None => text.push_str("; not kept"),
            }
        }
        if self.left.expunges > 0 {
            let more = counted(self.left.expunges.into(), "expunge");
            let (bytes, until) = (size(self.left.bytes), until(self.left.until));
            text.push_str(&format!("; {more} still kept, {bytes}{until}"));
        }
        if self.changed.pending > 0 {
            let pending = counted(self.changed.pending.into(), "change");
            text.push_str(&format!("; {pending} pending: `barid sync {name}` writes them"));
        }
        text
    }

    fn write_json(&self, out: &mut Vec<u8>, session: &ChangeCommand) {
        let changed = &self.changed;
        let mut json = Json::line(out, "change");
        json.key("command").str(session.verb.name());
        json.key("mailbox").bytes(session.name.as_encoded_bytes());
        json.key("dry_run").bool(session.dry_run);
        if let Some((selected, _)) = self.selected {
            json.key("selected").number(selected);
        }
        json.key("flagged").number(changed.flagged.into());
        json.key("flagged_now").number(changed.asked.into());
        json.key("expunged").number(changed.expunged.into());
        json.key("appended").number(changed.appends.into());
        write_uids(&mut json, "appended_uids", &changed.appended);
        let mut missing = self.missing.clone();
        missing.extend(&changed.gone);
        write_uids(&mut json, "missing_uids", &missing);
        write_uids(&mut json, "pending_gone_uids", &changed.pending_gone);
        write_uids(&mut json, "unwritable_uids", &changed.unwritable);
        json.key("unwritable").number(changed.unwritable_count);
        json.key("pending").number(changed.pending.into());
        json.key("ambiguous").number(changed.ambiguous.into());
        json.key("warnings").open(b'[');
        changed.warnings.iter().for_each(|warning| {
            json.str(warning);
        });
        json.close(b']');
        json.key("kept_bytes");
        match changed.kept {
            Some(bytes) => json.number(bytes),
            None => json.null(),
        }
        json.key("kept_until");
        match changed.kept_until {
            Some(time) => json.date(time.unix_seconds(), 0),
            None => json.null(),
        }
        json.key("figures").open(b'{');
        let figures = &changed.figures;
        json.key("messages_written").number(figures.messages_written);
        json.key("messages_expunged").number(figures.messages_expunged);
        json.key("bytes_in_place").number(figures.bytes_in_place);
        json.key("bytes_moved").number(figures.bytes_moved);
        json.key("bytes_collapsed").number(figures.bytes_collapsed);
        json.key("bytes_journaled").number(figures.bytes_journaled);
        json.key("bytes_appended").number(figures.bytes_appended);
        json.key("barriers").number(figures.barriers);
        json.key("size_before").number(figures.size_before);
        json.key("size_after").number(figures.size_after);
        json.close(b'}');
        json.key("elapsed_ms").millis(session.started.elapsed());
        json.end_line();
    }
}

/// Formats ` until 2026-12-23`, in UTC.
fn until(time: Option<Timestamp>) -> String {
    let Some(time) = time else { return String::new() };
    let mut text = Vec::new();
    write_short(&mut text, time.unix_seconds(), 0);
    let text = String::from_utf8_lossy(&text).into_owned();
    format!(" until {}", text.split(' ').next().unwrap_or_default())
}

/// Returns the text for a command that had nothing to do.
fn nothing(verb: Verb) -> &'static str {
    match verb {
        Verb::Flag | Verb::Tag => "no message needs a change",
        Verb::Expunge => "no message to expunge",
        Verb::Append => "no message was appended",
        Verb::Undo => "no message is missing",
        Verb::Sync => "nothing to write",
    }
}

fn write_uids(json: &mut Json<'_>, key: &str, uids: &[Uid]) {
    json.key(key).open(b'[');
    uids.iter().for_each(|uid| json.number(uid.get().into()));
    json.close(b']');
}

/// Writes the costs of a change or dry run.
fn write_figures(out: &mut Vec<u8>, figures: &SyncFigures) {
    let mut table = Table::new(&[Align::Left, Align::Left]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("messages", grouped(figures.messages_written));
    row("in place", size(figures.bytes_in_place));
    row("moved", size(figures.bytes_moved));
    row("collapsed", size(figures.bytes_collapsed));
    row("journaled", size(figures.bytes_journaled));
    row("appended", size(figures.bytes_appended));
    row("barriers", grouped(figures.barriers));
    if figures.size_before > 0 || figures.size_after > 0 {
        row("size", format!("{}, then {}", size(figures.size_before), size(figures.size_after)));
    }
    table.write(out, "  ");
}

/// Formats UIDs as `UID 7` or `UIDs 5:7,9`.
pub(super) fn in_ranges(uids: &[Uid]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for uid in uids {
        let uid = uid.get();
        if let Some((_, last)) = ranges.last_mut()
            && last.checked_add(1) == Some(uid)
        {
            *last = uid;
            continue;
        }
        if ranges.len() == UID_RANGES_SHOWN {
            ranges.push((0, 0));
            break;
        }
        ranges.push((uid, uid));
    }
    let range = |(first, last): &(u32, u32)| match (first, last) {
        (0, _) => "...".to_owned(),
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}:{last}"),
    };
    let text: Vec<String> = ranges.iter().map(range).collect();
    format!("{} {}", if uids.len() == 1 { "UID" } else { "UIDs" }, text.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uids(numbers: impl IntoIterator<Item = u32>) -> Vec<Uid> {
        numbers.into_iter().filter_map(Uid::new).collect()
    }

    #[test]
    fn uids_are_shown_in_ranges() {
        assert_eq!(in_ranges(&uids([7])), "UID 7");
        assert_eq!(in_ranges(&uids([5, 6, 7, 9])), "UIDs 5:7,9");
        assert_eq!(in_ranges(&uids((1..=1000).step_by(2))), "UIDs 1,3,5,7,9,11,13,15,...");
    }

    fn check(verb: Verb, dry_run: bool, report: &Report, expected: &str) {
        let line = report.in_words(verb, dry_run, "box");
        let line = line + &report.what_follows(verb, dry_run, "box");
        assert_eq!(line, format!("box: {expected}"));
    }

    #[test]
    fn a_change_is_told_in_a_line() {
        let of = |changed| Report { changed, ..Report::default() };
        let through = of(Changed { flagged: 4, asked: 1, ..Changed::default() });
        let text = "flagged 1 message, wrote the pending flags of 3 messages";
        check(Verb::Flag, false, &through, text);
        let changed = Changed { flagged: 3, asked: 3, pending: 2, ..Changed::default() };
        let flagged = of(changed);
        let pending = "; 2 changes pending: `barid sync box` writes them";
        check(Verb::Flag, false, &flagged, &format!("flagged 3 messages{pending}"));
        check(Verb::Flag, true, &flagged, &format!("would flag 3 messages{pending}"));
        let appended = uids([8, 9]);
        let appended = of(Changed { appends: 2, appended, flagged: 1, ..Changed::default() });
        let text = "appended 2 messages, UIDs 8:9, wrote the pending flags of 1 message";
        check(Verb::Append, false, &appended, text);
        let back = of(Changed { appends: 1, appended: uids([4]), ..Changed::default() });
        check(Verb::Undo, false, &back, "brought back 1 message, UID 4");
        check(Verb::Undo, false, &of(Changed::default()), "no message is missing");
        check(Verb::Sync, false, &of(Changed::default()), "nothing to write");
        let dry = of(Changed { appends: 2, ..Changed::default() });
        check(Verb::Append, true, &dry, "would append 2 messages");
        let text = "wrote flags and UIDs of 3 messages";
        check(Verb::Sync, false, &of(Changed { flagged: 3, ..Changed::default() }), text);
    }

    #[test]
    fn an_expunge_tells_what_is_kept() {
        let kept_until = Some(Timestamp { unix_nanos: 1_700_000_000_000_000_000 });
        let of = |kept: Option<u64>| {
            let kept_until = kept.and(kept_until);
            of_changed(Changed { expunged: 1, kept, kept_until, ..Changed::default() })
        };
        let undo = "expunged 1 message; `barid undo box` brings it back until 2023-11-14";
        check(Verb::Expunge, false, &of(Some(10)), undo);
        check(Verb::Expunge, false, &of(None), "expunged 1 message; not kept");
        let would = "would expunge 1 message; 10 bytes would be kept until 2023-11-14";
        check(Verb::Expunge, true, &of(Some(10)), would);
        check(Verb::Expunge, true, &of(None), "would expunge 1 message; would not be kept");
        let left = KeptSummary { expunges: 2, bytes: 30, until: kept_until };
        let back = of_changed(Changed { appends: 1, ..Changed::default() });
        let text = "brought back 1 message; 2 expunges still kept, 30 bytes until 2023-11-14";
        check(Verb::Undo, false, &Report { left, ..back }, text);
    }

    fn of_changed(changed: Changed) -> Report {
        Report { changed, ..Report::default() }
    }
}
