//! Frames of records: what comes back, and what does not.

use super::*;
use crate::compress::Method;

fn no_dictionary(_: u8) -> Option<Arc<Dictionary>> {
    None
}

/// Something like a header record.
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
    let mut random = fastrand::Rng::with_seed(7);
    let records: Vec<Vec<u8>> = (0..2_000).map(|_| text_record(&mut random)).collect();
    let lens: Vec<usize> = records.iter().map(Vec::len).collect();
    let bytes = Dictionary::train(&records.concat(), &lens, 16 * 1024).unwrap();
    Arc::new(Dictionary::new(3, &bytes, level).unwrap())
}

fn every_choice() -> Vec<Compression> {
    let methods = Compression::METHODS.iter();
    methods
        .flat_map(|info| {
            info.levels.clone().map(|level| Compression { method: info.method, level })
        })
        .collect()
}

/// Records of every sort that there is.
fn records() -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut records = vec![Vec::new(), vec![0], vec![b'a'; 700], vec![0; 200_000]];
    for len in [1, 2, 7, 64, 255, 256, 4096, 70_000] {
        records.push((0..len).map(|_| random.u8(..)).collect());
    }
    records.extend((0..50).map(|_| text_record(&mut random)));
    let long: Vec<Vec<u8>> = (0..1_500).map(|_| text_record(&mut random)).collect();
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
        for (seed, raw) in (0..).zip(&records) {
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

/// A frame with a right checksum around anything.
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
