//! The grammar of commands (RFC 9051 §9 and extensions).
//!
//! Functions take a [`Cursor`] behind the name of the command and its space, if it has arguments,
//! and return the command. None of them recurses.

mod account;
mod cursor;
mod fetch;
mod list;
mod mailbox;
mod message;
mod notify;
mod search;
mod select;

pub(crate) use self::cursor::Cursor;
use crate::command::Command;
use crate::limits::{ERROR_TEXT_LEN_MAX, TAG_LEN_MAX};

/// The parts of the state of a session that change the grammar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    /// UTF8=ACCEPT is enabled.
    pub(crate) utf8: bool,
    /// IMAP4rev2 is enabled.
    pub(crate) rev2: bool,
    /// The hierarchy separator.
    pub(crate) separator: char,
}

impl Default for Dialect {
    fn default() -> Self {
        Self { utf8: false, rev2: false, separator: '/' }
    }
}

impl Dialect {
    /// Returns `true` if mailbox names are UTF-8, not modified UTF-7.
    pub(crate) fn has_utf8_names(self) -> bool {
        self.utf8 || self.rev2
    }
}

/// The reason why a command was refused, as its response has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParseError {
    pub(crate) code: Option<&'static str>,
    pub(crate) is_no: bool,
    pub(crate) text: String,
}

/// A parsed value.
pub(crate) type Parsed<T> = Result<T, ParseError>;

impl ParseError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { code: None, is_no: false, text: text.into() }
    }

    pub(crate) fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// Answers NO with a response code.
    pub(crate) fn with_no(self, code: &'static str) -> Self {
        Self { code: Some(code), is_no: true, ..self }
    }
}

/// Returns a text as one line of printable ASCII within the limit.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
    text.chars().take(ERROR_TEXT_LEN_MAX).map(shown).collect()
}

/// Returns the tag at the start of a line, if it is valid and ends with it or with a space.
pub(crate) fn tag(line: &[u8]) -> Option<String> {
    let len = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
    let is_char = |byte: &u8| cursor::is_astring_char(*byte) && byte.is_ascii() && *byte != b'+';
    let is_tag = (1..=TAG_LEN_MAX).contains(&len) && line[..len].iter().all(is_char);
    is_tag.then(|| String::from_utf8_lossy(&line[..len]).into_owned())
}

/// The command that carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppendKind {
    /// APPEND.
    Append,
    /// REPLACE, or UID REPLACE if `true`.
    Replace(bool),
}

/// The beginning of a command.
#[derive(Debug)]
pub(crate) struct CommandHead {
    /// The kind of APPEND, if it is one.
    pub(crate) append: Option<AppendKind>,
    /// End of the name and the spaces behind it.
    pub(crate) end: usize,
}

/// Reads the tag and the name of a command.
pub(crate) fn head(line: &[u8]) -> Parsed<CommandHead> {
    let mut cursor = Cursor::new(line, Dialect::default());
    let name = name(&mut cursor)?;
    let append = match (name.name.as_str(), name.uid) {
        ("APPEND", false) => Some(AppendKind::Append),
        ("REPLACE", uid) => Some(AppendKind::Replace(uid)),
        _ => None,
    };
    let CommandName { name, uid } = name;
    if append.is_some() {
        cursor.space()?;
    } else if (uid || plain(&name).is_none()) && parser_of(&name, uid).is_none() {
        // At once, so that the client sends no literal for it.
        return Err(unknown(&name, uid));
    }
    Ok(CommandHead { append, end: cursor.at() })
}

/// The name of a command.
struct CommandName {
    name: String,
    /// `true` with `UID` before the name.
    uid: bool,
}

/// Reads the tag and the name of a command.
fn name(cursor: &mut Cursor<'_>) -> Parsed<CommandName> {
    let tag = tag(cursor.rest()).ok_or_else(|| ParseError::new("A command begins with a tag."))?;
    cursor.take_while(|byte| byte != b' ');
    debug_assert_eq!(cursor.at(), tag.len());
    cursor.spaces();
    if cursor.is_end() {
        return Err(ParseError::new("The command is missing behind the tag."));
    }
    let mut name = cursor.word("a command")?;
    let uid = name == "UID";
    if uid {
        cursor.space()?;
        name = cursor.word("a command behind UID")?;
    }
    Ok(CommandName { name, uid })
}

