//! imaptest's scripts for SORT and THREAD, replayed through the library with their golden answers.
//!
//! A script has a header, then groups of commands and the untagged lines that must answer them.
//! Messages come from the mbox beside it, all at once or by `append`. Numbers in the answers are
//! sequence numbers, so an expunge renumbers.

use std::path::Path;

use barid_message::Profile;
use barid_query::SortProgram;
use barid_testkit::corpora;

use crate::mail::{Mail, Message};
use crate::mailbox_files::parse_mbox;

const FOLDER: &str = "torture/dovecot-imaptest/raw/src/tests";
/// Threads 1 to 8, two of ordered subjects, eight of sort keys.
const SCRIPTS_MIN: usize = 18;
const ANSWERS_MIN: usize = 47;

#[test]
fn scripts_of_sort_and_thread() {
    let Some(files) = corpora::files(FOLDER) else { return };
    for profile in [Profile::Rfc, Profile::Dovecot] {
        let (mut scripts, mut answers) = (0, 0);
        for file in &files {
            let name = file.file_name().unwrap().to_string_lossy();
            let is_script = name.starts_with("thread") || name.starts_with("sort-");
            if is_script && file.extension().is_none() {
                answers += replay(file, profile);
                scripts += 1;
            }
        }
        eprintln!("imaptest, {profile:?}: {scripts} scripts, compared {answers}, equal {answers}");
        assert!(scripts >= SCRIPTS_MIN && answers >= ANSWERS_MIN, "{scripts} {answers}");
    }
}

/// Fails at the first answer that differs from the golden one. Returns the number of answers.
fn replay(script: &Path, profile: Profile) -> usize {
    let text = String::from_utf8(corpora::read(script).unwrap()).unwrap().to_lowercase();
    let mut waiting = parse_mbox(&corpora::read(&script.with_extension("mbox")).unwrap());
    let mut mailbox = Vec::new();
    if text.contains("messages: all") {
        mailbox.append(&mut waiting);
    }
    let mut waiting = waiting.into_iter();
    let mut deleted: Vec<usize> = Vec::new();
    let mut question = None;
    let mut answers = 0;
    for line in text.lines() {
        if let Some(golden) = line.strip_prefix("* ") {
            let question = question.take().unwrap_or_else(|| panic!("{script:?}: {line}"));
            check(&mailbox, question, golden, profile, script);
            answers += 1;
            continue;
        }
        let Some(command) = line.strip_prefix("ok ") else { continue };
        if command == "append" {
            mailbox.extend(waiting.next());
        } else if let Some(store) = command.strip_prefix("store ") {
            let numbers = store.split(' ').next().unwrap().split(',');
            deleted.extend(numbers.map(|number| number.parse::<usize>().unwrap() - 1));
        } else if command == "expunge" {
            deleted.sort_unstable();
            deleted.drain(..).rev().for_each(|row| drop(mailbox.remove(row)));
        } else if command.starts_with("thread") || command.starts_with("sort") {
            question = Some(command);
        }
    }
    assert!(answers > 0 && question.is_none(), "{script:?} asks nothing that is answered");
    answers
}

fn check(mailbox: &[Message], question: &str, golden: &str, profile: Profile, script: &Path) {
    let mail = Mail::read(mailbox, profile);
    let words: Vec<&str> = question.split(' ').collect();
    let ours = if words[0] == "thread" {
        format!("thread {}", mail.thread(words[1].parse().unwrap()))
    } else {
        let (partial, keys) = match question.split_once("return (partial ") {
            Some((_, rest)) => {
                let (range, keys) = rest.split_once(')').unwrap();
                (Some(range), keys)
            }
            None => (None, question),
        };
        let keys = keys.split(['(', ')']).nth(1).unwrap().replace("reverse ", "reverse:");
        let order = mail.sort(&keys.parse::<SortProgram>().unwrap());
        match partial {
            Some(range) => part(&order, range, golden),
            None => format!("sort {}", join(&order)),
        }
    };
    assert_eq!(ours, golden, "{script:?}: {question}");
}

fn join(order: &[u32]) -> String {
    order.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

/// Returns the answer to `PARTIAL`, or the golden one if it is equivalent: it may merge runs.
fn part(order: &[u32], range: &str, golden: &str) -> String {
    let ends: Vec<usize> = range.split(':').map(|end| end.parse().unwrap()).collect();
    let (first, last) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
    let wanted = &order[first - 1..last.min(order.len())];
    let head = format!("esearch (tag $tag) partial ({first}:{last} ");
    let found = golden.strip_prefix(&head).and_then(|rest| rest.strip_suffix(')'));
    let numbers = found.map(|set| {
        set.split(',').flat_map(|run| {
            let (start, end) = run.split_once(':').unwrap_or((run, run));
            start.parse::<u32>().unwrap()..=end.parse().unwrap()
        })
    });
    if numbers.is_some_and(|numbers| numbers.eq(wanted.iter().copied())) {
        golden.to_owned()
    } else {
        head + &join(wanted)
    }
}
