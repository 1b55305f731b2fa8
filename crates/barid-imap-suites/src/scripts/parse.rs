//! The parser of scripts.

use std::fmt;
use std::time::Duration;

use super::logical::{LogicalLine, Segment, logical_lines, wire};
use super::pattern::{Pattern, parse_pattern};
use crate::wire::shown;

/// Most connections of a script.
const CONNECTIONS_MAX: usize = 100;

/// State of the connections when the commands begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StartState {
    /// Before LOGIN.
    NonAuth,
    /// Logged in; the mailboxes of the test do not exist.
    Auth,
    /// The mailbox exists.
    Created,
    /// It has the messages.
    Appended,
    /// It is selected on every connection.
    Selected,
}

/// The header of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptHeader {
    /// Capabilities without which it is skipped.
    pub capabilities: Vec<String>,
    /// Number of connections.
    pub connections: usize,
    /// Connections that belong to the second user, from 0.
    pub of_second_user: Vec<usize>,
    /// Messages in the mailbox; `None` for all of the mbox.
    pub messages: Option<u32>,
    /// State of the connections when the commands begin.
    pub state: StartState,
    /// `false` if every untagged response must be listed.
    pub ignores_extra: bool,
}

impl Default for ScriptHeader {
    fn default() -> Self {
        Self {
            capabilities: Vec::new(),
            connections: 1,
            of_second_user: Vec::new(),
            messages: Some(0),
            state: StartState::Selected,
            ignores_extra: true,
        }
    }
}

/// A script.
#[derive(Clone, Debug)]
pub struct Script {
    /// The name.
    pub name: String,
    /// The header.
    pub header: ScriptHeader,
    pub(super) groups: Vec<CommandGroup>,
}

/// Error in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The name of the script.
    pub script: String,
    /// Number of the line.
    pub line: usize,
    /// The error.
    pub text: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.script, self.line, self.text)
    }
}

/// Commands that are sent at once, and the responses to them.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandGroup {
    /// Index of the connection.
    pub(super) connection: usize,
    /// The commands; none for the greeting.
    pub(super) commands: Vec<ScriptCommand>,
    /// The untagged responses.
    pub(super) expected: Vec<Expected>,
    /// `true` if they must come in this order.
    pub(super) is_ordered: bool,
    /// Time to wait afterwards.
    pub(super) pause: Duration,
    /// Lines that are sent when the server asks for more.
    pub(super) continuations: Vec<Vec<u8>>,
}

impl CommandGroup {
    /// Returns `true` if the server closes the connection.
    pub(super) fn expects_bye(&self) -> bool {
        self.expected.iter().any(|expected| expected.is_bye())
    }

    fn has_reply_missing(&self) -> bool {
        self.commands.iter().any(|command| command.reply.is_none())
    }
}

/// A command.
#[derive(Clone, Debug)]
pub(super) struct ScriptCommand {
    /// Number of its line.
    pub(super) line: usize,
    /// N of `tagN`; 0 for a command without.
    pub(super) tag: u32,
    /// The parts of the command.
    pub(super) segments: Vec<Segment>,
    /// The tagged response; `None` until its line is read.
    pub(super) reply: Option<Vec<Pattern>>,
}

/// Time of an untagged response: always, never, or perhaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existence {
    Must,
    MustNot,
    May,
}

/// An untagged response.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// Number of its line.
    pub(super) line: usize,
    /// `Must`, `MustNot` or `May`.
    pub(super) existence: Existence,
    /// Its pattern.
    pub(super) pattern: Vec<Pattern>,
    /// Its text, for reports.
    pub(super) text: String,
}

impl Expected {
    fn is_bye(&self) -> bool {
        let is_bye = self.text.len() >= 3 && self.text.as_bytes()[..3].eq_ignore_ascii_case(b"bye");
        is_bye && self.existence == Existence::Must
    }
}

