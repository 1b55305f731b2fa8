//! The mailboxes as they are after a restart.

use std::collections::BTreeMap;
use std::io;

use super::ledger::{Instance, Instances, MAILBOXES, flag_set};
use super::operation::text_of;
use crate::server::{Server, Transport, open};
use crate::wire::{Arg, Fetched, Reply};

/// All that was ever seen of a mailbox.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    uidvalidity: Option<u64>,
    uidnext: u32,
    /// Keys by UID.
    keys: BTreeMap<u32, String>,
}

impl History {
    /// Takes a message that was seen or acknowledged.
    ///
    /// # Errors
    /// If another message had its UID.
    pub(super) fn see(&mut self, uid: u32, key: &str) -> Result<(), String> {
        let known = self.keys.entry(uid).or_insert_with(|| key.to_owned());
        if known == key { Ok(()) } else { Err(format!("UID {uid} is {key}, and was {known}")) }
    }

    /// Takes the numbers of SELECT.
    fn select(&mut self, reply: &Reply) -> Result<(), String> {
        let number = |name| reply.value_of(name).and_then(|value| value.parse::<u64>().ok());
        let uidvalidity = number("UIDVALIDITY").ok_or("no UIDVALIDITY")?;
        let known = *self.uidvalidity.get_or_insert(uidvalidity);
        if known != uidvalidity {
            return Err(format!("UIDVALIDITY is {uidvalidity}, and was {known}"));
        }
        let uidnext = number("UIDNEXT").ok_or("no UIDNEXT")?;
        let uidnext = u32::try_from(uidnext).map_err(|_| "UIDNEXT is too large")?;
        let last = self.keys.last_key_value().map_or(0, |(uid, _)| *uid);
        if uidnext < self.uidnext || uidnext <= last {
            let before = self.uidnext;
            return Err(format!("UIDNEXT is {uidnext}, and was {before}; the last UID was {last}"));
        }
        self.uidnext = uidnext;
        Ok(())
    }
}

/// Reads both mailboxes with a new session, and compares texts and numbers with the history.
///
/// # Errors
/// Errors of the connection; a broken promise is `Ok(Err)`.
pub(super) fn read_all(
    server: &dyn Server,
    user: u32,
    history: &mut [History; 2],
) -> io::Result<Result<[Instances; 2], String>> {
    let mut connection = open(server, user, Transport::Tcp)?;
    let mut found = [Instances::new(), Instances::new()];
    for (at, history) in history.iter_mut().enumerate() {
        let selected = connection.ok(&format!("EXAMINE {}", MAILBOXES[at]))?;
        let exists = selected.number("EXISTS").unwrap_or(0);
        let mut read = history.select(&selected);
        if exists > 0 {
            let fetched = connection.ok("UID FETCH 1:* (FLAGS BODY.PEEK[])")?;
            for fetched in fetched.untagged.iter().filter_map(|line| Fetched::of(line)) {
                let taken = take(&fetched).and_then(|(uid, instance)| {
                    history.see(uid, &instance.key)?;
                    found[at].insert(uid, instance);
                    Ok(())
                });
                read = read.and(taken);
            }
        }
        if let Err(error) = read {
            return Ok(Err(format!("{}: {error}", MAILBOXES[at])));
        }
    }
    connection.logout()?;
    Ok(Ok(found))
}

/// Returns a message, whose text must be that of its key.
fn take(fetched: &Fetched) -> Result<(u32, Instance), String> {
    let uid = fetched.number("UID").and_then(|uid| u32::try_from(uid).ok()).ok_or("no UID")?;
    let body = fetched.get("BODY[]").and_then(Arg::bytes).unwrap_or_default();
    let text = String::from_utf8_lossy(body);
    let key = text.lines().find_map(|line| line.strip_prefix("Subject: ")).unwrap_or_default();
    if text != text_of(key) {
        let shown = crate::wire::shown(body);
        return Err(format!("UID {uid} ({key}) has another text: {shown}"));
    }
    let flags = fetched.flags().unwrap_or_default();
    let flags = flag_set(flags.iter().map(String::as_str));
    Ok((uid, Instance { key: key.to_owned(), flags }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_not_used_twice() {
        let mut history = History::default();
        let select = |uidvalidity: u32, uidnext: u32| {
            let lines =
                [format!("OK [UIDVALIDITY {uidvalidity}] x"), format!("OK [UIDNEXT {uidnext}] x")];
            let untagged = lines.map(String::into_bytes).to_vec();
            Reply { untagged, status: b"OK".to_vec() }
        };
        history.select(&select(7, 1)).unwrap();
        history.see(1, "a").unwrap();
        history.see(1, "a").unwrap();
        assert!(history.see(1, "b").unwrap_err().contains("UID 1 is b, and was a"));
        assert!(history.select(&select(7, 1)).unwrap_err().contains("the last UID was 1"));
        assert!(history.select(&select(8, 2)).unwrap_err().contains("UIDVALIDITY is 8"));
        history.select(&select(7, 9)).unwrap();
        assert!(history.select(&select(7, 8)).unwrap_err().contains("UIDNEXT is 8, and was 9"));
    }
}
