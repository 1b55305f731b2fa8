//! Compressed files give what their text gives.

use std::io::Write;
use std::path::PathBuf;

use super::support::World;
use crate::{EmptyKnown, Mailbox, ReadAs};

const FROM: &str = "From a@b Thu Nov 19 10:00:00 2026\n";

fn text() -> Vec<u8> {
    let mut text = Vec::new();
    for number in 0..500 {
        let body = format!("line of {number}\n").repeat(number % 40);
        let length = format!("Content-Length: {}\n", body.len() + FROM.len());
        let message = format!("{FROM}Subject: {number}\n{length}\n{FROM}{body}\n");
        text.extend_from_slice(message.as_bytes());
    }
    text
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Checks a compressed file of several members or frames, and one that is cut.
fn check(name: &str, compress: impl Fn(&[u8]) -> Vec<u8>) {
    let text = text();
    let plain = World::new(&text);
    let expected = plain.scan();
    assert_eq!(expected.seen.len(), 500);
    let (first, second) = text.split_at(text.len() / 3);
    let bytes = [compress(first), compress(second)].concat();

    let mut world = World::new(b"");
    world.path = PathBuf::from("/mail").join(name);
    world.write(&bytes);
    world.options.window_len = 1000;
    world.threads = 2;
    let found = world.scan();
    assert_eq!(found.seen, expected.seen);
    for seen in [&found.seen[0], &found.seen[250], &found.seen[499]] {
        assert_eq!(world.read(seen, ReadAs::Message), plain.read(seen, ReadAs::Message));
    }
    let again = world.scan_again(&found);
    assert_eq!(again.report.stats.bytes_read, 0);
    assert_eq!(world.mailbox().caps(), crate::Caps::default());

    world.write(&bytes[..bytes.len() - 20]);
    let cut = world.scan_again(&found);
    assert!(cut.seen.len() > 100 && cut.seen.len() <= 500);
    assert_eq!(cut.report.defects.len(), 1);
    world.write(b"no such thing");
    assert!(world.try_scan(&EmptyKnown::default()).is_err());
}

#[test]
fn gzip_is_read() {
    check("box.gz", gzip);
}

#[test]
fn zstd_is_read() {
    check("box.zst", |text| zstd::encode_all(text, 1).unwrap());
}
