//! Command lines (RFC 2033, RFC 5321 §4.1).

use crate::limits::PATH_LEN_MAX;
use crate::reply::LmtpReply;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LmtpCommand {
    /// LHLO.
    Hello,
    /// MAIL FROM.
    Mail { sender: String, size: Option<u64>, is_utf8: bool },
    /// RCPT TO.
    Recipient(String),
    /// DATA.
    Data,
    /// BDAT.
    Chunk { len: u64, is_last: bool },
    /// RSET.
    Reset,
    /// NOOP.
    Nothing,
    /// VRFY.
    Verify,
    /// QUIT.
    Quit,
}

/// Parses a line without its end.
///
/// # Errors
/// The reply to a line that is not a command.
pub(crate) fn parse(line: &[u8]) -> Result<LmtpCommand, LmtpReply> {
    let line = std::str::from_utf8(line).map_err(|_| syntax("not UTF-8"))?.trim_end();
    if line.chars().any(char::is_control) {
        return Err(syntax("control characters"));
    }
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim_start();
    let alone = |command| match rest.is_empty() {
        true => Ok(command),
        false => Err(LmtpReply::new(501, "5.5.4", "no arguments are expected")),
    };
    match verb.to_ascii_uppercase().as_str() {
        "LHLO" if rest.is_empty() => Err(LmtpReply::new(501, "5.5.4", "LHLO needs a name")),
        "LHLO" => Ok(LmtpCommand::Hello),
        "HELO" | "EHLO" => Err(LmtpReply::new(500, "5.5.1", "this is LMTP: say LHLO")),
        "MAIL" => mail(rest),
        "RCPT" => recipient(rest),
        "DATA" => alone(LmtpCommand::Data),
        "BDAT" => chunk(rest),
        "RSET" => alone(LmtpCommand::Reset),
        "NOOP" => Ok(LmtpCommand::Nothing),
        "VRFY" => Ok(LmtpCommand::Verify),
        "QUIT" => alone(LmtpCommand::Quit),
        _ => Err(LmtpReply::new(500, "5.5.1", "unknown command")),
    }
}

fn syntax(text: &str) -> LmtpReply {
    LmtpReply::new(501, "5.5.2", text)
}

/// Returns the text after a keyword and a colon.
fn after<'l>(rest: &'l str, keyword: &str) -> Result<&'l str, LmtpReply> {
    let (found, path) = rest.split_once(':').ok_or_else(|| syntax("a colon is missing"))?;
    match found.trim_end().eq_ignore_ascii_case(keyword) {
        true => Ok(path.trim_start()),
        false => Err(syntax("FROM: or TO: is missing")),
    }
}

fn mail(rest: &str) -> Result<LmtpCommand, LmtpReply> {
    let (sender, parameters) = path(after(rest, "FROM")?)?;
    let (mut size, mut is_utf8) = (None, false);
    for parameter in parameters.split_ascii_whitespace() {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match (name.to_ascii_uppercase().as_str(), value.to_ascii_uppercase().as_str()) {
            ("SIZE", number) => {
                let number = number.parse().map_err(|_| syntax("SIZE needs a number"))?;
                size = Some(number);
            }
            ("BODY", "7BIT" | "8BITMIME") => {}
            ("SMTPUTF8", "") => is_utf8 = true,
            _ => return Err(LmtpReply::new(555, "5.5.4", "unknown parameter")),
        }
    }
    if !is_utf8 && !sender.is_ascii() {
        return Err(LmtpReply::new(553, "5.6.7", "such an address needs SMTPUTF8"));
    }
    Ok(LmtpCommand::Mail { sender, size, is_utf8 })
}

fn recipient(rest: &str) -> Result<LmtpCommand, LmtpReply> {
    let (address, parameters) = path(after(rest, "TO")?)?;
    if !parameters.trim().is_empty() {
        return Err(LmtpReply::new(555, "5.5.4", "unknown parameter"));
    }
    match address.is_empty() {
        true => Err(LmtpReply::new(501, "5.1.3", "a recipient must not be empty")),
        false => Ok(LmtpCommand::Recipient(address)),
    }
}

