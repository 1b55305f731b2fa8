//! Patterns of responses.

use super::variables::{Token, tokens};
use crate::wire::{Arg, parse_args};

/// A value that a response must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// `NIL`.
    Nil,
    /// `$]`: everything up to a value that ends the response code.
    UpToBracket,
    /// Text in an atom, a string or a literal.
    Text(Vec<Token>),
    /// A list.
    List(ListPattern),
}

/// A list that a response must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListPattern {
    /// The values.
    pub(super) items: Vec<Pattern>,
    /// The way in which they are compared.
    pub(super) rule: ListRule,
}

/// The way in which a list is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListRule {
    /// Values that stay together in a list whose order does not matter; `None` if it matters.
    pub(super) chain: Option<usize>,
    /// `true` if the list of the response must have nothing else.
    pub(super) is_complete: bool,
    /// Values that a complete list may have besides.
    pub(super) ignored: Vec<Vec<u8>>,
    /// Values that another list must not have.
    pub(super) banned: Vec<Vec<u8>>,
}

/// The place of a list in a response; it decides how the list is compared by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListPlace {
    /// `n FETCH (...)`.
    Fetch,
    /// `n FETCH (FLAGS (...))`.
    Flags,
    /// `LIST (...)`, `LSUB (...)`.
    Attributes,
    /// `STATUS mailbox (...)`.
    Status,
    /// Anything else.
    Other,
}

/// Parses a pattern of a whole response.
///
/// # Errors
/// A text for the user.
pub(super) fn parse_pattern(line: &[u8]) -> Result<Vec<Pattern>, String> {
    let args = parse_args(line).map_err(|error| error.to_string())?;
    let is_numbered = args
        .first()
        .and_then(Arg::atom)
        .is_some_and(|atom| atom.starts_with(b"$") || atom.first().is_some_and(u8::is_ascii_digit));
    let name = args.get(usize::from(is_numbered)).and_then(Arg::atom).unwrap_or_default();
    let place = |at| match (name.to_ascii_lowercase().as_slice(), at) {
        (b"fetch", 2) => ListPlace::Fetch,
        (b"list" | b"lsub", 1) => ListPlace::Attributes,
        (b"status", 2) => ListPlace::Status,
        _ => ListPlace::Other,
    };
    let patterns = args.iter().enumerate().map(|(at, arg)| pattern(arg, place(at)));
    patterns.collect()
}

fn pattern(arg: &Arg, place: ListPlace) -> Result<Pattern, String> {
    match arg {
        Arg::Nil(_) => Ok(Pattern::Nil),
        Arg::Atom(text) if text == b"$]" => Ok(Pattern::UpToBracket),
        Arg::Atom(text) | Arg::String(text) => Ok(Pattern::Text(tokens(text))),
        Arg::List(args) => Ok(Pattern::List(list_pattern(args, place)?)),
    }
}

/// Scripts nest lists a few levels deep; the parser bounds it.
fn list_pattern(args: &[Arg], place: ListPlace) -> Result<ListPattern, String> {
    let is_directive = |arg: &&Arg| arg.atom().is_some_and(|atom| atom.starts_with(b"$!"));
    let directives = args.iter().take_while(is_directive).count();
    let rule = match directives {
        0 => default_rule(place),
        _ => rule(&args[..directives])?,
    };
    let args = &args[directives..];
    if !args.len().is_multiple_of(rule.chain.unwrap_or(1)) {
        return Err(format!("{} values are not chains of {:?}", args.len(), rule.chain));
    }
    let place_at = |at: usize| {
        let is_flags = at > 0 && args[at - 1].is_atom("flags");
        if place == ListPlace::Fetch && is_flags { ListPlace::Flags } else { ListPlace::Other }
    };
    let items = args.iter().enumerate().map(|(at, arg)| pattern(arg, place_at(at)));
    Ok(ListPattern { items: items.collect::<Result<_, _>>()?, rule })
}

fn default_rule(place: ListPlace) -> ListRule {
    let unordered = |chain| ListRule { chain: Some(chain), ..ListRule::default() };
    match place {
        ListPlace::Fetch | ListPlace::Status => unordered(2),
        ListPlace::Attributes => unordered(1),
        ListPlace::Flags => {
            let ignored = ["\\recent", "$HasAttachment", "$HasNoAttachment"];
            let ignored = ignored.map(|flag| flag.as_bytes().to_vec()).to_vec();
            ListRule { is_complete: true, ignored, ..unordered(1) }
        }
        ListPlace::Other => ListRule { is_complete: true, ..ListRule::default() },
    }
}

fn rule(directives: &[Arg]) -> Result<ListRule, String> {
    let mut rule = ListRule::default();
    let mut is_complete = None;
    for directive in directives {
        let text = String::from_utf8_lossy(directive.atom().unwrap_or_default()).into_owned();
        let (name, value) = text[2..]
            .split_once('=')
            .map_or((&text[2..], None), |(name, value)| (name, Some(value)));
        match (name, value) {
            ("unordered", None) => rule.chain = Some(1),
            ("unordered", Some(chain)) => {
                let chain = chain.parse().ok().filter(|chain| *chain > 0);
                rule.chain = Some(chain.ok_or(format!("{text}: not a number"))?);
            }
            ("ordered", None) => rule.chain = None,
            ("extra", None) => is_complete = Some(false),
            ("noextra", None) => is_complete = Some(true),
            ("ignore", Some(value)) => rule.ignored.push(value.as_bytes().to_vec()),
            ("ban", Some(value)) => rule.banned.push(value.as_bytes().to_vec()),
            _ => return Err(format!("{text}: unknown directive")),
        }
    }
    rule.is_complete = is_complete.unwrap_or(rule.chain.is_none());
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rule of the last list of a line, or of the list in it.
    fn last_rule(line: &str) -> ListRule {
        let patterns = parse_pattern(line.as_bytes()).unwrap();
        let Some(Pattern::List(list)) = patterns.into_iter().next_back() else { panic!("{line}") };
        match list.items.last() {
            Some(Pattern::List(inner)) => inner.rule.clone(),
            _ => list.rule,
        }
    }

    #[test]
    fn lists_have_default_rules() {
        let check = |line, chain, is_complete| {
            let rule = last_rule(line);
            assert_eq!((rule.chain, rule.is_complete), (chain, is_complete), "{line}");
        };
        check("1 FETCH (UID 1)", Some(2), false);
        check("$1 fetch (flags (\\seen))", Some(1), true);
        check("1 fetch (envelope (a b))", None, true);
        check("status x (messages 1)", Some(2), false);
        check("esearch (tag x)", None, true);
        check("1 fetch ($!ordered uid 1)", None, true);
        check("1 fetch ($!unordered=3 $!noextra a b c)", Some(3), true);
        let patterns = parse_pattern(b"list ($!unordered $!ban=\\x a) / b").unwrap();
        let Pattern::List(list) = &patterns[1] else { panic!("{patterns:?}") };
        assert_eq!((list.rule.banned.len(), list.items.len()), (1, 1));
    }

    #[test]
    fn errors_are_found() {
        let check = |line: &str| parse_pattern(line.as_bytes()).unwrap_err();
        assert_eq!(check("1 fetch (a)"), "1 values are not chains of Some(2)");
        assert_eq!(check("x ($!foo a)"), "$!foo: unknown directive");
        assert_eq!(check("x (a"), "a list does not end at offset 4");
    }
}
