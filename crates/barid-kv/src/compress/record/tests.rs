//! Frames of records: valid and damaged ones.

use std::sync::OnceLock;

use super::*;
use crate::compress::{Method, Trainer};

fn no_dictionary(_: u8) -> Option<Arc<Dictionary>> {
    None
}

/// Returns text like a header record.
fn text_record(random: &mut fastrand::Rng) -> Vec<u8> {
    let who = ["Ann Other", "Bob \"B\" Smith", "Carol", "Dave Q. Public", "Eve"];
    let list = ["linux-man", "linux-kernel", "usrp-users"];
    let mut text = format!(
        " Mon, {} Jan 2024 {:02}:00:{:02} +0100 {} <{}@example.org>\n\t{}@vger.kernel.org",
        random.u8(1..29),
        random.u8(0..24),
        random.u8(0..60),
        random.choice(who).unwrap(),
        random.u32(..) % 1000,
        random.choice(list).unwrap(),
    );
    for _ in 0..random.usize(0..8) {
        text += &format!(" <{:016x}.{}@mail.example.com>", random.u64(..), random.u16(..));
    }
    text.into_bytes()
}

fn trained(level: i32) -> Arc<Dictionary> {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = BYTES.get_or_init(|| {
        let mut random = fastrand::Rng::with_seed(7);
        let mut trainer = Trainer::new(0);
        (0..2_000).for_each(|_| trainer.add(&text_record(&mut random)));
        trainer.train().unwrap()
    });
    Arc::new(Dictionary::new(3, bytes, level).unwrap())
}

fn every_choice() -> Vec<Compression> {
    let methods = Compression::METHODS.iter();
    methods
        .flat_map(|info| {
            info.levels.clone().map(|level| Compression { method: info.method, level })
        })
        .collect()
}

/// Returns records of all kinds.
fn records() -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut records = vec![Vec::new(), vec![0], vec![b'a'; 700], vec![0; 200_000]];
    for len in [1, 2, 7, 64, 255, 256, 4096, 70_000] {
        records.push((0..len).map(|_| random.u8(..)).collect());
    }
    records.extend((0..50).map(|_| text_record(&mut random)));
    let long: Vec<Vec<u8>> = (0..600).map(|_| text_record(&mut random)).collect();
    records.push(long.concat());
    records
}

#[test]
fn records_come_back() {
    let records = records();
    let mut decoder = Decoder::new();
    let mut stored = Vec::new();
    for compression in every_choice() {
        let dictionary = trained(compression.level);
        let dictionaries = |id| (id == 3).then(|| Arc::clone(&dictionary));
        let mut encoder = Encoder::new(compression, Some(&dictionary));
        let long_too = [1, 3, 9, 22].contains(&compression.level);
        let records = records.iter().filter(|raw| long_too || raw.len() < 10_000);
        for (seed, raw) in (0..).zip(records) {
            stored.clear();
            stored.extend_from_slice(b"before");
            encoder.encode(seed, raw, &mut stored);
            assert!(stored.len() <= 6 + 5 + raw.len());
            let got = decoder.decode(seed, &stored[6..], &dictionaries);
            assert_eq!(got, Ok(&raw[..]), "{compression}");
        }
    }
}

#[test]
fn what_is_not_compressed_is_not_copied() {
    let mut stored = Vec::new();
    Encoder::new(Compression::NONE, None).encode(5, b"some record", &mut stored);
    let mut decoder = Decoder::new();
    let raw = decoder.decode(5, &stored, &no_dictionary).unwrap();
    assert!(stored.as_ptr_range().contains(&raw.as_ptr()));
}

