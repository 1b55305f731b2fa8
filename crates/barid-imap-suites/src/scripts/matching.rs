//! Comparison of responses with patterns.

use super::pattern::{ListPattern, Pattern};
use super::variables::{Places, Token, Variables};
use crate::wire::Arg;

/// A comparison: what variables are worth, with those that it adds.
pub(super) struct Matcher<'s> {
    variables: Variables,
    places: &'s Places,
}

/// Compares a response with a pattern. Returns the variables with those that the response added, or
/// the number of values that were equal. With `is_prefix`, the response may go on.
pub(super) fn compare(
    patterns: &[Pattern],
    args: &[Arg],
    is_prefix: bool,
    variables: &Variables,
    places: &Places,
) -> Result<Variables, usize> {
    let mut matcher = Matcher { variables: variables.clone(), places };
    matcher.values(patterns, args, is_prefix)?;
    Ok(matcher.variables)
}

impl Matcher<'_> {
    fn values(&mut self, patterns: &[Pattern], args: &[Arg], is_prefix: bool) -> Result<(), usize> {
        let mut at = 0;
        for (number, pattern) in patterns.iter().enumerate() {
            let Some(arg) = args.get(at) else { return Err(number) };
            let may_go_on = is_prefix && number + 1 == patterns.len();
            let is_equal = match (pattern, arg) {
                (Pattern::Nil, arg) => matches!(arg, Arg::Nil(_)),
                (Pattern::UpToBracket, _) => {
                    let is_inside =
                        |arg: &Arg| !arg.bytes().is_some_and(|bytes| bytes.contains(&b']'));
                    at += args[at..].iter().take_while(|arg| is_inside(arg)).count();
                    true
                }
                (Pattern::Text(tokens), Arg::List(_)) => tokens.as_slice() == [Token::Any],
                (Pattern::Text(tokens), arg) => {
                    self.text(tokens, arg.bytes().unwrap_or_default(), may_go_on)
                }
                (Pattern::List(list), Arg::List(args)) => self.list(list, args),
                (Pattern::List(_), _) => false,
            };
            if !is_equal {
                return Err(number);
            }
            at += 1;
        }
        if is_prefix || at == args.len() { Ok(()) } else { Err(patterns.len()) }
    }

    fn list(&mut self, list: &ListPattern, args: &[Arg]) -> bool {
        let Some(chain) = list.rule.chain else {
            return self.values(&list.items, args, false).is_ok();
        };
        if !args.len().is_multiple_of(chain) {
            return false;
        }
        let chains: Vec<&[Arg]> = args.chunks(chain).collect();
        let mut is_used = vec![false; chains.len()];
        for items in list.items.chunks(chain) {
            let found = chains.iter().position(|args| self.try_values(items, args));
            let Some(found) = found else { return false };
            is_used[found] = true;
        }
        let extra = chains.iter().zip(&is_used).filter(|(_, is_used)| !**is_used);
        let mut extra = extra.filter_map(|(args, _)| args[0].bytes());
        let is_among = |texts: &[Vec<u8>], extra: &[u8]| {
            texts.iter().any(|text| text.eq_ignore_ascii_case(extra))
        };
        if list.rule.is_complete {
            extra.all(|extra| is_among(&list.rule.ignored, extra))
        } else {
            !extra.any(|extra| is_among(&list.rule.banned, extra))
        }
    }

    /// Compares values; variables are unchanged if they differ.
    fn try_values(&mut self, patterns: &[Pattern], args: &[Arg]) -> bool {
        let before = self.variables.clone();
        let is_equal = self.values(patterns, args, false).is_ok();
        if !is_equal {
            self.variables = before;
        }
        is_equal
    }

    fn text(&mut self, tokens: &[Token], text: &[u8], may_go_on: bool) -> bool {
        let mut rest = text;
        for (number, token) in tokens.iter().enumerate() {
            let known = match token {
                // As in imaptest, whose texts end at a NUL: a script depends on it.
                Token::Text(part) if part.contains(&0) => {
                    return up_to_nul(rest).eq_ignore_ascii_case(up_to_nul(part));
                }
                Token::Text(part) => {
                    let start = rest.get(..part.len());
                    if !start.is_some_and(|start| start.eq_ignore_ascii_case(part)) {
                        return false;
                    }
                    rest = &rest[part.len()..];
                    continue;
                }
                Token::Case(part) => Some(part.clone()),
                Token::Variable(name) => self.variables.get(name).map(<[u8]>::to_vec),
                Token::Sequence(number) => match self.places.get(*number) {
                    Some(place) => Some(place.to_string().into_bytes()),
                    None => return false,
                },
                Token::Any => None,
            };
            if let Some(known) = known {
                let Some(after) = rest.strip_prefix(known.as_slice()) else { return false };
                rest = after;
                continue;
            }
            let len = self.unknown_len(tokens.get(number + 1), rest);
            let (value, after) = rest.split_at(len);
            if let Token::Variable(name) = token
                && !self.variables.bind(name, value)
            {
                return false;
            }
            rest = after;
        }
        may_go_on || rest.is_empty()
    }

    /// Returns the length of an unknown value: up to the first byte of what must follow.
    fn unknown_len(&self, next: Option<&Token>, text: &[u8]) -> usize {
        let first = match next {
            Some(Token::Text(part) | Token::Case(part)) => part.first().copied(),
            Some(Token::Variable(name)) => {
                self.variables.get(name).and_then(|value| value.first().copied())
            }
            _ => None,
        };
        let Some(first) = first else { return text.len() };
        text.iter().position(|byte| byte.eq_ignore_ascii_case(&first)).unwrap_or(text.len())
    }
}

