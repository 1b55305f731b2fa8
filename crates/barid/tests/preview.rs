//! PREVIEW (RFC 8970) compared with Dovecot's, on real mail.

use std::collections::BTreeMap;

use barid::message::preview;
use barid::{Mailbox, OpenOptions, Uid};
use barid_testkit::peers::Dovecot;
use barid_testkit::{Scratch, corpora};

use crate::fetching::{Token, fetch, items, maildir_of, tokens};

/// Compares the previews of every `step`th message of a corpus. At least `equal_min` of a hundred
/// must be equal: rules for HTML differ, and Dovecot looks into no enclosed message.
fn compare(corpus: &str, step: usize, compared_min: usize, equal_min: usize) {
    let (Some(files), Some(dovecot)) = (corpora::files(corpus), Dovecot::new()) else { return };
    let scratch = Scratch::new("preview").unwrap();
    // The small corpora of our own have more of what differs.
    let (step, compared_min, equal_min) =
        corpora::either(corpus, (step, compared_min, equal_min), (1, 20, 85));
    let files: Vec<_> = files.into_iter().step_by(step).collect();
    let messages: Vec<Vec<u8>> = files.iter().map(|file| corpora::read(file).unwrap()).collect();
    let maildir = maildir_of(&scratch, messages.iter().map(Vec::as_slice));
    let options = OpenOptions::new(None, scratch.path().join("state"));
    let mut mailbox = Mailbox::open(&maildir.to_string_lossy(), &options).unwrap();
    let uids: Vec<Uid> = mailbox.uids().unwrap().into_iter().filter_map(Uid::new).collect();
    let ours = fetch(&mut mailbox, &uids, "(PREVIEW)");
    let mut imap = dovecot.imap(&dovecot.maildir_location(&maildir), &[]).unwrap();
    imap.command("EXAMINE INBOX").unwrap();
    let theirs = imap.command("FETCH 1:* (PREVIEW)").unwrap();
    let theirs: BTreeMap<u32, String> = theirs
        .untagged
        .iter()
        .filter_map(|line| items(&tokens(line).0))
        .filter_map(|(number, items)| Some((number, text_of(items.get("PREVIEW")?))))
        .collect();
    let (mut compared, mut equal) = (0, 0);
    for (number, ours) in (1..).zip(&ours) {
        let (_, ours) = items(ours).unwrap();
        let ours = text_of(&ours["PREVIEW"]);
        let message = &messages[number as usize - 1];
        if message.len() < 64 << 10 {
            assert_eq!(preview(message, true).as_deref(), Some(&*ours), "{number}");
        }
        let Some(theirs) = theirs.get(&number) else { continue };
        compared += 1;
        let is_equal = same(&ours, theirs);
        equal += usize::from(is_equal);
        if !is_equal && std::env::var_os("BARID_FETCH_ALL").is_some() {
            eprintln!(
                "{}\n  ours   {ours:?}\n  theirs {theirs:?}",
                files[number as usize - 1].display()
            );
        }
    }
    eprintln!("{corpus}: {compared} previews compared, {equal} equal");
    assert!(compared >= compared_min, "{compared}");
    assert!(equal * 100 >= compared * equal_min, "{equal} of {compared} are equal");
}

/// Returns `true` if previews differ only in white space, which Dovecot keeps beyond ASCII, and so
/// in where they end.
fn same(ours: &str, theirs: &str) -> bool {
    let theirs: Vec<&str> = theirs.split_whitespace().collect();
    let theirs = theirs.join(" ");
    let mut pairs = ours.chars().zip(theirs.chars());
    let lens = (ours.chars().count(), theirs.chars().count());
    pairs.all(|(a, b)| a == b) && lens.0.abs_diff(lens.1) <= SPACES_MAX
}

/// Characters by which the ends of two previews may be apart.
const SPACES_MAX: usize = 20;

fn text_of(tokens: &[Token]) -> String {
    match tokens {
        [Token::Text(text)] => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    }
}

#[test]
fn previews_are_those_of_dovecot() {
    compare("usrp-users/msgs", 1, 400, 95);
    compare("linux-man/msgs", 40, 400, 95);
    compare("torture", 1, 1300, 90);
}
