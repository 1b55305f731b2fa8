//! Runs scripts.

use std::collections::BTreeMap;
use std::io;

use super::logical::Segment;
use super::matching::compare;
use super::messages::MessageSource;
use super::parse::{CommandGroup, Existence, Script, ScriptCommand};
use super::pattern::Pattern;
use super::report::{Outcome, ScriptResult};
use super::session::{Change, ScriptSession};
use super::startup::{MAILBOX, Started, append, start};
use super::variables::{Places, Variables};
use crate::server::{Server, Transport};
use crate::wire::{Response, parse_args, shown};

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// The way to the server.
    pub transport: Transport,
    /// The user whose mailboxes are used, all named `imaptest...`; the next one is the second user
    /// of scripts with two. Runs at the same time need users of their own.
    pub user: u32,
}

/// Runs a script; `messages` is the mbox with its messages.
pub fn run_script(
    server: &dyn Server,
    script: &Script,
    messages: &[u8],
    options: RunOptions,
) -> ScriptResult {
    let mut source = MessageSource::new(messages);
    let RunOptions { transport, user } = options;
    let mut result = ScriptResult {
        name: script.name.clone(),
        outcome: Outcome::Pass,
        commands: 0,
        transcript: String::new(),
    };
    let sessions = match start(server, &script.header, transport, user, &mut source) {
        Ok(Started::Sessions(sessions)) => sessions,
        Ok(Started::Skip(reason)) => {
            result.outcome = Outcome::Skip(reason);
            return result;
        }
        Err(error) => {
            result.outcome = Outcome::Fail(format!("preparation: {error}"));
            result.transcript = server.log();
            return result;
        }
    };
    let variables = predefined(server, user);
    let mut run = Run { script, sessions, variables, source, commands: 0 };
    let ended = run.groups();
    result.commands = run.commands;
    if let Err(reason) = ended {
        result.outcome = Outcome::Fail(reason);
        let sessions = run.sessions.iter().enumerate();
        let texts = sessions.map(|(number, session)| {
            format!("-- connection {}\n{}", number + 1, session.connection.transcript().text())
        });
        result.transcript = texts.collect();
    }
    result
}

fn predefined(server: &dyn Server, user: u32) -> Variables {
    let mut variables = Variables::default();
    for (suffix, login) in [("", server.login(user)), ("2", server.login(user + 1))] {
        let (name, domain) = match login.name.split_once('@') {
            Some((name, domain)) => (name, domain.to_owned()),
            None => (login.name.as_str(), server.address().ip().to_string()),
        };
        variables.set(&format!("user{suffix}"), login.name.as_bytes());
        variables.set(&format!("username{suffix}"), name.as_bytes());
        variables.set(&format!("domain{suffix}"), domain.as_bytes());
        variables.set(&format!("password{suffix}"), login.password.as_bytes());
    }
    variables.set("mailbox", MAILBOX.as_bytes());
    variables.set("mailbox_url", MAILBOX.as_bytes());
    variables
}

struct Run<'s> {
    script: &'s Script,
    sessions: Vec<ScriptSession>,
    variables: Variables,
    source: MessageSource,
    commands: usize,
}

/// State of a group whose commands run.
struct Progress {
    places: Places,
    /// Commands without a tagged response, by their tags.
    pending: BTreeMap<String, usize>,
    /// The first tag, the value of `$tag` in untagged responses.
    first_tag: Option<String>,
    is_found: Vec<bool>,
    /// For each expected response the one that came nearest, and the number of equal values.
    nearest: Vec<(usize, String)>,
    extra: Vec<String>,
    continuations: usize,
}

