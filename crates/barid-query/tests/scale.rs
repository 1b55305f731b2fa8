//! Mailboxes designed to be slow or deep; they would take for ever at quadratic cost, or exhaust
//! the stack if anything recursed.

use barid_query::{NO_ID, Profile, ThreadAlgorithm};

use crate::random::Mailbox;
use crate::thread_model::imap;

const ROWS: u32 = 200_000;

fn mailbox(rows: impl Iterator<Item = (u32, Vec<u32>)>, id_count: u32) -> Mailbox {
    let mut mailbox = Mailbox { id_count, subject_count: 1, ..Mailbox::default() };
    for (id, refs) in rows {
        mailbox.ids.push(id);
        mailbox.refs.extend(refs);
        mailbox.ref_ends.push(mailbox.refs.len() as u32);
        mailbox.subjects.push(0);
        mailbox.replies.push(false);
        mailbox.dates.push(mailbox.dates.len() as i64);
    }
    mailbox
}

/// Asserts that every profile and algorithm finishes and lists every message once.
fn check(mailbox: &Mailbox) {
    let all = [ThreadAlgorithm::References, ThreadAlgorithm::Refs, ThreadAlgorithm::OrderedSubject];
    for algorithm in all {
        for profile in [Profile::Rfc, Profile::CClient] {
            let text = imap(algorithm, mailbox, profile);
            let numbers = text.split(['(', ')', ' ']).filter(|part| !part.is_empty());
            let mut seen = vec![false; mailbox.len()];
            for number in numbers {
                let row = number.parse::<usize>().unwrap() - 1;
                assert!(!std::mem::replace(&mut seen[row], true), "{number} is there twice");
            }
            assert!(!seen.contains(&false));
        }
    }
}

#[test]
fn one_chain() {
    let chain = mailbox((0..ROWS).map(|row| (row, row.checked_sub(1).into_iter().collect())), ROWS);
    check(&chain);
    let expected = (1..=ROWS).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
    let all = imap(ThreadAlgorithm::References, &chain, Profile::Rfc);
    assert_eq!(all, format!("({expected})"));
}

#[test]
fn one_chain_backwards() {
    check(&mailbox((0..ROWS).rev().map(|id| (id, vec![(id + 1) % ROWS])), ROWS));
}

#[test]
fn a_chain_of_absent_messages() {
    let chain = std::iter::once((NO_ID, (0..ROWS).collect()));
    let leaves = (0..ROWS).map(|row| (NO_ID, vec![row]));
    check(&mailbox(chain.chain(leaves), ROWS));
}

#[test]
fn trees_joined_at_their_roots_from_their_deepest_leaf() {
    // A long chain whose root is repeatedly linked under its own end.
    let chain = (1..ROWS / 2).map(|id| (id, vec![id - 1]));
    let tries = (0..ROWS / 2).map(|_| (NO_ID, vec![ROWS / 2 - 1, 0]));
    check(&mailbox(chain.chain(tries), ROWS));
}

#[test]
fn chains_cut_and_joined_in_random_order() {
    let mut random = fastrand::Rng::with_seed(15);
    let mut ids: Vec<u32> = (0..ROWS).collect();
    random.shuffle(&mut ids);
    let rows = ids.into_iter().map(|id| {
        let near = |random: &mut fastrand::Rng| (id + ROWS - random.u32(1..3)) % ROWS;
        (id, vec![near(&mut random), near(&mut random)])
    });
    check(&mailbox(rows, ROWS));
}

#[test]
fn one_root_with_all_others_under_it() {
    check(&mailbox((0..ROWS).map(|id| (id, vec![0])), ROWS));
    check(&mailbox((0..ROWS).map(|_| (0, vec![0, 0, 0])), ROWS));
}
