//! Listing and discarding kept repairs.

use std::ffi::OsString;

use barid::check::{KeptRepair, KeptRepairState};

use crate::context::Context;
use crate::exit::Outcome;
use crate::output::date::{SHORT_WIDTH, write_short};
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::{counted, grouped, size};
use crate::output::table::{Align, Table};

/// Prints the kept repairs.
pub(super) fn list(
    context: &mut Context,
    mailbox: &OsString,
    all: &[KeptRepair],
) -> anyhow::Result<Outcome> {
    if context.global.json {
        all.iter().for_each(|kept| write_json(context.out.buffer(), mailbox, kept));
    } else if all.is_empty() {
        let name = visible(mailbox.as_encoded_bytes());
        context.out.line(&format!("{name}: no repair is kept"))?;
    } else {
        write_table(context.out.buffer(), all);
    }
    Ok(Outcome::nothing_if(all.is_empty()))
}

/// Prints the number of discarded repairs.
pub(super) fn discarded(
    context: &mut Context,
    mailbox: &OsString,
    count: u64,
) -> anyhow::Result<Outcome> {
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "repairs_discarded");
        json.key("mailbox").bytes(mailbox.as_encoded_bytes());
        json.key("repairs").number(count);
        json.end_line();
    } else {
        let name = visible(mailbox.as_encoded_bytes());
        context.out.line(&format!("{name}: forgot {}", counted(count, "repair")))?;
    }
    Ok(Outcome::nothing_if(count == 0))
}

fn state_name(state: KeptRepairState) -> &'static str {
    match state {
        KeptRepairState::Kept => "kept",
        KeptRepairState::Undone => "undone",
        KeptRepairState::NotBegun => "not begun",
    }
}

fn write_table(out: &mut Vec<u8>, all: &[KeptRepair]) {
    let aligns = &[Align::Right, Align::Left, Align::Right, Align::Right, Align::Left];
    let mut table = Table::new(aligns);
    table.row(["NUMBER", "REPAIRED (UTC)", "CHANGES", "SIZE", "STATE"].map(str::to_owned));
    for kept in all {
        let mut when = Vec::with_capacity(SHORT_WIDTH);
        if let Some(time) = kept.time {
            write_short(&mut when, time.unix_seconds(), 0);
        }
        table.row([
            kept.number.to_string(),
            String::from_utf8_lossy(&when).into_owned(),
            grouped(kept.files),
            size(kept.bytes),
            state_name(kept.state).to_owned(),
        ]);
    }
    table.write(out, "");
}

fn write_json(out: &mut Vec<u8>, mailbox: &OsString, kept: &KeptRepair) {
    let mut json = Json::line(out, "kept_repair");
    json.key("mailbox").bytes(mailbox.as_encoded_bytes());
    json.key("number").number(kept.number);
    json.key("date");
    match kept.time {
        Some(time) => json.date(time.unix_seconds(), 0),
        None => json.null(),
    }
    json.key("changes").number(kept.files);
    json.key("bytes").number(kept.bytes);
    json.key("state").str(state_name(kept.state));
    let folder = kept.folders.first().map_or(&b""[..], |path| path.as_os_str().as_encoded_bytes());
    json.key("kept").bytes(folder);
    json.end_line();
}