impl Script {
    /// Parses a script.
    ///
    /// # Errors
    /// The first error in it.
    pub fn parse(name: &str, text: &[u8]) -> Result<Self, ScriptError> {
        let error = |line, text| ScriptError { script: name.to_owned(), line, text };
        let lines = logical_lines(text);
        let lines = lines.map_err(|line| error(line, "a literal does not end".to_owned()))?;
        let mut parser = ScriptParser::default();
        for line in &lines {
            parser.line(line).map_err(|text| error(line.number, text))?;
        }
        let end = lines.last().map_or(0, |line| line.number);
        if parser.groups.is_empty() {
            return Err(error(end, "no commands".to_owned()));
        }
        if parser.groups.iter().any(CommandGroup::has_reply_missing) {
            return Err(error(end, "a command has no reply".to_owned()));
        }
        if !parser.conditions.is_empty() {
            return Err(error(end, "!ifenv without !endif".to_owned()));
        }
        Ok(Self { name: name.to_owned(), header: parser.header, groups: parser.groups })
    }

    /// Returns the number of commands.
    pub fn len(&self) -> usize {
        self.groups.iter().map(|group| group.commands.len()).sum()
    }

    /// Returns `true` if it has no commands.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns `true` if a command ends the session.
    pub(super) fn ends_by_itself(&self) -> bool {
        let is_logout =
            |command: &ScriptCommand| wire(&command.segments).eq_ignore_ascii_case(b"logout");
        self.groups.iter().any(|group| group.expects_bye() || group.commands.iter().any(is_logout))
    }
}

/// An open `!ifenv`: `true` if the lines around it are skipped, and those in it.
struct Condition {
    is_skipped_around: bool,
    is_skipped: bool,
}

#[derive(Default)]
struct ScriptParser {
    header: ScriptHeader,
    groups: Vec<CommandGroup>,
    conditions: Vec<Condition>,
}

impl ScriptParser {
    fn line(&mut self, line: &LogicalLine) -> Result<(), String> {
        if line.is_header {
            return self.header_line(&String::from_utf8_lossy(line.text()));
        }
        if let Some(result) = self.condition(&String::from_utf8_lossy(line.text())) {
            return result;
        }
        if self.conditions.last().is_some_and(|condition| condition.is_skipped) {
            return Ok(());
        }
        if let Some(existence) = existence_of(line.text()) {
            return self.expected(line, existence);
        }
        if line.text().starts_with(b"!") {
            return self.directive(&String::from_utf8_lossy(line.text()));
        }
        self.command_or_reply(line)
    }

    fn header_line(&mut self, line: &str) -> Result<(), String> {
        let (key, value) = line.split_once(':').ok_or("a header line has no colon")?;
        let (key, value) = (key.trim_end().to_ascii_lowercase(), value.trim());
        let header = &mut self.header;
        match key.as_str() {
            "capabilities" => {
                header.capabilities = value.split_whitespace().map(str::to_owned).collect();
            }
            "connections" => {
                let count =
                    value.parse().ok().filter(|count| (1..=CONNECTIONS_MAX).contains(count));
                header.connections = count.ok_or("not a number of connections")?;
            }
            "messages" if value == "all" => header.messages = None,
            "messages" => header.messages = Some(value.parse().map_err(|_| "not a number")?),
            "ignore_extra_untagged" => header.ignores_extra = value.starts_with('y'),
            "state" => {
                header.state = match value.to_ascii_lowercase().as_str() {
                    "nonauth" => StartState::NonAuth,
                    "auth" => StartState::Auth,
                    "created" => StartState::Created,
                    "appended" => StartState::Appended,
                    "selected" => StartState::Selected,
                    _ => return Err(format!("unknown state {value}")),
                };
            }
            _ => {
                let number = key.strip_prefix("user ").and_then(|number| number.parse().ok());
                let number: usize = number.ok_or(format!("unknown key {key}"))?;
                if number == 0 || !["$user2", "${user2}"].contains(&value) {
                    return Err(format!("user {number}: {value} is not supported"));
                }
                header.of_second_user.push(number - 1);
            }
        }
        Ok(())
    }

