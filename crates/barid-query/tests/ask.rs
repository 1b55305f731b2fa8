//! Questions to peers, in IMAP's syntax: `THREAD REFERENCES`, `SORT REVERSE DATE`.

use std::io;

use barid_testkit::peers::{CClient, Imap};

/// Returns the IMAP command for a question.
pub(crate) fn dovecot_command(question: &str) -> String {
    match question.strip_prefix("SORT ") {
        Some(keys) => format!("SORT ({keys}) UTF-8 ALL"),
        None => format!("{question} UTF-8 ALL"),
    }
}

/// Asks a Dovecot about the selected mailbox.
pub(crate) fn dovecot_answer(imap: &mut Imap, question: &str) -> io::Result<String> {
    let reply = imap.command(&dovecot_command(question))?;
    Ok(reply.untagged.iter().find_map(|line| answer(line)).unwrap_or_default())
}

/// Sends all commands at once and returns the answers to the questions among them. Their mailboxes
/// must be so small that the server does not start the next command meanwhile.
pub(crate) fn dovecot_answers(imap: &mut Imap, commands: &[String]) -> io::Result<Vec<String>> {
    // The session supports one command at a time. This one is answered at once, the others before
    // the next one.
    let mut text = "NOOP".to_owned();
    for command in commands {
        text.push_str("\r\nq ");
        text.push_str(command);
    }
    imap.command(&text)?;
    let reply = imap.command("NOOP")?;
    Ok(reply.untagged.iter().filter_map(|line| answer(line)).collect())
}

fn answer(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let answer = text.strip_prefix("THREAD").or(text.strip_prefix("SORT"))?;
    Some(answer.trim().to_owned())
}

/// Asks a c-client about the open mailbox.
pub(crate) fn c_client_answer(peer: &mut CClient, question: &str) -> io::Result<String> {
    let (verb, rest) = question.split_once(' ').unwrap();
    Ok(peer.command(&format!("{} {rest}", verb.to_lowercase()))?.concat())
}