fn up_to_nul(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::pattern::parse_pattern;
    use super::*;
    use crate::wire::parse_args;

    fn matched(pattern: &str, response: &str, is_prefix: bool) -> Option<Variables> {
        let mut variables = Variables::default();
        variables.set("known", b"Seven");
        let pattern = parse_pattern(pattern.as_bytes()).unwrap();
        let args = parse_args(response.as_bytes()).unwrap();
        compare(&pattern, &args, is_prefix, &variables, &Places::new(2)).ok()
    }

    fn check(pattern: &str, response: &str, expected: bool) {
        assert_eq!(matched(pattern, response, false).is_some(), expected, "{pattern} {response}");
    }

    #[test]
    fn texts_are_compared() {
        check("SEARCH 1 2", "search 1 2", true);
        check("search 1", "search 1 2", false);
        check("list () \"/\" ${case:INBOX}", "LIST () \"/\" inbox", false);
        check("x $known", "x Seven", true);
        check("x $known", "x seven", false);
        check("x nil", "x NIL", true);
        check("x nil", "x \"nil\"", false);
        check("x $", "x NIL", true);
        check("x $", "x (a b)", true);
        check("$2 expunge", "2 EXPUNGE", true);
        check("$3 expunge", "3 EXPUNGE", false);
        check("x {3}\r\na b", "x \"a b\"", true);
        check("x {4}\r\na\0bc", "x {3}\r\na\0b", true);
        check("x {2}\r\n\0a", "x a", false);
        let bound = matched("ok [copyuid $a 1:$b,$a]", "OK [COPYUID 7 1:9,7] done", true).unwrap();
        assert_eq!((bound.get("a"), bound.get("b")), (Some(&b"7"[..]), Some(&b"9"[..])));
        assert!(matched("ok [capability $] x", "OK [CAPABILITY A B] x y", true).is_some());
    }

    #[test]
    fn lists_are_compared() {
        check("1 fetch (uid $ flags (\\seen))", "1 FETCH (FLAGS (\\Seen \\Recent) UID 7)", true);
        check("1 fetch (flags (\\seen))", "1 FETCH (FLAGS (\\Seen \\Flagged))", false);
        check("1 fetch (flags ())", "1 FETCH (UID 3)", false);
        check("1 fetch (flags (\\seen a))", "1 FETCH (FLAGS (a \\Seen) UID 7)", true);
        check("1 fetch (body[h (a)] x)", "1 FETCH (UID 1 BODY[H (A)] {1}\r\nx)", true);
        check("1 fetch (x (a b))", "1 FETCH (X (b a))", false);
        check("1 fetch (x ($!unordered b))", "1 FETCH (X (a b))", true);
        check("list ($!unordered $!ban=\\y \\x) / a", "LIST (\\X \\Y) / a", false);
        check("list ($!unordered $!noextra $!ignore=c b) / a", "LIST (C b) / a", true);
    }

    #[test]
    fn what_did_not_fit_leaves_no_variables() {
        let bound = matched("1 fetch (a $x)", "1 FETCH (b 1 a 2)", false).unwrap();
        assert_eq!(bound.get("x"), Some(&b"2"[..]));
    }
}
