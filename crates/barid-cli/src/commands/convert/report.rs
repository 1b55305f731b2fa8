//! The report of a copy: messages left out, the proof file, and the summary.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use barid::Uid;
use barid::convert::{
    ConvertEvent, ConvertReport, Difference, Dropped, Losses, Moved, Proof, ProofSide,
};
use barid::vfs::{File, OpenOptions, OsVfs, Vfs};

use crate::commands::change::warn_of;
use crate::context::Context;
use crate::exit::{Outcome, WithHint};
use crate::limits::{FAILED_SHOWN, OUTPUT_BUFFER_LEN};
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::{counted, duration, grouped};
use crate::signals;

/// Source and target as named on the command line.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) source: OsString,
    pub(super) target: OsString,
}

impl Pair {
    pub(super) fn new(source: &OsStr, target: &OsStr) -> Self {
        Self { source: source.to_owned(), target: target.to_owned() }
    }

    fn write(&self, json: &mut Json<'_>) {
        json.key("source").bytes(self.source.as_encoded_bytes());
        json.key("target").bytes(self.target.as_encoded_bytes());
    }
}

/// The proof file. An error of writing it does not stop the copy, and is reported at the end.
pub(super) struct Proofs {
    path: PathBuf,
    file: Box<dyn File>,
    buffer: Vec<u8>,
    offset: u64,
    written: io::Result<()>,
}

impl Proofs {
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let options = OpenOptions { truncate: true, ..OpenOptions::create(0o600) };
        let file = OsVfs.open(path, options);
        let file = file.map_err(|error| at(path, error))?;
        Ok(Self { path: path.to_owned(), file, buffer: Vec::new(), offset: 0, written: Ok(()) })
    }

    fn settle(&mut self, len_max: usize) {
        if self.buffer.len() >= len_max {
            if self.written.is_ok() {
                self.written = self.file.write_all_at(&self.buffer, self.offset);
            }
            self.offset += self.buffer.len() as u64;
            self.buffer.clear();
        }
    }

    /// Writes the last line of a mailbox, with the totals.
    pub(super) fn proven(&mut self, converted: &ConvertReport) {
        let proven = converted.proven.unwrap_or_default();
        let mut json = Json::line(&mut self.buffer, "proven");
        json.key("same").number(proven.same);
        json.key("differing").number(proven.differing);
        json.key("dropped").number(converted.dropped);
        json.key("failed").number(converted.failed.len() as u64);
        json.end_line();
        self.settle(OUTPUT_BUFFER_LEN);
    }

    /// Makes the file and its name durable. `hint` is shown with an error.
    pub(super) fn finish(mut self, hint: &str) -> anyhow::Result<()> {
        self.settle(1);
        let synced = self.written.and_then(|()| self.file.sync_all());
        synced.and_then(|()| OsVfs.sync_dir(folder_of(&self.path))).map_err(|error| {
            let path = self.path.display();
            WithHint::error(format!("{path}: the proof cannot be written: {error}"), hint)
        })
    }
}

/// Returns the folder that a file is in.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn at(path: &Path, error: io::Error) -> anyhow::Error {
    anyhow::Error::new(error).context(path.display().to_string())
}

/// A receiver of the events of a copy.
pub(super) struct CopyPrinter<'a> {
    proofs: Option<&'a mut Proofs>,
    json: bool,
    /// Text for standard output, printed once the progress line is cleared.
    output: Vec<u8>,
    asides: Vec<PathBuf>,
}

impl<'a> CopyPrinter<'a> {
    pub(super) fn new(
        context: &Context,
        pair: &Pair,
        proofs: &'a mut Option<Proofs>,
    ) -> anyhow::Result<Self> {
        if let Some(proofs) = proofs {
            let mut json = Json::line(&mut proofs.buffer, "mailbox");
            pair.write(&mut json);
            json.end_line();
        }
        let (proofs, json) = (proofs.as_mut(), context.global.json);
        Ok(Self { proofs, json, output: Vec::new(), asides: Vec::new() })
    }

