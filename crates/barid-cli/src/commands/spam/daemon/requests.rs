//! The requests of programs to the daemon (`docs/formats/spam-daemon.md`).

use std::io::{self, BufReader, ErrorKind};

use barid_spam::wordlist::Class;
use barid_spam::wordlist::limits::TOKEN_LEN_MAX;
use barid_spam::wordlist::remote::Frame;
use barid_spam::{Became, TrainingKind};

use super::super::name_of;
use super::serve::Busy;
use super::{Daemon, line_of};
use crate::limits::DAEMON_TOKENS_MAX;
use crate::output::number::counted;
use barid_serve::socket::Stream;

/// Answers requests until the connection ends.
///
/// # Errors
/// Errors of the connection, timeouts included; `InvalidData` for a malformed request.
pub(super) fn serve(daemon: &Daemon<'_>, stream: Stream, busy: &Busy) -> io::Result<()> {
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        busy.set(false);
        if std::io::BufRead::fill_buf(&mut reader)?.is_empty() {
            return Ok(());
        }
        busy.set(true);
        let counts = busy.talking(|| Frame::read(&mut reader, daemon.rules.message_len_max));
        match counts {
            Ok(None) => return Ok(()),
            Ok(Some(request)) => {
                let answer = answer(daemon, &request);
                busy.talking(|| answer.write(&mut writer))?;
            }
            Err(error) => {
                if error.kind() == ErrorKind::InvalidData {
                    // The start of the next request cannot be found, so the connection ends.
                    failed(&error.to_string()).write(&mut writer)?;
                }
                return Err(error);
            }
        }
    }
}

fn failed(text: &str) -> Frame {
    Frame::new("error").with("message", text)
}

fn answer(daemon: &Daemon<'_>, request: &Frame) -> Frame {
    let class = match request.field("class") {
        None => None,
        Some(b"spam") => Some(Class::Spam),
        Some(b"ham") => Some(Class::Ham),
        Some(_) => return failed("class must be spam or ham"),
    };
    let kind = match (request.verb.as_str(), class) {
        ("ping", _) => return Frame::new("ok").with("version", env!("CARGO_PKG_VERSION")),
        ("classify", _) => return classify(daemon, request),
        ("counts", _) => return counts(daemon, request),
        ("train", Some(class)) => TrainingKind::Train(class),
        ("retrain", Some(class)) => TrainingKind::Retrain(class),
        ("untrain", class) => TrainingKind::Untrain(class),
        ("train" | "retrain", None) => return failed("class is missing: spam or ham"),
        _ => return failed("unknown request"),
    };
    let in_turn = |work: &mut dyn FnMut()| daemon.turns.with(work);
    let kind = (kind, request.field("registered") == Some(b"yes"));
    let trained = daemon.shared_filter.train(&request.body, kind, &in_turn);
    daemon.warn_of_damage();
    match trained {
        Err(error) => failed(&error.to_string()),
        Ok((became, generation)) => {
            let name = match became {
                Became::Trained(_) => "trained",
                Became::Untrained(_) => "untrained",
                Became::Moved(_) => "moved",
                Became::Already(_) => "already",
                Became::Otherwise(_) => "otherwise",
                Became::Never => "never",
                Became::Unreceipted => "unreceipted",
                _ => return failed("it was trained with words that cannot be computed again"),
            };
            let answer = Frame::new("ok").with("became", name);
            let class = became.class().map(|class| match class {
                Class::Spam => "spam",
                Class::Ham => "ham",
            });
            let answer = match class {
                Some(class) => answer.with("class", class),
                None => answer,
            };
            answer.with("generation", generation.to_string())
        }
    }
}

/// Answers with the counts of tokens, eight bytes each. In the request, each token ends with a zero
/// byte.
fn counts(daemon: &Daemon<'_>, request: &Frame) -> Frame {
    let Some(body) = request.body.strip_suffix(b"\0") else {
        return failed("a token does not end with a zero byte");
    };
    let tokens = body.split(|byte| *byte == 0).take(DAEMON_TOKENS_MAX + 1);
    let tokens: Vec<&[u8]> = tokens.collect();
    let is_token = |token: &&[u8]| (1..=TOKEN_LEN_MAX).contains(&token.len());
    if tokens.len() > DAEMON_TOKENS_MAX || !tokens.iter().all(is_token) {
        return failed("too many tokens, or one that is too long for a list");
    }
    daemon.log.detail(&format!("the counts of {}", counted(tokens.len() as u64, "word")));
    let counts = daemon.shared_filter.counts(&tokens);
    daemon.warn_of_damage();
    match counts {
        Err(error) => failed(&error.to_string()),
        Ok((counts, generation)) => {
            let mut answer = Frame::new("ok").with("generation", generation.to_string());
            for found in counts {
                answer.body.extend_from_slice(&found.spam.to_le_bytes());
                answer.body.extend_from_slice(&found.ham.to_le_bytes());
            }
            answer
        }
    }
}

fn classify(daemon: &Daemon<'_>, request: &Frame) -> Frame {
    let explains = request.field("explain") == Some(b"yes");
    match daemon.classify(&request.body, explains) {
        Err(error) => failed(&error.to_string()),
        Ok(found) => {
            let used = found.used.unwrap_or_default();
            let mut answer = Frame::new("ok")
                .with("status", name_of(found.status))
                .with("spamicity", found.spamicity.to_string())
                .with("used", used.to_string())
                .with("generation", found.generation.to_string())
                .with("x-bogosity", line_of(&found));
            for token in found.explained.iter().flat_map(|explained| &explained.tokens) {
                let (spam, ham) = (token.counts.spam, token.counts.ham);
                let text = format!("{:.6} {spam} {ham} ", token.probability);
                answer.body.extend_from_slice(text.as_bytes());
                answer.body.extend_from_slice(&token.token);
                answer.body.push(b'\n');
            }
            answer
        }
    }
}