impl Run<'_> {
    fn groups(&mut self) -> Result<(), String> {
        let script = self.script;
        for group in &script.groups {
            let line = group.commands.first().map_or(0, |command| command.line);
            self.group(group).map_err(|reason| format!("line {line}: {reason}"))?;
            std::thread::sleep(group.pause);
            self.commands += group.commands.len();
        }
        if script.ends_by_itself() {
            return Ok(());
        }
        let ended = self.sessions[0].run(&[Segment::Text(b"LOGOUT".to_vec())], false);
        ended.map(drop).map_err(|error| format!("LOGOUT: {error}"))
    }

    fn group(&mut self, group: &CommandGroup) -> Result<(), String> {
        let exists = self.sessions[group.connection].exists;
        let mut progress = Progress {
            places: Places::new(exists),
            pending: BTreeMap::new(),
            first_tag: None,
            is_found: vec![false; group.expected.len()],
            nearest: vec![(0, String::new()); group.expected.len()],
            extra: Vec::new(),
            continuations: 0,
        };
        if group.commands.is_empty() {
            let greeting = self.sessions[group.connection].connection.greeting().to_vec();
            self.untagged(group, &mut progress, &greeting)?;
        }
        let mut tags = Vec::new();
        for number in 0..group.commands.len() {
            let tag = self.sessions[group.connection].connection.new_tag();
            progress.first_tag.get_or_insert_with(|| tag.clone());
            progress.pending.insert(tag.clone(), number);
            tags.push(tag);
        }
        for (command, tag) in group.commands.iter().zip(&tags) {
            self.send(group, command, tag, &mut progress)?;
        }
        while !progress.pending.is_empty() {
            if !self.read(group, &mut progress)? {
                break;
            }
        }
        finish(group, &progress, self.script.header.ignores_extra)
    }

    /// Sends a command; literals wait for the server where they must.
    fn send(
        &mut self,
        group: &CommandGroup,
        command: &ScriptCommand,
        tag: &str,
        progress: &mut Progress,
    ) -> Result<(), String> {
        let segments = self.expanded(command, &progress.places)?;
        let pieces = self.sessions[group.connection].pieces(tag, &segments);
        let last = pieces.len() - 1;
        for (number, piece) in pieces.into_iter().enumerate() {
            let session = &mut self.sessions[group.connection];
            session.connection.send(&piece).map_err(|error| failure(&error))?;
            let asked = progress.continuations;
            while number < last && progress.continuations == asked {
                if !progress.pending.contains_key(tag) {
                    // The server has refused the command without its literal.
                    return Ok(());
                }
                if !self.read(group, progress)? {
                    return Ok(());
                }
            }
        }
        let asked = progress.continuations;
        for line in &group.continuations {
            while progress.continuations == asked {
                if !progress.pending.contains_key(tag) || !self.read(group, progress)? {
                    return Ok(());
                }
            }
            let line = self.variables.expand(line, &progress.places)?;
            let session = &mut self.sessions[group.connection];
            let line = [line.as_slice(), b"\r\n"].concat();
            session.connection.send(&line).map_err(|error| failure(&error))?;
        }
        Ok(())
    }

    /// Returns a command with its variables filled; `append` without a message gets the next one.
    fn expanded(
        &mut self,
        command: &ScriptCommand,
        places: &Places,
    ) -> Result<Vec<Segment>, String> {
        let mut segments = Vec::new();
        for segment in &command.segments {
            segments.push(match segment {
                Segment::Text(text) => Segment::Text(self.variables.expand(text, places)?),
                literal => literal.clone(),
            });
        }
        let text = match segments.as_slice() {
            [Segment::Text(text)] => String::from_utf8_lossy(text).into_owned(),
            _ => return Ok(segments),
        };
        let lower = text.to_ascii_lowercase();
        let takes_message = ["append", "replace", "uid replace"]
            .iter()
            .any(|name| lower == *name || lower.starts_with(&format!("{name} ")));
        if !takes_message || lower.contains(" catenate ") || lower.contains('{') {
            return Ok(segments);
        }
        let message = self.source.next().ok_or("no messages to append")?;
        if lower == "append" {
            return Ok(append(MAILBOX.as_bytes(), &message));
        }
        let text = Segment::Text([text.as_bytes(), b" "].concat());
        Ok(vec![text, Segment::Literal(message.text, false)])
    }

    /// Reads a response. Returns `false` if the server has closed the connection as it should.
    fn read(&mut self, group: &CommandGroup, progress: &mut Progress) -> Result<bool, String> {
        let session = &mut self.sessions[group.connection];
        match session.connection.read() {
            Ok(Response::Untagged(line)) => {
                self.untagged(group, progress, &line)?;
            }
            Ok(Response::Continuation(_)) => progress.continuations += 1,
            Ok(Response::Tagged { tag, rest }) => {
                let number = progress.pending.remove(&tag);
                let number =
                    number.ok_or_else(|| format!("a reply to {tag}, which is not sent"))?;
                self.tagged(&group.commands[number], progress, &tag, &rest)?;
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let replies = progress.pending.values();
                let mut replies =
                    replies.filter_map(|number| group.commands[*number].reply.as_ref());
                if group.expects_bye() && session.is_over && replies.all(Vec::is_empty) {
                    return Ok(false);
                }
                return Err(failure(&error));
            }
            Err(error) => return Err(failure(&error)),
        }
        Ok(true)
    }

    fn tagged(
        &mut self,
        command: &ScriptCommand,
        progress: &Progress,
        tag: &str,
        rest: &[u8],
    ) -> Result<(), String> {
        let args = parse_args(rest).map_err(|error| format!("{}: {error}", shown(rest)))?;
        let reply: &[Pattern] = command.reply.as_deref().unwrap_or_default();
        self.variables.set("tag", tag.as_bytes());
        let compared = compare(reply, &args, true, &self.variables, &progress.places);
        match compared {
            Ok(variables) => self.variables = variables,
            Err(_) => return Err(format!("line {}: the reply is {}", command.line, shown(rest))),
        }
        self.variables.remove("tag");
        Ok(())
    }

    fn untagged(
        &mut self,
        group: &CommandGroup,
        progress: &mut Progress,
        line: &[u8],
    ) -> Result<(), String> {
        let args = parse_args(line).map_err(|error| format!("{}: {error}", shown(line)))?;
        let is_status = ["ok", "no", "bad", "bye", "preauth"]
            .iter()
            .any(|status| args.first().is_some_and(|arg| arg.is_atom(status)));
        let mut is_known = false;
        if let Some(tag) = &progress.first_tag {
            self.variables.set("tag", tag.as_bytes());
        }
        for (number, expected) in group.expected.iter().enumerate() {
            if progress.is_found[number] {
                continue;
            }
            let compared =
                compare(&expected.pattern, &args, is_status, &self.variables, &progress.places);
            match compared {
                Ok(_) if expected.existence == Existence::MustNot => {
                    return Err(format!("line {}: it came: {}", expected.line, shown(line)));
                }
                Ok(variables) => {
                    self.variables = variables;
                    progress.is_found[number] = true;
                    is_known = true;
                    if group.is_ordered {
                        break;
                    }
                }
                Err(equal) => {
                    if equal >= progress.nearest[number].0 {
                        progress.nearest[number] = (equal, shown(line));
                    }
                    if group.is_ordered && expected.existence == Existence::Must {
                        break;
                    }
                }
            }
        }
        self.variables.remove("tag");
        let session = &mut self.sessions[group.connection];
        if let Some(Change::Expunge(place)) = session.follow(line) {
            progress.places.expunge(place);
        }
        if !is_known && !group.commands.is_empty() {
            progress.extra.push(shown(line));
        }
        Ok(())
    }
}

/// Describes an error of a connection.
fn failure(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset => "the server has closed the connection".to_owned(),
        _ => format!("no response: {error}"),
    }
}

/// Finds responses that did not come, and those that should not have.
fn finish(group: &CommandGroup, progress: &Progress, ignores_extra: bool) -> Result<(), String> {
    let missing = group.expected.iter().enumerate().find(|(number, expected)| {
        expected.existence == Existence::Must && !progress.is_found[*number]
    });
    if let Some((number, expected)) = missing {
        let nearest = &progress.nearest[number].1;
        let (line, text) = (expected.line, &expected.text);
        return Err(format!("line {line}: missing: {text}\n  nearest: {nearest}"));
    }
    match progress.extra.first() {
        Some(extra) if !ignores_extra => Err(format!("a response that is not listed: {extra}")),
        _ => Ok(()),
    }
}
