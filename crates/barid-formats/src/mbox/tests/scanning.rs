//! Results of scans.

use super::support::{Cached, World};
use barid_mailbox::{DefectKind, ReadAs};

const FROM: &str = "From a@b Thu Nov 19 10:00:00 2026\n";

/// Checks the messages that a scan finds.
fn check(file: &str, expected: &[&str]) -> Cached {
    let world = World::new(file.as_bytes());
    let cached = world.scan();
    let found: Vec<_> = cached
        .seen
        .iter()
        .map(|seen| String::from_utf8(world.read(seen, ReadAs::Message)).unwrap())
        .collect();
    assert_eq!(found, expected, "{file:?}");
    cached
}

#[test]
fn the_blank_line_before_a_separator_belongs_to_it() {
    check(
        &format!("{FROM}A: 1\n\none\n\n{FROM}A: 2\n\ntwo\n\n"),
        &["A: 1\n\none\n", "A: 2\n\ntwo\n"],
    );
    check(
        &format!("{FROM}A: 1\n\none\n\n\n{FROM}A: 2\n\ntwo\n"),
        &["A: 1\n\none\n\n", "A: 2\n\ntwo\n"],
    );
    check(&format!("{FROM}A: 1\n\none\n{FROM}A: 2\n\ntwo"), &["A: 1\n\none\n", "A: 2\n\ntwo"]);
    check(&format!("{FROM}A: 1\n\n\n{FROM}A: 2\n\n"), &["A: 1\n\n", "A: 2\n\n"]);
    check(&format!("{FROM}A: 1\n{FROM}{FROM}\n\n"), &["A: 1\n", "", "\n"]);
    let crlf = format!("{FROM}A: 1\n\none\n\n{FROM}A: 2\n\ntwo\n\n").replace('\n', "\r\n");
    check(&crlf, &["A: 1\r\n\r\none\r\n", "A: 2\r\n\r\ntwo\r\n"]);
}

#[test]
fn white_space_may_come_first() {
    check("", &[]);
    check("\n \n", &[]);
    check(&format!("\r\n \n{FROM}\none\n"), &["\none\n"]);
    for bad in [" ", "x"] {
        let world = World::new(format!("{bad}{FROM}\none\n").as_bytes());
        assert!(world.try_scan(&barid_mailbox::EmptyKnown::default()).is_err(), "{bad:?}");
    }
}

