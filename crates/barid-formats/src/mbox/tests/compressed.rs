//! Compressed files give what their text gives.

use std::io::Write;
use std::path::PathBuf;

use std::sync::Arc;

use barid_vfs::{CountingVfs, MemVfs};

use super::support::{Cached, World};
use crate::mbox::MboxMailbox;
use crate::{EmptyKnown, Mailbox, ReadAs, Stamp};

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

/// Six megabytes of text in messages of some kilobytes.
fn long_text() -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(5);
    let mut text = Vec::new();
    for number in 0..1500 {
        text.extend_from_slice(format!("{FROM}Subject: {number}\n\n").as_bytes());
        for _ in 0..rng.usize(..170) {
            text.extend_from_slice(format!("{:x} some words\n", rng.u64(..)).as_bytes());
        }
        text.push(b'\n');
    }
    text
}

/// A compressed mailbox whose reading is counted, what a scan found in it, and its length.
struct Counted {
    vfs: Arc<CountingVfs<MemVfs>>,
    world: World,
    found: Cached,
    len: u64,
}

impl Counted {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let vfs = Arc::new(CountingVfs::new(MemVfs::new()));
        let mut world = World::on(vfs.clone());
        world.path = PathBuf::from("/mail").join(name);
        world.write(bytes);
        let found = world.scan();
        Self { vfs, world, found, len: bytes.len() as u64 }
    }

    /// Reads a message; returns the text and how many compressed bytes that took.
    fn read(&self, mailbox: &MboxMailbox, at: usize) -> (Vec<u8>, u64) {
        let before = self.vfs.counts();
        let mut buffer = Vec::new();
        let location = self.found.seen[at].location();
        mailbox.read_known(&location, ReadAs::Message, &Stamp::default(), &mut buffer).unwrap();
        (buffer, self.vfs.counts().since(&before).bytes_under(&self.world.path).read)
    }

    /// The restart points that a mailbox learns which reads all messages in their order, and the
    /// compressed bytes that it reads.
    fn in_order(&self, expected: &[Vec<u8>]) -> (Vec<u8>, u64) {
        let (mailbox, mut read) = (self.world.mailbox(), 0);
        for (at, expected) in expected.iter().enumerate() {
            let (found, cost) = self.read(&mailbox, at);
            assert_eq!(found, *expected, "{at}");
            read += cost;
        }
        let points = mailbox.restart_points_to_keep().unwrap_or_default();
        assert_eq!(mailbox.restart_points_to_keep(), None, "kept once");
        (points, read)
    }

    /// Reads messages in any order with restart points; returns the most that one of them cost.
    fn in_any_order(&self, points: &[u8], expected: &[Vec<u8>]) -> u64 {
        let mailbox = self.world.mailbox();
        let kept = points.to_vec();
        let read = move |range: std::ops::Range<u64>| {
            kept.get(range.start as usize..range.end as usize).map(<[u8]>::to_vec)
        };
        mailbox.take_restart_points(points.len() as u64, Box::new(read));
        let (mut rng, mut most) = (fastrand::Rng::with_seed(1), 0);
        for _ in 0..if points.is_empty() { 10 } else { 100 } {
            let at = rng.usize(..expected.len());
            let (found, cost) = self.read(&mailbox, at);
            assert_eq!(found, expected[at], "{at}");
            most = most.max(cost);
        }
        most
    }
}

/// Checks what reading messages costs, in order and in any order, with restart points or without.
fn check_cost(name: &str, bytes: &[u8], has_points: bool) {
    let text = long_text();
    let plain = World::new(&text);
    let seen = plain.scan().seen;
    let expected: Vec<_> = seen.iter().map(|seen| plain.read(seen, ReadAs::Message)).collect();
    let counted = Counted::new(name, bytes);
    assert_eq!(counted.found.seen, seen);
    let (points, read) = counted.in_order(&expected);
    assert_eq!(points.is_empty(), !has_points, "{name}");
    // The indexes of an xz file are read beside its blocks.
    let most = counted.len + counted.len / 100;
    assert!(read <= most, "{name}: {read} bytes of {} in order", counted.len);
    let most = counted.in_any_order(&points, &expected);
    // A point is at most 1 MB and a block away; what is read at once comes on top.
    let bound = if has_points { counted.len / 3 + (256 << 10) } else { counted.len };
    assert!(most <= bound, "{name}: {most} bytes of {} for one message", counted.len);
    for damaged in [&points[..points.len() / 2], b"", &[0xff; 100]] {
        counted.in_any_order(damaged, &expected[..1]);
    }
    // Of another state of the file.
    counted.world.write(bytes);
    counted.in_any_order(&points, &expected[..3]);
}

#[test]
fn gzip_is_decompressed_once() {
    let text = long_text();
    check_cost("box.gz", &gzip(&text), true);
    let members: Vec<_> = text.chunks(700_000).map(gzip).collect();
    check_cost("members.gz", &members.concat(), true);
}

#[test]
fn zstd_is_decompressed_once() {
    let text = long_text();
    let compress = |text: &[u8]| zstd::encode_all(text, 1).unwrap();
    check_cost("box.zst", &compress(&text), false);
    let frames: Vec<_> = text.chunks(300_000).map(compress).collect();
    check_cost("frames.zst", &frames.concat(), true);
}

fn bzip2(text: &[u8]) -> Vec<u8> {
    // The smallest blocks: many marks, at every bit.
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn xz(text: &[u8]) -> Vec<u8> {
    let options = lzma_rust2::XzOptions::with_preset(0);
    let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Blocks of 256 KB, the dictionary's length.
fn xz_blocks(text: &[u8]) -> Vec<u8> {
    let mut options = lzma_rust2::XzOptions::with_preset(0);
    options.set_block_size(std::num::NonZeroU64::new(1));
    let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn bzip2_is_decompressed_once() {
    let text = long_text();
    check_cost("box.bz2", &bzip2(&text), true);
    let streams: Vec<_> = text.chunks(700_000).map(bzip2).collect();
    check_cost("streams.bz2", &streams.concat(), true);
}

#[test]
fn xz_is_decompressed_once() {
    let text = long_text();
    check_cost("box.xz", &xz(&text), false);
    let streams: Vec<_> = text.chunks(300_000).map(xz).collect();
    check_cost("streams.xz", &streams.concat(), true);
    check_cost("blocks.xz", &xz_blocks(&text), true);
    let streams: Vec<_> = text.chunks(2_500_000).map(xz_blocks).collect();
    check_cost("both.xz", &streams.join(&[0; 8][..]), true);
}

#[test]
fn bzip2_and_xz_are_read() {
    check("box.bz2", bzip2);
    check("box.xz", xz);
    check("blocks.xz", xz_blocks);
}

#[test]
fn gzip_is_read() {
    check("box.gz", gzip);
}

#[test]
fn zstd_is_read() {
    check("box.zst", |text| zstd::encode_all(text, 1).unwrap());
}