    pub(super) fn print_event(&mut self, event: &ConvertEvent<'_>) {
        match event {
            ConvertEvent::Dropped(dropped) => {
                match self.json {
                    true => write_dropped(&mut self.output, dropped),
                    false => self.output.extend_from_slice(dropped_in_words(dropped).as_bytes()),
                }
                self.prove(|out| write_dropped(out, dropped));
            }
            ConvertEvent::Proof(proof) => {
                // All messages are written.
                signals::set_idle(true);
                if !proof.differences.is_empty() && !self.json {
                    self.output.extend_from_slice(differing_in_words(proof).as_bytes());
                }
                self.prove(|out| write_proof(out, proof));
            }
            ConvertEvent::Begun => {
                signals::set_idle(false);
            }
            ConvertEvent::PutAside(path) => self.asides.push(path.to_path_buf()),
            _ => {}
        }
    }

    fn prove(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(proofs) = &mut self.proofs {
            write(&mut proofs.buffer);
            proofs.settle(OUTPUT_BUFFER_LEN);
        }
    }

    /// Returns the text for standard output, and the paths to which interrupted conversions were
    /// moved.
    pub(super) fn finish(self) -> (Vec<u8>, Vec<PathBuf>) {
        (self.output, self.asides)
    }
}

fn write_dropped(out: &mut Vec<u8>, dropped: &Dropped) {
    let mut json = Json::line(out, "dropped");
    json.key("uid").number(dropped.uid.get().into());
    json.key("like").number(dropped.like.get().into());
    json.key("in_target").bool(dropped.is_in_target);
    match &dropped.message_id {
        Some(id) => json.key("message_id").bytes(id),
        None => json.key("message_id").null(),
    }
    json.key("same_content").bool(dropped.same_content);
    json.end_line();
}

/// Formats `UID 7 left out: its Message-ID is that of UID 3, a@b; the texts differ`.
fn dropped_in_words(dropped: &Dropped) -> String {
    let uid = dropped.uid;
    let there = if dropped.is_in_target { " there" } else { "" };
    let like = format!("{}{there}", dropped.like);
    match &dropped.message_id {
        None => format!("UID {uid} left out: its text is that of UID {like}\n"),
        Some(id) => {
            let texts = if dropped.same_content { "so is its text" } else { "the texts differ" };
            let id = visible(id);
            format!("UID {uid} left out: its Message-ID is that of UID {like}, {id}; {texts}\n")
        }
    }
}

fn differing_in_words(proof: &Proof) -> String {
    let side = proof.before.as_ref().or(proof.after.as_ref());
    let uid = side.map_or(0, |side| side.uid.get());
    let what: Vec<&str> = proof.differences.iter().map(|what| name_of(*what)).collect();
    format!("UID {uid} differs: {}\n", what.join(", "))
}

fn name_of(difference: Difference) -> &'static str {
    match difference {
        Difference::Missing => "missing",
        Difference::Extra => "extra",
        Difference::Content => "content",
        Difference::Flags => "flags",
        Difference::Keywords => "keywords",
        Difference::InternalDate => "internal_date",
        _ => "other",
    }
}

fn write_proof(out: &mut Vec<u8>, proof: &Proof) {
    let mut json = Json::line(out, "proof");
    for (key, side) in [("before", &proof.before), ("after", &proof.after)] {
        json.key(key);
        match side {
            Some(side) => write_side(&mut json, side),
            None => json.null(),
        }
    }
    json.key("differences").open(b'[');
    proof.differences.iter().for_each(|what| json.str(name_of(*what)));
    json.close(b']');
    json.end_line();
}

fn write_side(json: &mut Json<'_>, side: &ProofSide) {
    json.open(b'{');
    json.key("uid").number(side.uid.get().into());
    let mut hex = [0; 64];
    for (at, byte) in side.sha256.iter().enumerate() {
        hex[2 * at] = b"0123456789abcdef"[usize::from(byte >> 4)];
        hex[2 * at + 1] = b"0123456789abcdef"[usize::from(byte & 15)];
    }
    json.key("sha256").plain(&hex);
    json.key("flags").open(b'[');
    side.flags.iter().for_each(|flag| json.str(flag.name()));
    json.close(b']');
    json.key("keywords").open(b'[');
    side.keywords.iter().for_each(|keyword| json.str(keyword.as_str()));
    json.close(b']');
    let date = side.internal_date;
    json.key("internal_date").date(date.unix_seconds, date.zone_minutes);
    json.close(b'}');
}

