//! Printing the text of attachments.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use barid::AttachedMessage;
use barid::message::Attachment;
use barid_extract::limits::INPUT_LEN_MAX;
use barid_extract::{AttachmentPart, ExtractOutcome, Extractor, Failure};

use super::{MessageTitle, Work};
use crate::context::Context;
use crate::exit::{Outcome, WithHint, report};
use crate::limits::{TEXTS_AT_ONCE, TEXTS_AT_ONCE_LEN};
use crate::mail::extraction::{extractor, part_of};
use crate::output::escape::{Space, visible, write_visible_str};
use crate::output::json::Json;

/// Prints texts in order; several are extracted at once.
pub(super) struct Printing {
    extractor: Extractor,
    waiting: Vec<(MessageTitle, Attachment)>,
    parts: Vec<AttachmentPart>,
    /// Bytes of the waiting attachments.
    len: usize,
    /// `true` if a text was printed.
    follows: bool,
    /// `true` if it was said how PDF can be read.
    has_hinted: bool,
}

impl Printing {
    /// Creates the work, which ends once `stop` is `true`.
    pub(super) fn new(context: &Context, stop: Arc<AtomicBool>) -> Self {
        let extractor = extractor(context.cache_dir()).stopped_by(stop);
        let (waiting, parts) = (Vec::new(), Vec::new());
        Self { extractor, waiting, parts, len: 0, follows: false, has_hinted: false }
    }

    fn print(
        &mut self,
        context: &mut Context,
        (title, attachment): &(MessageTitle, Attachment),
        outcome: &ExtractOutcome,
    ) -> anyhow::Result<Outcome> {
        if context.global.json {
            write_json(context.out.buffer(), title, attachment, outcome);
        } else if let ExtractOutcome::Text(found) = outcome {
            let style = context.style;
            let out = context.out.buffer();
            let line_end = if self.follows { "\n" } else { "" };
            let title = visible(title.of(attachment).as_bytes());
            let rule = format!("{line_end}{}─── {title} ───{}\n", style.dim, style.reset);
            out.extend_from_slice(rule.as_bytes());
            // Pages end with empty lines.
            write_visible_str(out, found.text.trim_end(), Space::Lines);
            if out.last() != Some(&b'\n') {
                out.push(b'\n');
            }
            self.follows = true;
        }
        context.out.settle()?;
        let name = title.of(attachment);
        match outcome {
            ExtractOutcome::Text(found) if found.is_cut => {
                context.warn(&format!("{name}: longer than 4 MB of text; the rest is left out"));
            }
            ExtractOutcome::Failed(Failure::Stopped) | ExtractOutcome::Text(_) => {}
            ExtractOutcome::Unsupported => {
                let media_type = &attachment.media_type;
                context.detail(&format!("{name}: no text is read from {media_type}"));
            }
            ExtractOutcome::Failed(failure) => {
                let has_hinted = self.has_hinted;
                self.has_hinted |= *failure == Failure::NoPdfReader;
                report(context, &error(&name, *failure, has_hinted));
                return Ok(Outcome::Incomplete);
            }
        }
        Ok(Outcome::Done)
    }
}

fn error(name: &str, failure: Failure, has_hinted: bool) -> anyhow::Error {
    let text = format!("{name}: {failure}");
    match failure {
        Failure::NoPdfReader if !has_hinted => {
            WithHint::error(text, "on Debian, `apt install poppler-utils` installs one")
        }
        _ => anyhow::Error::msg(text),
    }
}

fn write_json(
    out: &mut Vec<u8>,
    title: &MessageTitle,
    attachment: &Attachment,
    outcome: &ExtractOutcome,
) {
    let mut json = Json::line(out, "attachment");
    title.write_keys(&mut json, attachment);
    let (text, is_cut, failure) = match outcome {
        ExtractOutcome::Text(found) => (Some(&*found.text), found.is_cut, None),
        ExtractOutcome::Failed(failure) => (None, false, Some(failure.name())),
        ExtractOutcome::Unsupported => (None, false, Some("unsupported")),
    };
    match text {
        Some(text) => json.key("text").str(text),
        None => json.key("text").null(),
    }
    json.key("is_cut").bool(is_cut);
    match failure {
        Some(failure) => json.key("failure").str(failure),
        None => json.key("failure").null(),
    }
    json.end_line();
}

impl Work for Printing {
    fn attachment(
        &mut self,
        context: &mut Context,
        (message, title): (&AttachedMessage, &MessageTitle),
        attachment: &Attachment,
    ) -> anyhow::Result<Outcome> {
        let part = part_of(message.to_read(attachment.clone(), INPUT_LEN_MAX)?);
        self.len += part.bytes.len();
        self.waiting.push((title.clone(), attachment.clone()));
        self.parts.push(part);
        let is_full = self.parts.len() >= TEXTS_AT_ONCE || self.len >= TEXTS_AT_ONCE_LEN;
        if is_full { self.finish(context) } else { Ok(Outcome::Done) }
    }

    fn finish(&mut self, context: &mut Context) -> anyhow::Result<Outcome> {
        let (waiting, parts) = (std::mem::take(&mut self.waiting), std::mem::take(&mut self.parts));
        self.len = 0;
        let mut outcome = Outcome::Done;
        for (waiting, found) in waiting.iter().zip(self.extractor.texts(&parts)) {
            outcome = outcome.worse(self.print(context, waiting, &found)?);
        }
        Ok(outcome)
    }
}
