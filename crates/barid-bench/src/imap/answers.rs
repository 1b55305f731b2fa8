//! The answers of the servers, compared before anything is timed.

use anyhow::{Context as _, Result, bail, ensure};
use xxhash_rust::xxh3::xxh3_64;

use super::material::USER;
use super::step::{Step, Work};
use super::work::{Bench, MISSING_WORD};
use crate::limits::ENVELOPES_ALIKE_MIN;
use crate::systems::answer::{Answer, body, content_hash, numbers, summary, threads};

/// Flags of a session rather than of a message.
const RECENT: &str = "\\Recent";

/// Compares an answer with that of the first server. Returns a note if they differ in what
/// `docs/deviations.md` describes.
pub(crate) fn compare(found: &Answer, expected: &Answer) -> Result<Option<String>> {
    let Answer::Summaries(ours) = found else { return found.compare(expected).map(|()| None) };
    let Answer::Summaries(theirs) = expected else { bail!("an answer to something else") };
    ensure!(ours.len() == theirs.len(), "{} messages, not {}", ours.len(), theirs.len());
    let pairs = ours.iter().zip(theirs);
    ensure!(pairs.clone().all(|(one, two)| one.0 == two.0), "sizes differ");
    let others = pairs.filter(|(one, two)| one != two).count();
    ensure!(others <= ours.len() / ENVELOPES_ALIKE_MIN, "{others} of {} envelopes", ours.len());
    let note =
        || format!("note: {others} of {} envelopes differ: fields that occur twice", ours.len());
    Ok((others > 0).then(note))
}

/// Returns the answer of a server to the work of a step, in a comparable form; `None` for work
/// that checks itself.
pub(crate) fn answer(bench: &mut Bench<'_>, step: Step) -> Result<Option<Answer>> {
    let Step { work, format } = step;
    let count = bench.material.count(work.load());
    let server = bench.server(format)?;
    let mut client = server.session(USER)?;
    let exists = client.number("SELECT INBOX", "EXISTS")?;
    let mut all = |command: &str, one: &dyn Fn(&[u8]) -> Option<u64>| {
        let mut found = Vec::new();
        client.visit(command, &mut |response| {
            if is_fetch(response) {
                found.push(one(response).with_context(|| unexpected(response))?);
            }
            Ok(())
        })?;
        Ok::<_, anyhow::Error>(Answer::Contents(found))
    };
    Ok(Some(match work {
        Work::Login | Work::SelectFirst | Work::SelectAgain | Work::Stdio => Answer::Count(exists),
        Work::Flags => all("FETCH 1:* (FLAGS)", &flags)?,
        Work::Bodies => {
            all("FETCH 1:* (BODY.PEEK[])", &|response| body(response).map(content_hash))?
        }
        Work::Envelope => {
            let mut found = Vec::new();
            client.visit("FETCH 1:* (RFC822.SIZE ENVELOPE)", &mut |response| {
                if is_fetch(response) {
                    found.push(summary(response).with_context(|| unexpected(response))?);
                }
                Ok(())
            })?;
            Answer::Summaries(found)
        }
        Work::SearchAll => numbers(&found(&mut client, "UID SEARCH ALL", "SEARCH")?)?,
        Work::SearchText => {
            // A word that every message's header has, too.
            let command = format!("SEARCH OR TEXT {MISSING_WORD} TEXT mailman");
            numbers(&found(&mut client, &command, "SEARCH")?)?
        }
        Work::Thread => {
            let text = found(&mut client, "THREAD REFERENCES UTF-8 ALL", "THREAD")?;
            threads(&text, count as usize)?
        }
        Work::IdleUsers
        | Work::IdleOne
        | Work::Push
        | Work::Append
        | Work::AppendMany
        | Work::Move => return Ok(None),
    }))
}

fn is_fetch(response: &[u8]) -> bool {
    response.splitn(3, |byte| *byte == b' ').nth(1) == Some(b"FETCH")
}

fn unexpected(response: &[u8]) -> String {
    format!("unexpected: {}", String::from_utf8_lossy(&response[..response.len().min(200)]))
}

/// Returns the rest of the response with a name.
fn found(client: &mut super::client::Client, command: &str, name: &str) -> Result<String> {
    let mut found = None;
    client.visit(command, &mut |response| {
        if let Some(rest) = response.strip_prefix(name.as_bytes()) {
            found = Some(String::from_utf8_lossy(rest).into_owned());
        }
        Ok(())
    })?;
    found.with_context(|| format!("no {name} in the answer to {command}"))
}

/// Returns a hash of the number and the flags in a FETCH response.
fn flags(response: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(response).ok()?;
    let (number, rest) = text.split_once(' ')?;
    let list = rest.split_once("FLAGS (")?.1.split(')').next()?;
    let mut flags: Vec<&str> = list.split(' ').filter(|flag| *flag != RECENT).collect();
    flags.sort_unstable();
    Some(xxh3_64(format!("{number} {}", flags.join(" ").trim()).as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_envelopes_may_differ() {
        let answer = |other: u64| {
            let one = |number: u64| (number, Some(if number < other { 7 } else { number }));
            Answer::Summaries((0..400).map(one).collect())
        };
        assert_eq!(compare(&answer(0), &answer(0)).unwrap(), None);
        let note = compare(&answer(2), &answer(0)).unwrap().unwrap();
        assert!(note.contains("2 of 400 envelopes"), "{note}");
        assert!(compare(&answer(9), &answer(0)).is_err());
        assert!(compare(&Answer::Count(1), &Answer::Count(2)).is_err());
    }

    #[test]
    fn the_order_of_flags_does_not_count() {
        let one = flags(b"7 FETCH (FLAGS (\\Seen \\Recent \\Answered))");
        assert_eq!(one, flags(b"7 FETCH (FLAGS (\\Answered \\Seen))"));
        assert_ne!(one, flags(b"8 FETCH (FLAGS (\\Answered \\Seen))"));
        assert_eq!(flags(b"7 FETCH (UID 1)"), None);
        assert!(is_fetch(b"7 FETCH (UID 1)") && !is_fetch(b"7 EXISTS"));
    }
}