fn chunk(rest: &str) -> Result<LmtpCommand, LmtpReply> {
    let mut words = rest.split_ascii_whitespace();
    let len = words.next().and_then(|word| word.parse().ok());
    let is_last = match (words.next(), words.next()) {
        (None, _) => false,
        (Some(word), None) if word.eq_ignore_ascii_case("LAST") => true,
        _ => return Err(syntax("BDAT has a length, and may have LAST")),
    };
    match len {
        Some(len) => Ok(LmtpCommand::Chunk { len, is_last }),
        None => Err(syntax("BDAT has a length, and may have LAST")),
    }
}

/// Splits a path in angle brackets from what follows it; removes a source route.
///
/// ```text
/// Path = "<" [ A-d-l ":" ] Mailbox ">"
/// ```
fn path(text: &str) -> Result<(String, &str), LmtpReply> {
    let inner = text.strip_prefix('<').ok_or_else(|| syntax("an address is in angle brackets"))?;
    let (mut is_quoted, mut is_escaped, mut end) = (false, false, None);
    for (at, char) in inner.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '>' if !is_quoted => {
                end = Some(at);
                break;
            }
            '<' | ' ' if !is_quoted => return Err(syntax("an address has no such characters")),
            _ => {}
        }
    }
    let end = end.ok_or_else(|| syntax("an address ends with an angle bracket"))?;
    if end > PATH_LEN_MAX {
        return Err(LmtpReply::new(501, "5.1.3", "the address is too long"));
    }
    let (path, rest) = (&inner[..end], &inner[end + 1..]);
    if !rest.is_empty() && !rest.starts_with(' ') {
        return Err(syntax("a space is missing after the address"));
    }
    let address = match path.strip_prefix('@') {
        Some(route) => route.split_once(':').map(|(_, address)| address),
        None => Some(path),
    };
    let address = address.ok_or_else(|| syntax("the address is not complete"))?;
    Ok((address.to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Result<LmtpCommand, u16>) {
        assert_eq!(parse(line.as_bytes()).map_err(|reply| reply.code), expected, "{line}");
    }

    #[test]
    fn commands_are_parsed() {
        let mail = |sender: &str, size, is_utf8| {
            Ok(LmtpCommand::Mail { sender: sender.to_owned(), size, is_utf8 })
        };
        let to = |address: &str| Ok(LmtpCommand::Recipient(address.to_owned()));
        check("lhlo me", Ok(LmtpCommand::Hello));
        check("LHLO", Err(501));
        check("EHLO me", Err(500));
        check("MAIL FROM:<a@b>", mail("a@b", None, false));
        check("mail from: <> SIZE=5 body=8bitmime", mail("", Some(5), false));
        check("MAIL FROM:<\u{fc}@b> SMTPUTF8", mail("\u{fc}@b", None, true));
        check("MAIL FROM:<\u{fc}@b>", Err(553));
        check("MAIL FROM:<a@b> BODY=BINARYMIME", Err(555));
        check("MAIL FROM:<a@b>SIZE=1", Err(501));
        check("MAIL FROM:a@b", Err(501));
        check("MAIL <a@b>", Err(501));
        check("RCPT TO:<@x,@y:a@b>", to("a@b"));
        check("RCPT TO:<\"a > b\"@c>", to("\"a > b\"@c"));
        check("RCPT TO:<\"a\\\"> b\"@c>", to("\"a\\\"> b\"@c"));
        check("RCPT TO:<a b>", Err(501));
        check("RCPT TO:<>", Err(501));
        check("RCPT TO:<a@b> NOTIFY=NEVER", Err(555));
        check(&format!("RCPT TO:<{}>", "a".repeat(1001)), Err(501));
        check("BDAT 5 LAST", Ok(LmtpCommand::Chunk { len: 5, is_last: true }));
        check("BDAT 0", Ok(LmtpCommand::Chunk { len: 0, is_last: false }));
        check("BDAT -1", Err(501));
        check("BDAT 5 FIRST", Err(501));
        check("DATA now", Err(501));
        check("STARTTLS", Err(500));
        check("", Err(500));
        check("NOOP \u{1}", Err(501));
    }
}