#[test]
fn damage_is_noticed() {
    let mut random = fastrand::Rng::with_seed(2);
    let raw = text_record(&mut random);
    let dictionary = trained(3);
    let dictionaries = |id| (id == 3).then(|| Arc::clone(&dictionary));
    let mut decoder = Decoder::new();
    for info in Compression::METHODS {
        let mut stored = Vec::new();
        Encoder::new(Compression::new(info.method), Some(&dictionary)).encode(9, &raw, &mut stored);
        for len in 0..stored.len() {
            assert!(decoder.decode(9, &stored[..len], &dictionaries).is_err());
        }
        for at in 0..stored.len() {
            for bit in 0..8 {
                stored[at] ^= 1 << bit;
                assert!(decoder.decode(9, &stored, &dictionaries).is_err(), "{at} {bit}");
                stored[at] ^= 1 << bit;
            }
        }
        stored.push(0);
        assert_eq!(decoder.decode(9, &stored, &dictionaries), Err(Defect::Checksum));
        stored.pop();
        assert_eq!(decoder.decode(8, &stored, &dictionaries), Err(Defect::Checksum));
        assert_eq!(decoder.decode(9, &stored, &dictionaries), Ok(&raw[..]));
        assert_eq!(
            decoder.decode(9, &stored, &no_dictionary).is_err(),
            info.method == Method::ZstdDict
        );
    }
    assert!(decoder.raw.capacity() < 4 * raw.len());
}

/// Returns a frame with a valid checksum around any bytes.
fn frame(coding: u8, id: Option<u8>, rest: &[u8]) -> Vec<u8> {
    let mut stored = vec![RECORD_VERSION << 4 | coding];
    stored.extend(id);
    let at = stored.len();
    stored.extend_from_slice(&[0; CHECKSUM_LEN]);
    stored.extend_from_slice(rest);
    seal(0, &mut stored, 0, at);
    stored
}

#[test]
fn hostile_frames_are_refused() {
    let dictionary = trained(3);
    let dictionaries = |id| (id == 3).then(|| Arc::clone(&dictionary));
    let mut random = fastrand::Rng::with_seed(3);
    for coding in 1..7 {
        let id = Coding::from_number(coding).unwrap().has_dictionary().then_some(3);
        let mut decoder = Decoder::new();
        let check = |decoder: &mut Decoder, rest: &[u8], expected| {
            let stored = frame(coding, id, rest);
            let got = decoder.decode(0, &stored, &dictionaries);
            assert_eq!(got, Err(expected), "coding {coding}");
        };
        check(&mut decoder, b"", Defect::Truncated);
        check(&mut decoder, &[0xff; 5], Defect::Truncated);
        let too_long = Defect::TooLong { len: RECORD_LEN_MAX + 1, max: RECORD_LEN_MAX };
        let mut rest = Vec::new();
        varint::put(RECORD_LEN_MAX as u32 + 1, &mut rest);
        check(&mut decoder, &rest, too_long);
        assert_eq!(decoder.raw.capacity(), 0);
        check(&mut decoder, &[100], Defect::Payload);
        for _ in 0..500 {
            let mut rest = vec![random.u8(1..128)];
            rest.extend((0..random.usize(0..200)).map(|_| random.u8(..)));
            let stored = frame(coding, id, &rest);
            if let Ok(raw) = decoder.decode(0, &stored, &dictionaries) {
                assert_eq!(raw.len(), usize::from(rest[0]));
            }
        }
    }
    let mut decoder = Decoder::new();
    for coding in 7..16 {
        let stored = frame(coding, None, b"x");
        let got = decoder.decode(0, &stored, &no_dictionary);
        assert_eq!(got, Err(Defect::Coding { coding }));
    }
    let stored = frame(5, Some(200), &[1, 1]);
    let got = decoder.decode(0, &stored, &dictionaries);
    assert_eq!(got, Err(Defect::Dictionary { id: 200 }));
    assert_eq!(decoder.decode(0, &[0x20; 9], &no_dictionary), Err(Defect::Version { version: 2 }));
    assert_eq!(decoder.decode(0, &[], &no_dictionary), Err(Defect::Truncated));
}

const OLD_RAW: &[u8] = b"Tue, 9 Jan 2024 10:11:12 +0000 Ann Other <ann@example.org> Bob Other \
    <bob@example.org> list@lists.example.org other@lists.example.org <123@mail.example.org> \
    <124@mail.example.org>";
const OLD_SEED: u64 = 11;

