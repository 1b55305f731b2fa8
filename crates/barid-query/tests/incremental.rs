//! Links that are extended delivery by delivery, and stored in between, equal those made in one go.

use barid_query::{Profile, ThreadAlgorithm, ThreadState, threads, threads_from_state};

use crate::random::Mailbox;

#[test]
fn deliveries_equal_from_scratch() {
    let mut random = fastrand::Rng::with_seed(12);
    for round in 0..4000 {
        let mailbox = Mailbox::random(&mut random, 40);
        for profile in [Profile::Rfc, Profile::CClient] {
            let mut state = ThreadState::new(profile);
            while (state.rows() as usize) < mailbox.len() {
                let start = state.rows() as usize;
                let end = random.usize(start + 1..=mailbox.len());
                state.extend(&mailbox.links(start, end).link_columns()).unwrap();
                if random.bool() {
                    state = ThreadState::from_bytes(&state.to_bytes()).unwrap();
                }
                let whole = mailbox.links(0, end);
                let mut fresh = ThreadState::new(profile);
                fresh.extend(&whole.link_columns()).unwrap();
                assert_eq!(state.to_bytes(), fresh.to_bytes(), "round {round}");
            }
            for algorithm in [ThreadAlgorithm::References, ThreadAlgorithm::Refs] {
                let keys = mailbox.keys(mailbox.len());
                let warm = threads_from_state(algorithm, &state, &keys);
                let cold = threads(algorithm, &mailbox.columns(), profile);
                assert_eq!(warm, cold, "round {round}");
            }
        }
    }
}

#[test]
fn damaged_states_are_refused_or_harmless() {
    let mut random = fastrand::Rng::with_seed(13);
    let mut refused = 0;
    for _ in 0..300 {
        let mailbox = Mailbox::random(&mut random, 20);
        let profile = [Profile::Rfc, Profile::CClient][random.usize(..2)];
        let mut state = ThreadState::new(profile);
        state.extend(&mailbox.link_columns()).unwrap();
        let good = state.to_bytes();
        for _ in 0..100 {
            let mut bytes = good.clone();
            bytes[random.usize(..good.len())] ^= 1 << random.u32(..8);
            bytes.truncate(random.usize(good.len() - 4..=good.len() + 4));
            let Ok(mut state) = ThreadState::from_bytes(&bytes) else {
                refused += 1;
                continue;
            };
            if state.rows() as usize == mailbox.len() {
                let keys = mailbox.keys(mailbox.len());
                let _ = threads_from_state(ThreadAlgorithm::References, &state, &keys);
            }
            state.extend(&mailbox.link_columns()).unwrap();
        }
    }
    assert!(refused > 10_000, "{refused}");
}

#[test]
fn columns_that_do_not_fit_are_refused() {
    let mut mailbox = Mailbox::random(&mut fastrand::Rng::with_seed(14), 40);
    assert!(mailbox.len() > 2 && mailbox.refs.len() > 2);
    let check = |mailbox: &Mailbox| {
        for algorithm in [ThreadAlgorithm::References, ThreadAlgorithm::Refs] {
            assert!(threads(algorithm, &mailbox.columns(), Profile::Rfc).is_err());
        }
    };
    let good = mailbox.clone();
    mailbox.refs[1] = mailbox.id_count;
    check(&mailbox);
    mailbox = good.clone();
    mailbox.ids[1] = mailbox.id_count;
    check(&mailbox);
    mailbox = good.clone();
    mailbox.refs.pop();
    check(&mailbox);
    mailbox = good.clone();
    mailbox.ref_ends[0] = u32::MAX;
    check(&mailbox);
    mailbox = good.clone();
    mailbox.subjects[0] = mailbox.subject_count;
    check(&mailbox);
    mailbox = good.clone();
    mailbox.ids.pop();
    mailbox.ref_ends.pop();
    mailbox.refs.truncate(*mailbox.ref_ends.last().unwrap() as usize);
    assert!(threads(ThreadAlgorithm::Refs, &good.columns(), Profile::Rfc).is_ok());
    let mut state = ThreadState::new(Profile::Rfc);
    state.extend(&mailbox.link_columns()).unwrap();
    let keys = good.keys(good.len());
    assert!(threads_from_state(ThreadAlgorithm::Refs, &state, &keys).is_err());
}
