//! Address fields that somebody has typed: nothing of them may be left out unnoticed.

use super::parts::{Correspondent, people};
use crate::exit::WithHint;

/// Reads a list of addresses.
///
/// # Errors
///
/// Returns an error for everything that is no address, and for what divides addresses but commas.
pub(super) fn typed_people(text: &str) -> anyhow::Result<Vec<Correspondent>> {
    let mut people = Vec::new();
    for item in items(text)? {
        people.push(person(&item).ok_or_else(|| no_address(&item))?);
    }
    Ok(people)
}

pub(super) fn no_address(text: &str) -> anyhow::Error {
    WithHint::error(
        format!("{text:?} is not an address"),
        "addresses are like ann@mail.example or Ann Lee <ann@mail.example>, with commas between",
    )
}

/// Divides a list at its commas, and the members of a group (RFC 5322 §3.4); comments are gone.
fn items(text: &str) -> anyhow::Result<Vec<String>> {
    let (mut items, mut item) = (Vec::new(), String::new());
    let (mut is_quoted, mut comments, mut is_group) = (false, 0_u32, false);
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' if is_quoted || comments > 0 => {
                let next = chars.next();
                if comments == 0 {
                    item.push(char);
                    item.extend(next);
                }
            }
            '"' if comments == 0 => {
                is_quoted = !is_quoted;
                item.push(char);
            }
            _ if is_quoted => item.push(char),
            '(' => comments += 1,
            ')' => comments = comments.checked_sub(1).ok_or_else(|| no_address(text))?,
            _ if comments > 0 => {}
            ':' if !is_group => {
                is_group = true;
                item.clear();
            }
            ';' if is_group => {
                is_group = false;
                items.push(std::mem::take(&mut item));
            }
            ',' => items.push(std::mem::take(&mut item)),
            char => item.push(char),
        }
    }
    if is_quoted || comments > 0 || is_group {
        return Err(no_address(text));
    }
    items.push(item);
    items.retain(|item| !item.trim().is_empty());
    Ok(items)
}

/// Reads one address, of which nothing is left over.
fn person(item: &str) -> Option<Correspondent> {
    let mut found = people(item.as_bytes()).into_iter().filter(Correspondent::is_whole);
    let (person, None) = (found.next()?, found.next()) else { return None };
    let item = item.trim();
    let address = item.strip_suffix('>').and_then(|rest| rest.rsplit_once('<'));
    (address.map_or(item, |(_, address)| address.trim()) == person.address).then_some(person)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_taken() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<String> =
                typed_people(text).unwrap().into_iter().map(|person| person.address).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("", &[]);
        check(" , ", &[]);
        check("a@b, c@d ,", &["a@b", "c@d"]);
        check("Ann Lee <a@b>, \"Lee, Bob\" <c@d> (home)", &["a@b", "c@d"]);
        check("team: a@b, c@d;, Jörg <e@f>", &["a@b", "c@d", "e@f"]);
    }

    #[test]
    fn what_is_left_over_is_an_error() {
        for text in [
            "a@b; c@d",
            "a@b c@d",
            "a@b, Bob Lee",
            "ann",
            "a@b (home",
            "\"Ann <a@b>",
            "Ann <a@b",
            "Ann <a@b> Bob",
            "a@b, <c@d> e@f",
            "@b",
            "team: a@b",
        ] {
            assert!(typed_people(text).is_err(), "{text}");
        }
    }
}