/// Prints the summary of a copy.
pub(super) fn report(
    context: &mut Context,
    verb: &str,
    pair: &Pair,
    converted: &ConvertReport,
    started: Instant,
) -> anyhow::Result<Outcome> {
    match context.global.json {
        true => write_json(context.out.buffer(), verb, pair, converted, started),
        false => {
            let text = in_words(pair, converted, started);
            context.out.buffer().extend_from_slice(text.as_bytes());
        }
    }
    context.out.flush()?;
    report_trouble(context, converted);
    Ok(if converted.is_whole() { Outcome::Done } else { Outcome::Incomplete })
}

/// Reports everything that a copy could not do.
pub(super) fn report_trouble(context: &Context, converted: &ConvertReport) {
    for (uid, error) in converted.failed.iter().take(FAILED_SHOWN) {
        context.error_line("error", &visible(format!("UID {uid}: {error}").as_bytes()));
    }
    if converted.failed.len() > FAILED_SHOWN {
        let more = counted((converted.failed.len() - FAILED_SHOWN) as u64, "more message");
        context.error_line("error", &format!("{more} could not be copied"));
    }
    if converted.is_arriving {
        let what = "messages that another program is still writing are left out: run it again";
        context.error_line("error", what);
    }
    warn_of(context, &converted.trouble);
    for text in &converted.trouble.unsettled {
        context.error_line("error", &visible(text.as_bytes()));
    }
    let differing = converted.proven.map_or(0, |proven| proven.differing);
    if differing > 0 {
        let messages = counted(differing, "message");
        context.error_line("error", &format!("{messages} not proven to be the same"));
        if converted.losses.quoted > 0 && converted.target.keeps_quotes {
            let hint = "create and open the mbox as mboxrd:PATH, whose quoting can be undone";
            context.error_line("hint", hint);
        }
    }
}

/// Prints the summary of a move.
pub(super) fn report_move(
    context: &mut Context,
    pair: &Pair,
    moved: &Moved,
    started: Instant,
) -> anyhow::Result<()> {
    match context.global.json {
        true => write_move(context.out.buffer(), pair, moved, started),
        false => {
            let name = |name: &OsStr| visible(name.as_encoded_bytes());
            let count = counted(moved.uids.len() as u64, "message");
            let mut text =
                format!("{} -> {}: moved {count}", name(&pair.source), name(&pair.target));
            if moved.found > 0 {
                let found = grouped(moved.found);
                text.push_str(&format!(", {found} of them copied by an interrupted move"));
            }
            text.push_str(&format!(", in {}\n", duration(started.elapsed())));
            let losses = moved.copied.iter().flat_map(|copied| losses_in_words(&copied.losses));
            losses.for_each(|line| text.push_str(&format!("  not kept: {line}\n")));
            context.out.buffer().extend_from_slice(text.as_bytes());
        }
    }
    Ok(context.out.flush()?)
}

fn write_move(out: &mut Vec<u8>, pair: &Pair, moved: &Moved, started: Instant) {
    let mut json = Json::line(out, "move");
    pair.write(&mut json);
    json.key("dry_run").bool(false);
    json.key("moved").number(moved.uids.len() as u64);
    json.key("found").number(moved.found);
    write_pairs(&mut json, &moved.uids);
    let copied = moved.copied.as_ref();
    json.key("gone").open(b'[');
    let gone = copied.into_iter().flat_map(|copied| &copied.gone);
    gone.for_each(|uid| json.number(uid.get().into()));
    json.close(b']');
    write_failed(&mut json, copied.map_or(&[], |copied| &copied.failed));
    json.key("unproven").open(b'[');
    moved.unproven.iter().for_each(|uid| json.number(uid.get().into()));
    json.close(b']');
    write_losses(&mut json, &copied.map(|copied| copied.losses.clone()).unwrap_or_default());
    let copying = copied.map_or(0, |copied| copied.figures.barriers);
    let expunging: u64 = moved.changed.iter().map(|changed| changed.figures.barriers).sum();
    json.key("barriers").number(copying + expunging);
    json.key("elapsed_ms").millis(started.elapsed());
    json.end_line();
}

fn write_pairs(json: &mut Json<'_>, uids: &[(Uid, Uid)]) {
    json.key("uids").open(b'[');
    for (before, after) in uids {
        json.open(b'[');
        json.number(before.get().into());
        json.number(after.get().into());
        json.close(b']');
    }
    json.close(b']');
}

fn write_failed(json: &mut Json<'_>, failed: &[(Uid, barid::Error)]) {
    json.key("failed").open(b'[');
    for (uid, error) in failed {
        json.open(b'{');
        json.key("uid").number(uid.get().into());
        json.key("error").str(&error.to_string());
        json.close(b'}');
    }
    json.close(b']');
}

