//! Makes failing scripts small.

use std::io;

use super::generate::CommandScript;

/// Most runs that are spent on a script.
const RUNS_MAX: usize = 120;

/// Returns a script as small as can be that still fails: without commands and messages that do not
/// matter.
pub(super) fn minimised(
    script: &CommandScript,
    mut fails: impl FnMut(&CommandScript) -> io::Result<bool>,
) -> io::Result<CommandScript> {
    let mut small = script.clone();
    let mut runs = 0;
    let mut try_it = |candidate: CommandScript, small: &mut CommandScript| -> io::Result<bool> {
        runs += 1;
        if runs > RUNS_MAX || !fails(&candidate)? {
            return Ok(false);
        }
        *small = candidate;
        Ok(true)
    };
    let mut at = small.commands.len();
    while at > 0 {
        at -= 1;
        let mut candidate = small.clone();
        candidate.commands.remove(at);
        try_it(candidate, &mut small)?;
    }
    for mailbox in 0..small.mailboxes.len() {
        let mut len = small.mailboxes[mailbox].messages.len().div_ceil(2);
        while len > 0 {
            let mut start = 0;
            while start < small.mailboxes[mailbox].messages.len() {
                let mut candidate = small.clone();
                let messages = &mut candidate.mailboxes[mailbox].messages;
                let end = (start + len).min(messages.len());
                messages.drain(start..end);
                if !try_it(candidate, &mut small)? {
                    start += len;
                }
            }
            len /= 2;
        }
    }
    Ok(small)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::{MailboxPlan, MessagePlan};

    #[test]
    fn only_what_matters_is_left() {
        let message = |uid| MessagePlan {
            message: 0,
            uid,
            flags: String::new(),
            keywords: Vec::new(),
            is_new: false,
        };
        let inbox = MailboxPlan {
            name: "INBOX".into(),
            uidvalidity: 1,
            messages: (1..10).map(message).collect(),
        };
        let commands = ["a", "b", "c", "d"].map(|text| text.as_bytes().to_vec()).to_vec();
        let script = CommandScript { seed: 1, is_broken: false, mailboxes: vec![inbox], commands };
        let small = minimised(&script, |script| {
            let has = |text: &[u8]| script.commands.iter().any(|command| command == text);
            let has_uid = script.mailboxes[0].messages.iter().any(|message| message.uid == 7);
            Ok(has(b"b") && has(b"d") && has_uid)
        });
        let small = small.unwrap();
        assert_eq!(small.commands, [b"b", b"d"]);
        let uids: Vec<_> = small.mailboxes[0].messages.iter().map(|message| message.uid).collect();
        assert_eq!(uids, [7]);
    }
}
