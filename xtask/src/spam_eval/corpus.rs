//! Corpora in the order of arrival, without the header fields that reveal the class of a message.

use anyhow::{Context, Result};
use barid_message::is_owned_field;
use barid_testkit::corpora;

use super::mail;

/// Names of the corpora.
pub(super) const NAMES: [&str; 3] = ["trec07p", "spamassassin", "csdmc2010"];

/// Folder of the first corpus.
const TREC: &str = "dev-trec07p-first8000";

/// Plausible dates, 1995 to 2011, in seconds since the Unix epoch. Messages with other dates, which
/// spam often has, are left out.
const DATES: std::ops::Range<i64> = 788_918_400..1_325_376_000;

/// Messages in the order of their arrival.
#[derive(Debug)]
pub(super) struct Corpus {
    pub(super) name: &'static str,
    pub(super) messages: Vec<Labelled>,
}

/// A message and its class.
#[derive(Debug)]
pub(super) struct Labelled {
    pub(super) is_spam: bool,
    pub(super) text: Vec<u8>,
}

impl Corpus {
    /// Reads one of [`NAMES`]; `None` if it is missing.
    pub(super) fn read(name: &'static str) -> Result<Option<Self>> {
        let listed = if name == NAMES[0] { trec()? } else { dated(name)? };
        let Some(listed) = listed else { return Ok(None) };
        let mut messages = Vec::with_capacity(listed.len());
        for (path, is_spam) in listed {
            let bytes = corpora::read(&path).with_context(|| path.display().to_string())?;
            messages.push(Labelled { is_spam, text: unlabelled(&bytes) });
        }
        Ok(Some(Self { name, messages }))
    }
}

type Listed = Vec<(std::path::PathBuf, bool)>;

fn trec() -> Result<Option<Listed>> {
    let Some(folder) = corpora::find(TREC) else { return Ok(None) };
    let order = String::from_utf8(corpora::read(&folder.join("order.tsv"))?)?;
    let line = |line: &str| {
        let (label, path) = line.split_once('\t').with_context(|| format!("order.tsv: {line}"))?;
        Ok((folder.join(path), label == "spam"))
    };
    order.lines().map(line).collect::<Result<Listed>>().map(Some)
}

fn dated(name: &str) -> Result<Option<Listed>> {
    let Some(messages) = mail::messages()? else { return Ok(None) };
    let is_of = |part: std::path::Component<'_>| part.as_os_str() == name;
    let mut listed: Vec<_> = messages
        .into_iter()
        .filter(|message| message.path.components().any(is_of))
        .filter_map(|message| Some((message.date?, message.path, message.is_spam)))
        .filter(|(date, ..)| DATES.contains(date))
        .collect();
    listed.sort();
    Ok(Some(listed.into_iter().map(|(_, path, is_spam)| (path, is_spam)).collect()))
}

/// Returns a message without its From_ line, the header fields that mailbox formats own, and the
/// verdicts of other filters.
fn unlabelled(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len());
    let (mut rest, mut drops) = (message, message.starts_with(b"From "));
    while !rest.is_empty() {
        let len = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(len);
        if line == b"\n" || line == b"\r\n" {
            out.extend_from_slice(rest);
            break;
        }
        let continues = matches!(line[0], b' ' | b'\t');
        if !continues && rest.len() < message.len() {
            let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
            drops = is_owned_field(name) || is_verdict(name);
        }
        if !drops {
            out.extend_from_slice(line);
        }
        rest = after;
    }
    out
}

fn is_verdict(name: &[u8]) -> bool {
    let starts = |prefix: &[u8]| {
        name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    starts(b"x-spam") || starts(b"x-bogosity")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_taken_out() {
        let message = b"From a b\nX-Spam-Status: Yes,\n\tscore\nA: b\nStatus: RO\n\nX-Spam: c\n";
        assert_eq!(unlabelled(message), b"A: b\n\nX-Spam: c\n");
        assert_eq!(unlabelled(b"A: b\r\n c\r\n\r\nd"), b"A: b\r\n c\r\n\r\nd");
    }
}