fn in_words(pair: &Pair, converted: &ConvertReport, started: Instant) -> String {
    let name = |name: &OsStr| visible(name.as_encoded_bytes());
    let mut text = format!("{} -> {}: ", name(&pair.source), name(&pair.target));
    text.push_str(&format!("copied {}", counted(converted.appended, "message")));
    if converted.found > 0 {
        text.push_str(&format!(", found {} there", grouped(converted.found)));
    }
    if converted.dropped > 0 {
        text.push_str(&format!(", left out {}", grouped(converted.dropped)));
    }
    if let Some(proven) = converted.proven {
        text.push_str(&match proven.differing {
            0 => format!(", verified {} as identical", grouped(proven.same)),
            _ => format!(", {} of {} differ", grouped(proven.differing), {
                grouped(proven.differing + proven.same)
            }),
        });
    }
    text.push_str(&format!(", in {}\n", duration(started.elapsed())));
    for line in losses_in_words(&converted.losses) {
        text.push_str(&format!("  not kept: {line}\n"));
    }
    if !converted.gone.is_empty() {
        let gone = counted(converted.gone.len() as u64, "message");
        text.push_str(&format!("  removed from the source meanwhile: {gone}\n"));
    }
    text
}

fn losses_in_words(losses: &Losses) -> Vec<String> {
    let mut lines = Vec::new();
    let messages = |count| counted(count, "message");
    if losses.uidvalidity {
        lines.push("the UIDVALIDITY, and with it all UIDs".to_owned());
    } else if losses.uids > 0 {
        lines.push(format!("the UIDs of {}", messages(losses.uids)));
    }
    if losses.uidnext {
        lines.push("the UIDNEXT: UIDs of expunged messages may be assigned again".to_owned());
    }
    for (keyword, limit, count) in &losses.keywords {
        let name = visible(keyword.as_str().as_bytes());
        lines.push(format!("the keyword {name} of {}: {limit}", messages(*count)));
    }
    if losses.zones > 0 {
        lines.push(format!("the time zones of internal dates of {}", messages(losses.zones)));
    }
    if losses.quoted > 0 {
        let messages = messages(losses.quoted);
        lines.push(format!("lines that begin with `From ` of {messages}, which got a `>`"));
    }
    if losses.senders {
        lines.push("the senders that From_ lines name".to_owned());
    }
    lines
}

fn write_json(
    out: &mut Vec<u8>,
    verb: &str,
    pair: &Pair,
    converted: &ConvertReport,
    started: Instant,
) {
    let mut json = Json::line(out, verb);
    pair.write(&mut json);
    json.key("source_format").str(converted.source.name());
    json.key("target_format").str(converted.target.name());
    json.key("messages").number(converted.messages);
    json.key("copied").number(converted.appended);
    json.key("found").number(converted.found);
    json.key("dropped").number(converted.dropped);
    json.key("gone").open(b'[');
    converted.gone.iter().for_each(|uid| json.number(uid.get().into()));
    json.close(b']');
    write_failed(&mut json, &converted.failed);
    write_losses(&mut json, &converted.losses);
    json.key("proven");
    match converted.proven {
        Some(proven) => {
            json.open(b'{');
            json.key("same").number(proven.same);
            json.key("differing").number(proven.differing);
            json.close(b'}');
        }
        None => json.null(),
    }
    if verb == "copy" {
        write_pairs(&mut json, &converted.uids);
    }
    json.key("barriers").number(converted.figures.barriers);
    json.key("elapsed_ms").millis(started.elapsed());
    json.end_line();
}

fn write_losses(json: &mut Json<'_>, losses: &Losses) {
    json.key("losses").open(b'{');
    json.key("uidvalidity").bool(losses.uidvalidity);
    json.key("uids").number(losses.uids);
    json.key("uidnext").bool(losses.uidnext);
    json.key("keywords").open(b'[');
    for (keyword, limit, count) in &losses.keywords {
        json.open(b'{');
        json.key("keyword").str(keyword.as_str());
        json.key("why").str(&limit.to_string());
        json.key("messages").number(*count);
        json.close(b'}');
    }
    json.close(b']');
    json.key("zones").number(losses.zones);
    json.key("quoted").number(losses.quoted);
    json.key("senders").bool(losses.senders);
    json.close(b'}');
}
