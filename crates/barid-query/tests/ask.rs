//! Questions to peers, in IMAP's words: `THREAD REFERENCES`, `SORT REVERSE DATE`.

use std::io;

use barid_testkit::peers::{CClient, Imap};

/// Asks a Dovecot about the selected mailbox.
pub(crate) fn dovecot_answer(imap: &mut Imap, question: &str) -> io::Result<String> {
    let command = match question.strip_prefix("SORT ") {
        Some(keys) => format!("SORT ({keys}) UTF-8 ALL"),
        None => format!("{question} UTF-8 ALL"),
    };
    let reply = imap.command(&command)?;
    let name = question.split(' ').next().unwrap();
    let answer = reply.find(name);
    answer.ok_or_else(|| io::Error::other(format!("{command}: {}", reply.status)))
}

/// Asks a c-client about the open mailbox.
pub(crate) fn c_client_answer(peer: &mut CClient, question: &str) -> io::Result<String> {
    let (verb, rest) = question.split_once(' ').unwrap();
    Ok(peer.command(&format!("{} {rest}", verb.to_lowercase()))?.concat())
}