#[test]
fn a_true_length_hides_separators_and_a_false_one_does_not() {
    let body = format!("one\n{FROM}A: x\n\ntwo\n");
    let len = body.len();
    for (length, hides) in [(len, true), (len + 1, true), (len - 1, false), (len * 9, false)] {
        let first = format!("Content-Length: {length}\n\n");
        let file = format!("{FROM}{first}{body}\n{FROM}B: 1\n\nend\n\n");
        let expected = [format!("{first}{body}"), "B: 1\n\nend\n".to_owned()];
        let split = [format!("{first}one\n"), "A: x\n\ntwo\n".to_owned(), expected[1].clone()];
        let expected = if hides { &expected[..] } else { &split[..] };
        check(&file, &expected.iter().map(String::as_str).collect::<Vec<_>>());
        let last = format!("{FROM}{first}{body}\n");
        let expected = if hides { &expected[..1] } else { &split[..2] };
        check(&last, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn false_lengths_are_told_and_counted() {
    let check = |lengths: &[usize], named: usize, more: Option<&str>| {
        let message = |length| format!("{FROM}Content-Length: {length}\n\nend\n\n");
        let file: String = lengths.iter().map(message).collect();
        let defects = World::new(file.as_bytes()).scan().report.defects;
        assert!(defects.iter().all(|defect| defect.kind == DefectKind::Structure));
        assert_eq!(defects.len(), named + usize::from(more.is_some()));
        if let Some(first) = lengths.iter().position(|length| *length != 4) {
            assert_eq!(defects[0].offset, (first * message(&4).len()) as u64);
        }
        let last = defects.last().map_or("", |defect| &defect.what);
        assert!(last.contains(more.unwrap_or_default()), "{last}");
    };
    check(&[4, 4], 0, None);
    check(&[4, 7, 4], 1, None);
    check(&[9; 101], 100, Some("in 1 more"));
}

/// Returns a file of the relevant pieces in random order.
fn random_file(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut file = FROM.as_bytes().to_vec();
    for _ in 0..rng.usize(0..60) {
        match rng.u8(0..14) {
            0..4 => file.extend_from_slice(FROM.as_bytes()),
            4..6 => file.push(b'\n'),
            6 => file.extend_from_slice(b"text From a\n"),
            7 => file.extend_from_slice(b"From nobody\n"),
            8 => file.extend_from_slice(b"Status: RO\nX-UID: 7\nX-Keywords: a b\n"),
            9 => {
                let len = rng.usize(0..200);
                file.extend_from_slice(format!("\nContent-Length: {len}\n\n").as_bytes());
            }
            10 => {
                let body = [FROM, "x\n", "\n", "From \n"][rng.usize(0..4)].repeat(rng.usize(0..4));
                let header = format!("\n{FROM}Content-Length: {}\n\n", body.len());
                file.extend_from_slice(format!("{header}{body}\n{FROM}").as_bytes());
            }
            11 => file.extend_from_slice(b"\r\n"),
            12 => file.extend(std::iter::repeat_n(b'x', rng.usize(0..100))),
            _ => file.extend_from_slice(b"no line end"),
        }
    }
    file
}

#[test]
fn many_threads_and_small_windows_find_what_one_walk_finds() {
    for seed in 0..1500 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let file = random_file(&mut rng);
        let mut world = World::new(&file);
        let expected = world.scan();
        world.options.window_len = [1, 7, 64, 4096][rng.usize(0..4)];
        world.options.chunk_len = Some(rng.u64(1..=file.len() as u64 + 1));
        world.threads = rng.usize(1..4);
        world
            .vfs
            .remove_file(std::path::Path::new("/state/00000000000000000000000000000007.ledger"))
            .unwrap();
        let found = world.scan();
        assert_eq!(found.seen, expected.seen, "seed {seed}");
        assert_eq!(found.uids, expected.uids, "seed {seed}");
        assert_eq!(found.report.state, expected.report.state, "seed {seed}");
    }
}

#[test]
fn reading_the_tail_finds_what_reading_everything_finds() {
    let mut tails = 0;
    for seed in 0..1500 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut file = random_file(&mut rng);
        if rng.bool() {
            file.splice(0..0, format!("{FROM}X-IMAPbase: 9 7 a\nX-UID: 3\n\nx\n\n").bytes());
        }
        let mut world = World::new(&file);
        world.options.window_len = [16, 4096][rng.usize(0..2)];
        let mut cached = world.scan();
        for _ in 0..rng.u8(1..4) {
            let mut piece = random_file(&mut rng);
            match rng.u8(0..4) {
                0 => piece.splice(0..0, *b"\n").count(),
                1 => piece.splice(0..0, *b"more\n\n").count(),
                _ => 0,
            };
            world.append(&piece);
            cached = world.scan_again(&cached);
            tails += u32::from(cached.report.tail_verified);
            let expected = world.scan();
            assert_eq!(cached.seen, expected.seen, "seed {seed}");
            assert_eq!(cached.uids(), expected.uids(), "seed {seed}");
            assert_eq!(cached.report.state, expected.report.state, "seed {seed}");
            assert_eq!(cached.report.uidnext, expected.report.uidnext, "seed {seed}");
        }
        let again = world.scan_again(&cached);
        assert_eq!(again.report.stats.bytes_read, 0, "seed {seed}");
    }
    assert!(tails > 300, "{tails}");
}
