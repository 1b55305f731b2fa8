//! A test whether a store without a valid seal can be read at all.
//!
//! Libraries treat damaged files differently: some crash, some loop for ever, some answer. So a
//! child process reads the whole store first, and its end is the result.

use std::io;
use std::path::Path;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use barid_vfs::{OpenOptions, OsVfs, Vfs};
use xxhash_rust::xxh3::xxh3_64;

use crate::ffi::probe::{Bounds, Child, Ending};
use crate::limits::{
    PROBE_BUILTIN_FACTOR, PROBE_BYTES_PER_SECOND, PROBE_KEYS_LEN_MAX, PROBE_SLACK_LEN,
    PROBE_TIME_MIN, PROBE_WAIT_FACTOR,
};
use crate::{Error, Kv, Result, StoreSpec};

/// Locked in shared mode while a library opens or closes a store, and exclusively while a child is
/// created: so a child never inherits a library lock from a thread that it does not have.
static OPENING: RwLock<()> = RwLock::new(());

/// Runs `work`, which opens or closes a store, while no child is created.
pub(crate) fn opening<T>(work: impl FnOnce() -> T) -> T {
    let _opening = OPENING.read().unwrap_or_else(PoisonError::into_inner);
    work()
}

/// Reads every pair of the store at `place`, whose files have `size` bytes.
///
/// # Errors
/// Returns [`Error::Damaged`] if that fails, [`Error::Unavailable`], [`Error::Io`].
pub(crate) fn probe(kv: &dyn Kv, place: &StoreSpec<'_>, size: u64) -> Result<()> {
    if kv.trusted() {
        return kv.read(place).map(drop);
    }
    // The child then need not load the library.
    kv.version()?;
    let time = PROBE_TIME_MIN + Duration::from_secs(size / PROBE_BYTES_PER_SECOND);
    let time = time * if place.builtin.is_some() { PROBE_BUILTIN_FACTOR } else { 1 };
    let slack = size.saturating_mul(2).saturating_add(PROBE_SLACK_LEN);
    let address_space = address_space().map(|bytes| bytes.saturating_add(slack));
    let processor_seconds = Some(time.as_secs());
    let bounds = Bounds { time: time * PROBE_WAIT_FACTOR, processor_seconds, address_space };
    let child = {
        let _alone = OPENING.write().unwrap_or_else(PoisonError::into_inner);
        Child::begin(bounds, || encode_answer(read_all(kv, place)))
            .map_err(Error::at(place.path))?
    };
    let path = place.path;
    match child.end().map_err(Error::at(path))? {
        Ending::Answered(answer) => decode_answer(path, &answer),
        Ending::Died(how) => Err(Error::damaged(path, format!("a process reading it {how}"))),
        Ending::Hung => {
            let seconds = time.as_secs();
            Err(Error::damaged(path, format!("reading it did not end within {seconds} s")))
        }
    }
}

/// Reads every pair in turn, and then each by its key: a library may find them in different ways.
fn read_all(kv: &dyn Kv, place: &StoreSpec<'_>) -> Result<()> {
    let can = kv.capabilities();
    let (mut keys, mut lens) = (Vec::new(), Vec::new());
    let (mut sum, mut last, mut wrong) = (0_u64, Vec::new(), false);
    let mut reader = kv.read(place)?;
    reader.scan(b"", &mut |key, value| {
        // Reads every byte: missing pages of a mapping show only then.
        sum ^= xxh3_64(value);
        wrong |= key.is_empty() || key.len() > can.key_len_max;
        wrong |= can.ordered && key <= &last[..];
        last.clear();
        last.extend_from_slice(key);
        if keys.len() < PROBE_KEYS_LEN_MAX {
            keys.extend_from_slice(key);
            lens.push(key.len());
        }
        !wrong
    })?;
    if wrong {
        return Err(Error::damaged(place.path, "invalid keys, or keys in a wrong order"));
    }
    let mut rest = &keys[..];
    let (mut before, mut beside) = (&[][..], Vec::new());
    for len in lens {
        let (key, after) = rest.split_at(len);
        rest = after;
        if !reader.get(key, &mut |value| sum ^= xxh3_64(value))? {
            return Err(Error::damaged(place.path, "a key without a value"));
        }
        // A scan may skip lost leaves; a look-up of a neighbouring key can lead into them.
        for step in [1_u8, u8::MAX].into_iter().filter(|_| can.ordered) {
            beside.clear();
            beside.extend_from_slice(key);
            if let Some(last) = beside.last_mut() {
                *last = last.wrapping_add(step);
            }
            if beside != before && !after.starts_with(&beside) {
                reader.get(&beside, &mut |value| sum ^= xxh3_64(value))?;
            }
        }
        before = key;
    }
    std::hint::black_box(sum);
    Ok(())
}

/// Returns the size of this process's address space in bytes.
fn address_space() -> Option<u64> {
    let file = OsVfs.open(Path::new("/proc/self/status"), OpenOptions::READ).ok()?;
    let mut status = vec![0; 4096];
    let len = file.read_full_at(&mut status, 0).ok()?;
    let status = String::from_utf8_lossy(&status[..len]);
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}

const FINE: u8 = 0;
const DAMAGED: u8 = 1;
const SYSTEM: u8 = 2;
const OTHER: u8 = 3;
const BUSY: u8 = 4;

/// Encodes the result of a child.
fn encode_answer(found: Result<()>) -> Vec<u8> {
    let with = |tag: u8, text: &[u8]| [&[tag], text].concat();
    match found {
        Ok(()) => vec![FINE],
        Err(Error::Damaged { what, .. }) => with(DAMAGED, what.as_bytes()),
        Err(Error::Busy { .. }) => vec![BUSY],
        Err(Error::Io { source, .. }) => match (source.kind(), source.raw_os_error()) {
            // The child had enough memory for any undamaged store.
            (io::ErrorKind::OutOfMemory, _) => with(DAMAGED, b"it asks for too much memory"),
            (_, Some(code)) => with(SYSTEM, &code.to_le_bytes()),
            (_, None) => with(OTHER, source.to_string().as_bytes()),
        },
        Err(error) => with(OTHER, error.to_string().as_bytes()),
    }
}

/// Decodes the result of a child.
fn decode_answer(path: &Path, answer: &[u8]) -> Result<()> {
    let io = |source| Err(Error::at(path)(source));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    match answer {
        [FINE] => Ok(()),
        [DAMAGED, what @ ..] => Err(Error::damaged(path, text(what))),
        [BUSY] => Err(Error::Busy { path: path.to_owned() }),
        [SYSTEM, code @ ..] => {
            let code = code.first_chunk().map_or(0, |code| i32::from_le_bytes(*code));
            io(io::Error::from_raw_os_error(code))
        }
        [OTHER, why @ ..] => io(io::Error::other(text(why))),
        _ => Err(Error::damaged(path, "a process reading it ended early")),
    }
}
