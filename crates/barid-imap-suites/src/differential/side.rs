//! A script on one server.

use std::io;

use super::generate::{CommandScript, MODSEQ};
use super::normal::{NormalReply, Normaliser};
use super::run::DifferentialOptions;
use crate::mail::{MailPool, write_mailboxes};
use crate::server::{Server, open};
use crate::wire::{Arg, Connection, Fetched, Reply, parse_args};

/// A script that was run on a server.
#[derive(Clone, Debug, Default)]
pub(super) struct SideRun {
    /// The answers to the commands, then those that show the mailboxes afterwards.
    pub(super) replies: Vec<(Vec<u8>, NormalReply)>,
    /// The session of the script.
    pub(super) transcript: String,
}

/// Runs a script with fresh mailboxes.
pub(super) fn run_side(
    server: &dyn Server,
    script: &CommandScript,
    pool: &MailPool,
    options: &DifferentialOptions<'_>,
    user: u32,
) -> io::Result<SideRun> {
    let messages = script.messages(pool);
    let format = server.format();
    server.prepare(user, &|dir| write_mailboxes(format, dir, &script.mailboxes, messages))?;
    let mut connection = open(server, user, options.transport)?;
    let mut run = SideRun::default();
    let mut normaliser = Normaliser::new(options.compares_recent);
    let mut modseq = "1".to_owned();
    for command in &script.commands {
        let filled = filled(command, &modseq);
        match connection.command_bytes(&filled) {
            Ok(reply) => {
                if let Some(last) = last_modseq(&reply) {
                    modseq = last;
                }
                run.replies.push((command.clone(), normaliser.reply(command, &reply)));
            }
            Err(error) => {
                run.replies.push((command.clone(), NormalReply::closed(&error)));
                run.transcript = connection.transcript().text() + &server.log();
                return Ok(run);
            }
        }
    }
    run.transcript = connection.transcript().text();
    drop(connection.logout());
    let mut connection = open(server, user, options.transport)?;
    show_all(&mut connection, &mut run, options)?;
    drop(connection.logout());
    Ok(run)
}

fn filled(command: &[u8], modseq: &str) -> Vec<u8> {
    let Some(at) = memchr::memmem::find(command, MODSEQ.as_bytes()) else {
        return command.to_vec();
    };
    let rest = filled(&command[at + MODSEQ.len()..], modseq);
    [&command[..at], modseq.as_bytes(), &rest].concat()
}

/// Returns the highest mod-sequence that an answer names.
fn last_modseq(reply: &Reply) -> Option<String> {
    let highest = reply.value_of("HIGHESTMODSEQ").and_then(|value| value.parse::<u64>().ok());
    let of_fetch = reply.untagged.iter().filter_map(|line| Fetched::of(line)?.number("MODSEQ"));
    highest.into_iter().chain(of_fetch).max().map(|modseq| modseq.to_string())
}

/// Asks for everything that the script may have changed.
fn show_all(
    connection: &mut Connection,
    run: &mut SideRun,
    options: &DifferentialOptions<'_>,
) -> io::Result<()> {
    let mut normaliser = Normaliser::new(options.compares_recent);
    let mut ask = |connection: &mut Connection, command: &str| -> io::Result<Reply> {
        let reply = connection.command(command)?;
        let normal = normaliser.reply(command.as_bytes(), &reply);
        run.replies.push((format!("(at the end) {command}").into_bytes(), normal));
        Ok(reply)
    };
    let listed = ask(connection, "LIST \"\" *")?;
    ask(connection, "LSUB \"\" *")?;
    let mut names: Vec<String> = listed.untagged.iter().filter_map(|line| name_of(line)).collect();
    names.sort();
    for name in names {
        ask(connection, &format!("EXAMINE \"{name}\""))?;
        ask(connection, "FETCH 1:* (UID FLAGS INTERNALDATE RFC822.SIZE)")?;
    }
    Ok(())
}

/// Returns the name of a mailbox that can be selected.
fn name_of(line: &[u8]) -> Option<String> {
    let args = parse_args(line).ok()?;
    let attributes = args.get(1).filter(|_| args[0].is_atom("LIST"))?.list()?;
    let cannot = ["\\Noselect", "\\NonExistent"];
    if attributes.iter().any(|attribute| cannot.iter().any(|word| attribute.is_atom(word))) {
        return None;
    }
    args.get(3).and_then(Arg::bytes).map(|name| String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mod_sequences_are_filled_in() {
        assert_eq!(filled(b"a @MODSEQ@ b @MODSEQ@", "7"), b"a 7 b 7");
        let line = |text: &str| text.as_bytes().to_vec();
        let untagged = vec![line("OK [HIGHESTMODSEQ 5] x"), line("1 FETCH (UID 1 MODSEQ (9))")];
        let reply = Reply { untagged, status: line("OK") };
        assert_eq!(last_modseq(&reply).as_deref(), Some("9"));
    }

    #[test]
    fn only_mailboxes_that_can_be_selected_are_opened() {
        assert_eq!(name_of(b"LIST (\\HasChildren) \"/\" \"a b\"").as_deref(), Some("a b"));
        assert_eq!(name_of(b"LIST (\\noselect) \"/\" a"), None);
        assert_eq!(name_of(b"LSUB () \"/\" a"), None);
    }
}
