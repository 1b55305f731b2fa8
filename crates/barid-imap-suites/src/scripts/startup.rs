//! The state in which the commands of a script begin.

use std::io;

use super::logical::Segment;
use super::messages::{MessageSource, ScriptMessage};
use super::parse::{ScriptHeader, StartState};
use super::session::{ScriptSession, quoted};
use crate::server::{Server, Transport, open};
use crate::wire::{Arg, Connection, parse_args};

/// Name of the mailbox of all scripts; others begin with it.
pub(super) const MAILBOX: &str = "imaptest";

/// Sessions in the state that a script asks for, or the reason why it is skipped.
pub(super) enum Started {
    Sessions(Vec<ScriptSession>),
    Skip(String),
}

/// Opens the connections of a script and brings the mailboxes of the user into its state.
pub(super) fn start(
    server: &dyn Server,
    header: &ScriptHeader,
    transport: Transport,
    user: u32,
    source: &mut MessageSource,
) -> io::Result<Started> {
    let mut sessions = Vec::new();
    for number in 0..header.connections {
        let user = user + u32::from(header.of_second_user.contains(&number));
        let connection = match header.state {
            StartState::NonAuth if transport == Transport::Stdio => {
                return Ok(Started::Skip("it begins before login".to_owned()));
            }
            StartState::NonAuth => Connection::connect(server.address())?,
            _ => open(server, user, transport)?,
        };
        let mut session = ScriptSession::new(connection);
        session.learn_capabilities()?;
        sessions.push(session);
    }
    let is_missing = |capability: &&String| !sessions[0].has(capability);
    let missing: Vec<&str> =
        header.capabilities.iter().filter(is_missing).map(String::as_str).collect();
    if !missing.is_empty() {
        return Ok(Started::Skip(format!("no {}", missing.join(", "))));
    }
    if header.state >= StartState::Auth {
        delete_all(&mut sessions[0])?;
    }
    if header.state >= StartState::Created {
        sessions[0].run(&[text(&format!("CREATE {MAILBOX}"))], false)?;
    }
    if header.state >= StartState::Appended {
        let all = u32::try_from(source.len()).unwrap_or(u32::MAX);
        for _ in 0..header.messages.unwrap_or(all) {
            let Some(message) = source.next() else { break };
            sessions[0].run(&append(MAILBOX.as_bytes(), &message), false)?;
        }
    }
    if header.state >= StartState::Selected {
        for session in &mut sessions {
            session.run(&[text(&format!("SELECT {MAILBOX}"))], false)?;
        }
    }
    Ok(Started::Sessions(sessions))
}

/// Returns the command that appends a message with its date.
pub(super) fn append(mailbox: &[u8], message: &ScriptMessage) -> Vec<Segment> {
    let date = format!(" \"{}\" ", message.date);
    let head = [b"APPEND ", quoted(mailbox).as_slice(), date.as_bytes()].concat();
    vec![Segment::Text(head), Segment::Literal(message.text.clone(), false)]
}

fn text(text: &str) -> Segment {
    Segment::Text(text.as_bytes().to_vec())
}

/// Deletes the mailboxes of the scripts and their subscriptions.
fn delete_all(session: &mut ScriptSession) -> io::Result<()> {
    for (list, remove) in [("LIST", "DELETE"), ("LSUB", "UNSUBSCRIBE")] {
        let lines = session.run(&[text(&format!("{list} \"\" \"{MAILBOX}*\""))], false)?;
        let mut names: Vec<Vec<u8>> = lines.iter().filter_map(|line| listed(line, list)).collect();
        // Children before their parents.
        names.sort_by(|a, b| b.cmp(a));
        for name in names {
            let command = [remove.as_bytes(), b" ", quoted(&name).as_slice()].concat();
            // A parent that exists by name only cannot be deleted.
            session.run(&[Segment::Text(command)], true)?;
        }
    }
    Ok(())
}

/// Returns the name in a response of LIST or LSUB.
pub(super) fn listed(line: &[u8], list: &str) -> Option<Vec<u8>> {
    let args = parse_args(line).ok()?;
    let is_list = args.first()?.is_atom(list) && matches!(args.get(1)?, Arg::List(_));
    is_list.then(|| args.get(3)?.bytes().map(<[u8]>::to_vec)).flatten()
}
