//! Differences between two servers.

use std::collections::BTreeSet;
use std::fmt;

use super::side::SideRun;
use crate::wire::shown;

/// Most bytes of a value around the place where it differs.
const AROUND_LEN: usize = 120;

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Index of the command; those that show the mailboxes at the end follow the script's.
    pub number: usize,
    /// The command.
    pub command: String,
    /// Name of the value: `CONDITION`, `FETCH m3 ENVELOPE`, `CODE UIDNEXT` and so on.
    pub name: String,
    /// Value of the first server; `None` if it has none.
    pub first: Option<Vec<u8>>,
    /// Value of the second server.
    pub second: Option<Vec<u8>>,
    /// `true` if the messages are malformed ones.
    pub is_broken: bool,
    /// `true` if the mailbox was opened by EXAMINE.
    pub is_read_only: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, command, name, first, second, .. } = self;
        writeln!(f, "command {}: {command}\n  {name}", number + 1)?;
        let equal = match (first, second) {
            (Some(first), Some(second)) => {
                first.iter().zip(second).take_while(|(a, b)| a == b).count()
            }
            _ => 0,
        };
        for value in [first, second] {
            match value {
                None => writeln!(f, "    none")?,
                Some(value) => {
                    let start = equal.saturating_sub(AROUND_LEN / 2);
                    let end = (start + AROUND_LEN).min(value.len());
                    let dots = if start > 0 { "..." } else { "" };
                    let part = shown(value.get(start..end).unwrap_or_default());
                    writeln!(f, "    {dots}{part} ({} bytes)", value.len())?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the differences of all commands, up to one that only one server has done, and the number
/// of values that were compared.
pub(super) fn differences(
    first: &SideRun,
    second: &SideRun,
    is_broken: bool,
) -> (Vec<Difference>, u64) {
    let mut compared = 0;
    let mut found = Vec::new();
    let len = first.replies.len().max(second.replies.len());
    let mut is_read_only = false;
    for number in 0..len {
        let sides = [first, second].map(|side| side.replies.get(number));
        let command = sides.iter().find_map(|side| side.map(|(command, _)| shown(command)));
        let command = command.unwrap_or_default();
        let verb = command.split(' ').next().unwrap_or_default().to_ascii_uppercase();
        match verb.as_str() {
            "EXAMINE" => is_read_only = true,
            "SELECT" => is_read_only = false,
            _ => {}
        }
        let difference = |name: &str, first: Option<Vec<u8>>, second: Option<Vec<u8>>| Difference {
            number,
            command: command.clone(),
            name: name.to_owned(),
            first,
            second,
            is_broken,
            is_read_only,
        };
        let [Some((_, first)), Some((_, second))] = sides else {
            let known =
                sides.map(|side| side.map(|(_, reply)| reply.condition.clone().into_bytes()));
            let [first, second] = known;
            found.push(difference("CONDITION", first, second));
            break;
        };
        compared += 1;
        if first.condition != second.condition {
            let conditions =
                [first, second].map(|reply| Some(reply.condition.clone().into_bytes()));
            let [first, second] = conditions;
            found.push(difference("CONDITION", first, second));
            // One server has done it and the other has not, so that all that follows differs. What
            // is refused in a read-only mailbox changes nothing, except that MOVE may copy.
            if !is_read_only || command.contains("MOVE ") {
                break;
            }
            continue;
        }
        let names: BTreeSet<&String> = first.values.keys().chain(second.values.keys()).collect();
        for name in names {
            compared += 1;
            let values = (first.values.get(name).cloned(), second.values.get(name).cloned());
            if values.0 != values.1 {
                found.push(difference(name, values.0, values.1));
            }
        }
        // Which messages have changed since is a matter of each server's mod-sequences.
        if first.values.get("CODE MODIFIED") != second.values.get("CODE MODIFIED") {
            break;
        }
    }
    (found, compared)
}

#[cfg(test)]
mod tests {
    use super::super::normal::NormalReply;
    use super::*;

    fn side(replies: &[(&str, &[(&str, &str)])]) -> SideRun {
        let reply = |(condition, values): &(&str, &[(&str, &str)])| {
            let mut reply =
                NormalReply { condition: (*condition).into(), ..NormalReply::default() };
            values.iter().for_each(|(name, value)| reply.set(name, value.as_bytes()));
            (b"NOOP".to_vec(), reply)
        };
        SideRun { replies: replies.iter().map(reply).collect(), ..SideRun::default() }
    }

    #[test]
    fn values_conditions_and_lengths_are_compared() {
        let a = side(&[("OK", &[("A", "1"), ("B", "2")]), ("NO", &[])]);
        let b = side(&[("OK", &[("A", "1"), ("C", "2")])]);
        assert_eq!(differences(&a, &a, false), (Vec::new(), 4));
        let (found, _) = differences(&a, &b, false);
        let names: Vec<_> = found.iter().map(|found| (found.number, found.name.as_str())).collect();
        assert_eq!(names, [(0, "B"), (0, "C"), (1, "CONDITION")]);
        assert!(found[0].to_string().contains("none"), "{}", found[0]);
        let refused = side(&[("NO", &[("A", "1"), ("C", "2")]), ("OK", &[])]);
        let (found, values) = differences(&a, &refused, false);
        assert_eq!((found.len(), found[0].name.as_str(), values), (1, "CONDITION", 1));
    }
}