/// Parses a complete command other than APPEND and REPLACE, tag included.
pub(crate) fn command(text: &[u8], dialect: Dialect) -> Parsed<Command> {
    let mut cursor = Cursor::new(text, dialect);
    let CommandName { name, uid } = name(&mut cursor)?;
    if let Some(command) = plain(&name).filter(|_| !uid) {
        cursor.end()?;
        return Ok(command);
    }
    let Some(parse) = parser_of(&name, uid) else {
        return Err(unknown(&name, uid));
    };
    if !(name == "ID" && cursor.is_end()) {
        cursor.space()?;
    }
    let command = parse(&mut cursor)?;
    cursor.end()?;
    Ok(command)
}

fn unknown(name: &str, uid: bool) -> ParseError {
    let uid = if uid { "UID " } else { "" };
    ParseError::new(format!("Unknown command {uid}{name}."))
}

/// Returns the command without arguments that has this name.
fn plain(name: &str) -> Option<Command> {
    Some(match name {
        "CAPABILITY" => Command::Capability,
        "NOOP" => Command::Noop,
        "LOGOUT" => Command::Logout,
        "STARTTLS" => Command::StartTls,
        "UNAUTHENTICATE" => Command::Unauthenticate,
        "NAMESPACE" => Command::Namespace,
        "IDLE" => Command::Idle,
        "CHECK" => Command::Check,
        "CLOSE" => Command::Close,
        "UNSELECT" => Command::Unselect,
        "EXPUNGE" => Command::Expunge(None),
        _ => return None,
    })
}

/// A parser of the arguments of a command.
type Arguments = fn(&mut Cursor<'_>) -> Parsed<Command>;

/// Returns the parser of a command with arguments.
fn parser_of(name: &str, uid: bool) -> Option<Arguments> {
    if uid {
        return Some(match name {
            "FETCH" => |cursor| fetch::fetch(cursor, true),
            "STORE" => |cursor| message::store(cursor, true),
            "COPY" => |cursor| message::copy(cursor, true, false),
            "MOVE" => |cursor| message::copy(cursor, true, true),
            "EXPUNGE" => message::uid_expunge,
            "SEARCH" => |cursor| search::search(cursor, true),
            "SORT" => |cursor| search::sort(cursor, true),
            "THREAD" => |cursor| search::thread(cursor, true),
            _ => return None,
        });
    }
    Some(match name {
        "ID" => account::id,
        "AUTHENTICATE" => account::authenticate,
        "LOGIN" => account::login,
        "ENABLE" => account::enable,
        "COMPRESS" => account::compress,
        "GETQUOTA" => account::get_quota,
        "GETQUOTAROOT" => |cursor| Ok(Command::GetQuotaRoot(cursor.mailbox()?)),
        "SETQUOTA" => account::set_quota,
        "MYRIGHTS" => |cursor| Ok(Command::MyRights(cursor.mailbox()?)),
        "GETACL" => |cursor| Ok(Command::GetAcl(cursor.mailbox()?)),
        "LISTRIGHTS" => account::list_rights,
        "SETACL" => |cursor| account::set_acl(cursor, false),
        "DELETEACL" => |cursor| account::set_acl(cursor, true),
        "GETMETADATA" => mailbox::get_metadata,
        "SETMETADATA" => mailbox::set_metadata,
        "NOTIFY" => notify::notify,
        "ESEARCH" => notify::multi_search,
        "SELECT" => |cursor| select::select(cursor, false),
        "EXAMINE" => |cursor| select::select(cursor, true),
        "CREATE" => mailbox::create,
        "DELETE" => |cursor| Ok(Command::Delete(cursor.mailbox()?)),
        "RENAME" => mailbox::rename,
        "SUBSCRIBE" => |cursor| Ok(Command::Subscribe(cursor.mailbox()?, true)),
        "UNSUBSCRIBE" => |cursor| Ok(Command::Subscribe(cursor.mailbox()?, false)),
        "LIST" => |cursor| list::list(cursor, "LIST"),
        "LSUB" => |cursor| list::list(cursor, "LSUB"),
        "XLIST" => |cursor| list::list(cursor, "XLIST"),
        "STATUS" => list::status,
        "FETCH" => |cursor| fetch::fetch(cursor, false),
        "STORE" => |cursor| message::store(cursor, false),
        "COPY" => |cursor| message::copy(cursor, false, false),
        "MOVE" => |cursor| message::copy(cursor, false, true),
        "SEARCH" => |cursor| search::search(cursor, false),
        "SORT" => |cursor| search::sort(cursor, false),
        "THREAD" => |cursor| search::thread(cursor, false),
        "CANCELUPDATE" => search::cancel_update,
        "UIDBATCHES" => message::uid_batches,
        _ => return None,
    })
}