/// Frames of [`OLD_RAW`] as version 1 writes them; never regenerate them.
const OLD_FRAMES: [(Method, &[u8]); 5] = [
    (
        Method::None,
        b"\x10\xbe\xdb\x93nTue, 9 Jan 2024 10:11:12 +0000 Ann Other <ann@example.org> Bob Other \
        <bob@example.org> list@lists.example.org other@lists.example.org <123@mail.example.org> \
        <124@mail.example.org>",
    ),
    (
        Method::Lz4,
        b"\x11$\x1d\xbc8\xb3\x01\xf4/Tue, 9 Jan 2024 10:11:12 +0000 Ann Other <ann@example.org> \
        Bob\x1c\x00:bob\x1c\x00Plist@\x05\x00's.4\x00o other\x18\x00\x00\x98<123@mail.\x00h> <124\
        \x17\x00`e.org>",
    ),
    (
        Method::Zstd,
        b"\x14\xe9\xab\xc2\x0e\xb3\x01\x92\x85\x14\x1b\x80\xa9m\x00\xd1\xb2B)\x8a\x1bb\xe2\x9b?\x85\
        b\x13\xd2\xc2\x84b\xfb\xe1,\xcc\x94\x06'1]\xb5C\x91%HL}\xa3\xacE9\x1ak\xc6\xbap\x95H\xdal[ \
        \xda\xd8\xc5\xac\xe9\xc9*\x96\xc3\x99\t\xbf\xbb\x03<\x11!\xa2\xc3\x9f\xbc<\xab\xe1\x83\x07\
        \x96\x81\x08\x08\x00:\xbd\x12\x15w \x81T\x01\xef4\x8c\x12h \x87\xff;\xa1",
    ),
    (
        Method::ZstdDict,
        b"\x16\x07\x0b\xa5\xa3\x1d\xb3\x01\xb0Tue, 0:2Bobbobo12 <124\x0b\xfc\xff,\xa0\x00\xae\x1e\
        \x88:\xcb0\xa4\xba\xc5JUn\xf1\x9ceJ\xdb\xb4\xcbI#\xdbG\x9f\xe4\x02",
    ),
    (
        Method::Zlib,
        b"\x12\xd3(\x8c9\xb3\x01\x0b)M\xd5Q\xb0T\xf0J\xccS0202Q04\xb024\xb424R\xd06\x00\x02\x05\xc7\
        \xbc<\x05\xff\x92\x8c\xd4\"\x05\x9b\xc4\xbc<\x87\xd4\x8a\xc4\xdc\x82\x9cT\xbd\xfc\xa2t;\x05\
        \xa7\xfc$\x98\\R~\x12\xaa\\Nfq\x89\x03\x88(\xd6C\x12W\xc8\x07)\xc7\"nchd\xec\x90\x9b\x98\x99\
        \x83,j\x07\x126\xc1\x14\x06\x00",
    ),
];

#[test]
fn old_frames_are_read() {
    assert_eq!(RECORD_VERSION, 1, "old versions need not be read: a cache is built again");
    let bytes = include_bytes!("v1.dictionary");
    let dictionary = Arc::new(Dictionary::new(7, bytes, 3).unwrap());
    let dictionaries = |id| (id == 7).then(|| Arc::clone(&dictionary));
    let mut decoder = Decoder::new();
    for (method, old) in OLD_FRAMES {
        assert_eq!(decoder.decode(OLD_SEED, old, &dictionaries), Ok(OLD_RAW), "{method:?}");
        let mut new = Vec::new();
        let compression = Compression::new(method);
        Encoder::new(compression, Some(&dictionary)).encode(OLD_SEED, OLD_RAW, &mut new);
        let known = if method == Method::None { old.len() } else { 1 };
        assert_eq!(new[..known], old[..known], "{method:?}");
    }
    for rle in [
        &b"\x14|c\xd7\xea\xac\x02\x10aa\x01\x00'*\xc0\x02"[..],
        b"\x16\x07\xf0+\x9b\xb1\xac\x02\x08a\x01\x00(*\x10\x02",
    ] {
        assert_eq!(decoder.decode(OLD_SEED, rle, &dictionaries), Ok(&[b'a'; 300][..]));
    }
}
