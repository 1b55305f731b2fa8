//! Maildirs with the UIDs and keywords that Dovecot keeps beside the messages.

use std::io;
use std::path::Path;

use barid_testkit::disk;

use super::plan::MailboxPlan;
use super::pool::PoolMessage;

/// Writes a mailbox whose `cur` and `new` exist.
pub(super) fn write(path: &Path, plan: &MailboxPlan, pool: &[PoolMessage]) -> io::Result<()> {
    let mut keywords: Vec<&String> = Vec::new();
    let mut names = Vec::new();
    for message in &plan.messages {
        let source = &pool[message.message];
        let name = format!("{}.M{:06}P1.host", source.date, message.uid);
        let mut letters = message.flags.clone();
        for keyword in &message.keywords {
            let known = keywords.iter().position(|known| *known == keyword);
            let slot = known.unwrap_or_else(|| {
                keywords.push(keyword);
                keywords.len() - 1
            });
            letters.push(slot_letter(slot));
        }
        let file = if message.is_new {
            path.join("new").join(&name)
        } else {
            path.join("cur").join(format!("{name}:2,{}", letters_of(&letters)))
        };
        disk::hard_link(&source.path, &file)?;
        names.push((message.uid, name));
    }
    let list = dovecot_uidlist(plan.uidvalidity, plan.uidnext(), &names);
    disk::write(&path.join("dovecot-uidlist"), list.as_bytes())?;
    let mut text = String::new();
    for (slot, keyword) in keywords.iter().enumerate() {
        text.push_str(&format!("{slot} {keyword}\n"));
    }
    disk::write(&path.join("dovecot-keywords"), text.as_bytes())
}

/// Returns the letter of a keyword.
fn slot_letter(slot: usize) -> char {
    char::from(b'a' + u8::try_from(slot).unwrap_or(25).min(25))
}

/// Returns the letters of a file name, each once and in their order.
pub fn letters_of(letters: &str) -> String {
    let mut letters: Vec<char> = letters.chars().collect();
    letters.sort_unstable();
    letters.dedup();
    letters.into_iter().collect()
}

/// Returns the text of a `dovecot-uidlist`, version 3.
pub fn dovecot_uidlist(uidvalidity: u32, uidnext: u32, names: &[(u32, String)]) -> String {
    let mut text = format!("3 V{uidvalidity} N{uidnext} G{uidvalidity:032x}\n");
    for (uid, name) in names {
        text.push_str(&format!("{uid} :{name}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_sorted() {
        assert_eq!(letters_of("SbFaS"), "FSab");
        assert_eq!((slot_letter(0), slot_letter(30)), ('a', 'z'));
    }

    #[test]
    fn the_list_of_uids_is_written() {
        let text = dovecot_uidlist(7, 4, &[(3, "a.b".to_owned())]);
        assert_eq!(text, format!("3 V7 N4 G{}7\n3 :a.b\n", "0".repeat(31)));
    }
}
