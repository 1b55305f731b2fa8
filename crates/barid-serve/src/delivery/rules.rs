//! The rules of the configuration, applied to a header.

use barid::message::{decode_words, field, fields, unfold, visit_addresses};

use crate::config::{HeaderTest, Pattern, Rule, RuleCondition};
use crate::limits::{FIELD_LEN_MAX, FIELDS_MAX};

/// Returns the first rule whose conditions a header meets.
pub(crate) fn first_match<'r>(rules: &'r [Rule], header: &[u8]) -> Option<&'r Rule> {
    rules.iter().find(|rule| rule.conditions.iter().all(|condition| is_met(condition, header)))
}

fn is_met(condition: &RuleCondition, header: &[u8]) -> bool {
    match condition {
        RuleCondition::Header { names, test } => any_field(names, header, &mut |body| {
            let text = || decode_words(&unfold(cut(body))).to_lowercase();
            match test {
                HeaderTest::Exists => true,
                HeaderTest::Contains(words) => {
                    let text = text();
                    words.iter().any(|word| text.contains(word.as_str()))
                }
                HeaderTest::Matches(patterns) => is_any(patterns, text().trim().as_bytes()),
            }
        }),
        RuleCondition::Address { names, patterns } => any_field(names, header, &mut |body| {
            let mut is_found = false;
            visit_addresses(cut(body), |address| {
                if let (Some(local), Some(host)) = (address.mailbox, address.host) {
                    is_found |= is_any(patterns, &[local, b"@", host].concat());
                }
            });
            is_found
        }),
        RuleCondition::ListId(patterns) => field(header, b"List-Id").is_some_and(|field| {
            // RFC 2919: the identifier is in the last pair of angle brackets.
            let body = cut(field.body);
            let start = body.iter().rposition(|byte| *byte == b'<').map_or(0, |at| at + 1);
            let rest = &body[start..];
            let end = rest.iter().position(|byte| *byte == b'>').unwrap_or(rest.len());
            is_any(patterns, rest[..end].trim_ascii())
        }),
    }
}

/// Returns `true` if one of the fields of these names passes a test.
fn any_field(names: &[String], header: &[u8], test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    let is_named =
        |name: &[u8]| names.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name));
    let mut found = fields(header).take(FIELDS_MAX);
    found.any(|field| is_named(field.name) && test(field.body))
}

fn is_any(patterns: &[Pattern], text: &[u8]) -> bool {
    patterns.iter().any(|pattern| pattern.matches(text))
}

fn cut(body: &[u8]) -> &[u8] {
    &body[..body.len().min(FIELD_LEN_MAX)]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::ServerConfig;

    fn check(rule: &str, header: &str, expected: bool) {
        let text = format!("[[delivery.rule]]\n{rule}\nmailbox = \"x\"\n");
        let config = ServerConfig::parse(Path::new("t"), &text).unwrap();
        let found = first_match(&config.delivery.rules, header.as_bytes());
        assert_eq!(found.is_some(), expected, "{rule} {header}");
    }

    #[test]
    fn rules_look_at_headers() {
        check("header = \"Subject\"\ncontains = \"[Build]\"", "subject: a [BUILD] b\n\n", true);
        check("header = \"Subject\"\ncontains = \"[build]\"", "X: [build]\n\n", false);
        check(
            "header = \"Subject\"\ncontains = \"gr\u{fc}n\"",
            "Subject: =?utf-8?q?GR=C3=9CN?=\n\n",
            true,
        );
        check("header = \"X-A\"\nmatches = \"yes*\"", "X-A: Yes, 5\n\n", true);
        check("header = \"X-A\"\nmatches = \"yes\"", "X-A: yes, 5\n\n", false);
        check("header = \"X-A\"", "X-A: anything\n\n", true);
        check("address = \"*@bank.example\"", "From: \"B\" <a@Bank.example>\n\n", true);
        check("address = \"*@bank.example\"", "From: \"a@bank.example\" <x@evil>\n\n", false);
        check("header = \"To\"\naddress = \"a@b\"", "From: a@b\nTo: c@d\n\n", false);
        check("list_id = \"l.example\"", "List-Id: Name <x> <L.example>\n\n", true);
        check("list_id = \"l.example\"", "List-Id: l.example\n\n", true);
        check("list_id = \"l.example\"", "List-Id: <m.example>\n\n", false);
        let both = "header = \"Subject\"\ncontains = \"a\"\nlist_id = \"l\"";
        check(both, "Subject: a\nList-Id: <l>\n\n", true);
        check(both, "Subject: a\n\n", false);
        check("header = \"B\"", "A: 1\n\nB: body\n", false);
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        let text = "[[delivery.rule]]\nheader = \"A\"\nmailbox = \"one\"\n\
                    [[delivery.rule]]\nheader = \"B\"\nmailbox = \"two\"\n";
        let config = ServerConfig::parse(Path::new("t"), text).unwrap();
        let found = |header: &[u8]| {
            first_match(&config.delivery.rules, header).and_then(|rule| rule.mailbox.clone())
        };
        assert_eq!(found(b"B: 1\nA: 1\n\n").as_deref(), Some("one"));
        assert_eq!(found(b"B: 1\n\n").as_deref(), Some("two"));
        assert_eq!(found(b"C: 1\n\n"), None);
    }
}
