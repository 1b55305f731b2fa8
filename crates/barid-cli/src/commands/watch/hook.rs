//! The command of `--exec`, which runs for every change.

use std::ffi::{OsStr, OsString};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use barid::message::{decode_words, display_name};
use barid::{Summary, Uid, UidValidity};

use crate::output::escape::visible;

/// A command, and the changes for which it will run.
pub(super) struct Hook<'a> {
    command: &'a OsStr,
    waiting: Vec<Variables>,
}

/// The environment variables of one run of the command.
type Variables = Vec<(&'static str, OsString)>;

/// All variables that may be set; unset ones are removed from the environment.
const NAMES: [&str; 8] = [
    "BARID_EVENT",
    "BARID_MAILBOX",
    "BARID_UIDVALIDITY",
    "BARID_UID",
    "BARID_FLAGS",
    "BARID_KEYWORDS",
    "BARID_FROM",
    "BARID_SUBJECT",
];

impl<'a> Hook<'a> {
    pub(super) fn new(command: &'a OsStr) -> Self {
        Self { command, waiting: Vec::new() }
    }

    /// Adds a change.
    pub(super) fn push(
        &mut self,
        event: &str,
        mailbox: &OsStr,
        uidvalidity: UidValidity,
        uid: Option<Uid>,
    ) {
        let mut variables = vec![
            ("BARID_EVENT", event.into()),
            ("BARID_MAILBOX", mailbox.to_owned()),
            ("BARID_UIDVALIDITY", uidvalidity.to_string().into()),
        ];
        variables.extend(uid.map(|uid| ("BARID_UID", uid.to_string().into())));
        self.waiting.push(variables);
    }

    /// Adds a change of an existing message. Its texts have no control characters.
    pub(super) fn push_message(
        &mut self,
        event: &str,
        mailbox: &OsStr,
        uidvalidity: UidValidity,
        summary: &Summary<'_>,
    ) {
        self.push(event, mailbox, uidvalidity, Some(summary.uid));
        let fields = summary.fields;
        let flags: Vec<_> = summary.flags.iter().map(|flag| flag.name()).collect();
        let keywords: Vec<_> = match summary.keywords.0 {
            0 => Vec::new(),
            _ => summary.keyword_names().collect(),
        };
        let from = display_name(fields.from.unwrap_or_default());
        let subject = decode_words(fields.subject.unwrap_or_default());
        let variables = self.waiting.last_mut().expect("because one was pushed above");
        variables.extend([
            ("BARID_FLAGS", flags.join(" ").into()),
            ("BARID_KEYWORDS", visible(keywords.join(" ").as_bytes()).into()),
            ("BARID_FROM", visible(from.as_bytes()).into()),
            ("BARID_SUBJECT", visible(subject.as_bytes()).into()),
        ]);
    }

    /// Discards the changes for which the command has not run.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Runs the command for all added changes, one after the other; returns a message for each
    /// failure.
    pub(super) fn run(&mut self, stopped: &dyn Fn() -> bool) -> anyhow::Result<Vec<String>> {
        let mut failed = Vec::new();
        for variables in self.waiting.drain(..) {
            if stopped() {
                break;
            }
            let mut command = Command::new("sh");
            command.arg("-c").arg(self.command).stdin(Stdio::null());
            for name in NAMES {
                command.env_remove(name);
            }
            let status = command.envs(variables).status().context("`sh` cannot be run")?;
            if !status.success() && !stopped() {
                failed.push(format!("the command of --exec failed: {status}"));
            }
        }
        Ok(failed)
    }
}
