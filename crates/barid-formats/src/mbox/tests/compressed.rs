//! Compressed files give the same messages as their text.

use std::io::Write;
use std::path::PathBuf;

use std::sync::Arc;

use barid_mailbox::{EmptyKnown, ReadAs, Stamp, Storage};
use barid_vfs::{CallKind, CountingVfs, Fault, FaultVfs, MemVfs, Vfs as _};

use super::support::{Cached, World};
use crate::mbox::MboxMailbox;

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
    assert_eq!(world.mailbox().caps(), barid_mailbox::Caps::default());

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

/// A compressed mailbox with counted reads, the result of its scan, and its length.
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

    /// Reads a message; returns its text and the number of compressed bytes read.
    fn read(&self, mailbox: &MboxMailbox, at: usize) -> (Vec<u8>, u64) {
        let before = self.vfs.counts();
        let mut buffer = Vec::new();
        let location = self.found.seen[at].location();
        mailbox.read_known(&location, ReadAs::Message, &Stamp::default(), &mut buffer).unwrap();
        (buffer, self.vfs.counts().since(&before).bytes_under(&self.world.path).read)
    }

    /// Reads all messages in order; returns the restart points of the mailbox, and the number of
    /// compressed bytes read.
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

    /// Reads messages in any order with restart points; returns the highest cost of one of them,
    /// and that of all.
    fn in_any_order(&self, points: &[u8], expected: &[Vec<u8>]) -> (u64, u64) {
        let mailbox = self.world.mailbox();
        let kept = points.to_vec();
        let read = move |range: std::ops::Range<u64>| {
            kept.get(range.start as usize..range.end as usize).map(<[u8]>::to_vec)
        };
        mailbox.take_restart_points(points.len() as u64, Box::new(read));
        let (mut rng, mut most, mut all) = (fastrand::Rng::with_seed(1), 0, 0);
        for _ in 0..if points.is_empty() { 30 } else { 100 } {
            let at = rng.usize(..expected.len());
            let (found, cost) = self.read(&mailbox, at);
            assert_eq!(found, expected[at], "{at}");
            most = most.max(cost);
            all += cost;
        }
        (most, all)
    }
}

/// Checks the cost of reading messages, in order and in any order, with restart points or without.
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
    let indexes = if name.ends_with(".xz") { counted.len / 100 } else { 0 };
    let most = counted.len + indexes;
    assert!(read <= most, "{name}: {read} bytes of {} in order", counted.len);
    let (most, _) = counted.in_any_order(&points, &expected);
    // A point is at most 1 MB and a block away; read-ahead comes on top.
    let bound = if has_points { counted.len / 3 + (256 << 10) } else { counted.len };
    assert!(most <= bound, "{name}: {most} bytes of {} for one message", counted.len);
    for damaged in [&points[..points.len() / 2], b"", &[0xff; 100]] {
        counted.in_any_order(damaged, &expected[..1]);
    }
    // Points of another state of the file.
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
    // The smallest blocks: many marks, at every bit offset.
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

/// Returns the bytes of an xz number.
fn xz_number(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A block whose index says that it is longer than it is: it takes in a whole stream's end.
#[test]
fn a_block_that_ends_before_its_length_is_damage() {
    let text = text();
    let stream = xz(&text);
    let block = [&stream[12..], &[0; 8]].concat();
    let mut index =
        [vec![0, 1], xz_number(block.len() as u64), xz_number(text.len() as u64)].concat();
    index.resize(index.len().next_multiple_of(4), 0);
    index.extend(crc32fast::hash(&index).to_le_bytes());
    let mut footer = (index.len() as u32 / 4 - 1).to_le_bytes().to_vec();
    footer.extend(&stream[6..8]);
    let footer = [&crc32fast::hash(&footer).to_le_bytes()[..], &footer, b"YZ"].concat();

    let mut world = World::new(b"");
    world.path = PathBuf::from("/mail/box.xz");
    world.write(&[&stream[..12], &block, &index, &footer].concat());
    let found = world.scan();
    assert_eq!(found.seen.len(), 500);
    assert_eq!(found.report.defects.len(), 1);
}

/// Texts without restart points are kept in a file once a reader goes back far, and leave no file
/// behind.
#[test]
fn going_back_spills() {
    let text = long_text().repeat(6);
    let plain = World::new(&text);
    let seen = plain.scan().seen;
    let expected: Vec<_> = seen.iter().map(|seen| plain.read(seen, ReadAs::Message)).collect();
    let spill = PathBuf::from("/spill");
    for (name, bytes) in [("box.zst", zstd::encode_all(&*text, 1).unwrap()), ("box.xz", xz(&text))]
    {
        let mut counted = Counted::new(name, &bytes);
        counted.vfs.create_dir(&spill, 0o700).unwrap();
        let (_, without) = counted.in_any_order(&[], &expected);
        counted.world.options.spill_dir = Some(spill.clone());
        let (_, with) = counted.in_any_order(&[], &expected);
        assert!(with <= 3 * counted.len, "{name}: {with} of {}", counted.len);
        assert!(without > 2 * with, "{name}: {without}, and {with} with a spill file");
        let mut left = 0;
        let folder = counted.vfs.open_dir(&spill).unwrap();
        folder.list(&mut |_, _| left += 1).unwrap();
        assert_eq!(left, 0);
        // No room, and no folder: the texts are the same.
        counted.vfs.inner().set_free_space(Some(1 << 20));
        counted.in_any_order(&[], &expected);
        counted.world.options.spill_dir = Some("/missing".into());
        counted.in_any_order(&[], &expected);
    }
}

/// A spill file that cannot be read changes nothing: the text is decompressed again.
#[test]
fn a_spill_file_that_cannot_be_read_is_ignored() {
    let text = long_text().repeat(6);
    let plain = World::new(&text);
    let seen = plain.scan().seen;
    let disk = MemVfs::new();
    let mut world = World::on(Arc::new(disk.clone()));
    world.path = PathBuf::from("/mail/box.zst");
    world.write(&zstd::encode_all(&*text, 1).unwrap());
    world.scan();
    world.options.spill_dir = Some("/spill".into());
    for after in [0, 3] {
        let fault = Fault::nth(after).of(CallKind::Read).under("/spill").forever();
        let faulty = Arc::new(FaultVfs::new(disk.clone(), fault));
        world.vfs = faulty.clone();
        let mailbox = world.mailbox();
        let last = seen.len() - 1;
        for at in [last, 0, last, 5, last / 2, 1, last - 1, 0] {
            let mut buffer = Vec::new();
            let location = seen[at].location();
            mailbox.read_known(&location, ReadAs::Message, &Stamp::default(), &mut buffer).unwrap();
            assert!(buffer == plain.read(&seen[at], ReadAs::Message), "{at}");
        }
        assert!(faulty.fired(), "{after}");
    }
}