    /// Handles `!ifenv` and its kin; `None` for another line.
    fn condition(&mut self, line: &str) -> Option<Result<(), String>> {
        let is_skipped_around =
            self.conditions.last().is_some_and(|condition| condition.is_skipped);
        let mut begin = |is_met: bool| {
            let is_skipped = is_skipped_around || !is_met;
            self.conditions.push(Condition { is_skipped_around, is_skipped });
            Some(Ok(()))
        };
        if let Some(name) = line.strip_prefix("!ifenv ") {
            return begin(std::env::var_os(name.trim()).is_some());
        }
        if let Some(name) = line.strip_prefix("!ifnenv ") {
            return begin(std::env::var_os(name.trim()).is_none());
        }
        match line {
            "!else" => match self.conditions.last_mut() {
                None => Some(Err("!else without !ifenv".to_owned())),
                Some(condition) => {
                    condition.is_skipped = condition.is_skipped_around || !condition.is_skipped;
                    Some(Ok(()))
                }
            },
            "!endif" => {
                let ended = self.conditions.pop().map(drop);
                Some(ended.ok_or("!endif without !ifenv".to_owned()))
            }
            _ => None,
        }
    }

    fn directive(&mut self, line: &str) -> Result<(), String> {
        let group = self.groups.last_mut().ok_or(format!("{line} before a command"))?;
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        match name {
            "!ordered" => group.is_ordered = true,
            "!sleep" => group.pause = duration(value).ok_or(format!("{value}: not a time"))?,
            // What is printed does not matter to anybody who only wants the results.
            "!output" => {}
            "!continue" => group.continuations.push(value.as_bytes().to_vec()),
            _ => return Err(format!("{name}: unknown")),
        }
        Ok(())
    }

    fn expected(&mut self, line: &LogicalLine, existence: Existence) -> Result<(), String> {
        if self.groups.is_empty() {
            // Responses before the first command are the greeting.
            self.groups.push(CommandGroup::default());
        }
        let group = self.groups.last_mut().ok_or("no command")?;
        let bytes = wire(&line.without(2));
        let pattern = parse_pattern(&bytes)?;
        let text = shown(&bytes);
        group.expected.push(Expected { line: line.number, existence, pattern, text });
        Ok(())
    }

    fn command_or_reply(&mut self, line: &LogicalLine) -> Result<(), String> {
        let (connection, skipped) = self.connection(line.text())?;
        let text = &line.text()[skipped..];
        let (tag, after_tag) = tag_of(text);
        let (reply, after_reply) = reply_of(&text[after_tag..]);
        let group = self.groups.last_mut().filter(|group| group.has_reply_missing());
        if let Some(group) = group {
            if group.connection != connection {
                return Err("a reply or a command of another connection".to_owned());
            }
            if reply.is_some() {
                let command = group.commands.iter_mut().find(|command| command.tag == tag);
                let command = command.ok_or(format!("tag{tag} was not sent"))?;
                if command.reply.is_some() {
                    return Err(format!("tag{tag} has a reply already"));
                }
                let text = wire(&line.without(skipped + after_tag));
                command.reply = Some(reply_pattern(&text)?);
                return Ok(());
            }
            if tag == 0 {
                return Err("the command before has no reply".to_owned());
            }
            if group.commands.iter().any(|command| command.tag == tag) {
                return Err(format!("tag{tag} was sent already"));
            }
        } else {
            self.groups.push(CommandGroup { connection, ..CommandGroup::default() });
        }
        let segments = line.without(skipped + after_tag + after_reply);
        let reply = reply.map(reply_pattern).transpose()?;
        let command = ScriptCommand { line: line.number, tag, segments, reply };
        let group = self.groups.last_mut().ok_or("no group")?;
        group.commands.push(command);
        Ok(())
    }

    /// Returns the index of the connection that a line begins with, and the length of the number.
    fn connection(&self, text: &[u8]) -> Result<(usize, usize), String> {
        if self.header.connections == 1 {
            return Ok((0, 0));
        }
        let text = String::from_utf8_lossy(text);
        let (word, _) = text.split_once(' ').ok_or("no number of a connection")?;
        let number: Option<usize> = word.parse().ok();
        let number = number.filter(|number| (1..=self.header.connections).contains(number));
        Ok((number.ok_or("not a number of a connection")? - 1, word.len() + 1))
    }
}

fn existence_of(line: &[u8]) -> Option<Existence> {
    match line.get(..2)? {
        b"* " => Some(Existence::Must),
        b"! " => Some(Existence::MustNot),
        b"? " => Some(Existence::May),
        _ => None,
    }
}

/// Returns N of `tagN ` at the start of a text, and its length; 0 and 0 if there is none.
fn tag_of(text: &[u8]) -> (u32, usize) {
    let word = text.split(|byte| *byte == b' ').next().unwrap_or_default();
    let number = std::str::from_utf8(word).ok().and_then(|word| {
        word.get(..3).filter(|start| start.eq_ignore_ascii_case("tag"))?;
        word[3..].parse().ok()
    });
    let has_more = word.len() < text.len();
    number
        .filter(|number| *number > 0 && has_more)
        .map_or((0, 0), |number| (number, word.len() + 1))
}

/// Returns the condition that a text begins with (`ok`, `no`, `bad`, `""`), and its length with the
/// space behind it.
fn reply_of(text: &[u8]) -> (Option<&[u8]>, usize) {
    let word = text.split(|byte| *byte == b' ').next().unwrap_or_default();
    let is_known =
        ["ok", "no", "bad", "\"\""].iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()));
    if is_known { (Some(word), (word.len() + 1).min(text.len())) } else { (None, 0) }
}

/// Parses the pattern of a tagged response; that of `""` fits all of them.
fn reply_pattern(text: &[u8]) -> Result<Vec<Pattern>, String> {
    if text.starts_with(b"\"\"") { Ok(Vec::new()) } else { parse_pattern(text) }
}

/// Parses a time such as `100ms`, `2s` or `1 sec`.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u64 = digits.parse().ok()?;
    match text[digits.len()..].trim() {
        "ms" | "msecs" => Some(Duration::from_millis(number)),
        "s" | "sec" | "secs" | "" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Script, String> {
        Script::parse("x", text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_three_forms_of_commands_are_read() {
        let script = parse(
            "connections: 2\nstate: auth\nmessages: all\ncapabilities: A B\n\n1 ok noop\n* 1 \
             exists\n! bye\n2 select x\n? ok [a]\n2 no [read-only]\n1 tag1 a\n1 tag2 b\n1 tag2 \
             \"\"\n1 tag1 ok\n!sleep 5ms\n",
        );
        let script = script.unwrap();
        assert_eq!(script.header.connections, 2);
        assert_eq!((script.header.state, script.header.messages), (StartState::Auth, None));
        let groups: Vec<_> = script
            .groups
            .iter()
            .map(|group| (group.connection, group.commands.len(), group.expected.len()))
            .collect();
        assert_eq!(groups, [(0, 1, 2), (1, 1, 1), (0, 2, 0)]);
        assert_eq!(script.groups[2].commands[1].reply, Some(Vec::new()));
        assert_eq!(script.groups[2].pause, Duration::from_millis(5));
        assert_eq!(wire(&script.groups[1].commands[0].segments), b"select x");
        assert!(!script.ends_by_itself() && script.len() == 4 && !script.is_empty());
    }

    #[test]
    fn errors_are_found() {
        let check = |text, expected: &str| assert_eq!(parse(text).unwrap_err(), expected);
        check("\nselect x\n", "x:2: a command has no reply");
        check("\nselect x\nselect y\n", "x:3: the command before has no reply");
        check("foo: 1\n\nok noop\n", "x:1: unknown key foo");
        check("\n", "x:0: no commands");
        check("\ntag1 a\ntag1 b\n", "x:3: tag1 was sent already");
        check("\nok a\n!foo\n", "x:3: !foo: unknown");
        check("connections: 2\n\nok a\n", "x:3: not a number of a connection");
    }

    #[test]
    fn lines_depend_on_the_environment() {
        let text =
            "\nok a\n!ifenv PATH\nok b\n!else\nok c\n!endif\n!ifenv NO_SUCH_\nok d\n!endif\n";
        let commands: Vec<_> = parse(text)
            .unwrap()
            .groups
            .into_iter()
            .map(|group| String::from_utf8(wire(&group.commands[0].segments)).unwrap())
            .collect();
        assert_eq!(commands, ["a", "b"]);
        assert!(parse("\nok a\n!ifenv X\n").is_err());
    }
}
