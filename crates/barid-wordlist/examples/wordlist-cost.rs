//! Measures a native word list: `wordlist-cost DIR [TOKENS|DUMP]...`. Each argument is a number of
//! made-up tokens (10000, 500000 and 5000000 by default) or a dump of `bogoutil -d`.
//!
//! Prints for each list: its size in bytes, in total and per token; the time to build it; median
//! times of opening it, of looking up 300 tokens with a handle opened for that and with one that
//! stays open, and of training a message; the time of a dump; and the median time of a lookup with
//! a handle opened for it while the table is not in the page cache.
#![expect(clippy::print_stdout, reason = "the figures are the output")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use barid_vfs::{OsVfs, Vfs};
use barid_wordlist::{Batch, Counts, Created, Native, WordList, dump};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const DATE: u32 = 20_261_122;
/// Tokens of a message.
const LOOKUPS: usize = 300;
const RUNS: usize = 101;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().ok_or("which folder?")?);
    let mut given: Vec<String> = args.collect();
    if given.is_empty() {
        given = ["10000", "500000", "5000000"].map(str::to_owned).to_vec();
    }
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    vfs.create_dir_all(&dir, 0o700)?;
    println!(
        "{:>9} {:>10} {:>6} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "tokens",
        "bytes",
        "each",
        "build s",
        "open us",
        "once us",
        "again us",
        "train us",
        "dump ms",
        "cold ms"
    );
    given.iter().try_for_each(|given| match given.parse() {
        Ok(size) => run(&vfs, &dir, &(0..size).map(entry).collect::<Vec<_>>()),
        Err(_) => run(&vfs, &dir, &read(&*vfs, Path::new(given))?),
    })
}

/// Returns a token with a length and a prefix that are typical of mail.
fn token(number: u32) -> Vec<u8> {
    const PREFIXES: [&str; 10] = ["", "", "", "", "", "subj:", "head:", "rcvd:", "from:", "mime:"];
    let mut random = fastrand::Rng::with_seed(u64::from(number));
    let mut token = PREFIXES[random.usize(0..PREFIXES.len())].as_bytes().to_vec();
    (0..random.usize(3..13)).for_each(|_| token.push(random.u8(b'a'..=b'z')));
    token.extend_from_slice(&base36(number));
    token
}

fn base36(mut number: u32) -> Vec<u8> {
    let mut text = Vec::new();
    while number > 0 {
        text.push(b"0123456789abcdefghijklmnopqrstuvwxyz"[number as usize % 36]);
        number /= 36;
    }
    text
}

/// Returns a token and its counts; about half of all tokens were seen once.
fn entry(number: u32) -> (Vec<u8>, Counts) {
    let mut random = fastrand::Rng::with_seed(!u64::from(number));
    let spam = 1 << random.u32(0..12).saturating_sub(5);
    let counts = if random.bool() { Counts::new(spam, 0) } else { Counts::new(1, spam - 1) };
    (token(number), counts)
}

/// Reads the tokens of a dump and their counts.
fn read(vfs: &dyn Vfs, path: &Path) -> Result<Vec<(Vec<u8>, Counts)>> {
    let text = vfs.read(path, 1 << 32)?;
    let entry = |line: &[u8]| -> Option<(Vec<u8>, Counts)> {
        let mut columns = line.split(|byte| *byte == b' ');
        let token = columns.next()?.to_vec();
        let mut number = || std::str::from_utf8(columns.next()?).ok()?.parse().ok();
        Some((token, Counts::new(number()?, number()?)))
    };
    Ok(text.split(|byte| *byte == b'\n').filter_map(entry).collect())
}

fn run(vfs: &Arc<dyn Vfs>, dir: &Path, entries: &[(Vec<u8>, Counts)]) -> Result<()> {
    let size = entries.len();
    let path = dir.join(format!("list-{size}"));
    let built = build(vfs, &path, entries)?;
    let bytes = vfs.metadata(&path)?.size;
    let mut random = fastrand::Rng::with_seed(7);
    // Most tokens of a message are in the list.
    let mut message = || -> Vec<Vec<u8>> {
        let mut tokens: Vec<Vec<u8>> = (0..LOOKUPS)
            .map(|nth| {
                let mut token = entries[random.usize(0..size)].0.clone();
                token.extend_from_slice(if nth % 8 == 0 { b"?" } else { b"" });
                token
            })
            .collect();
        tokens.sort_unstable();
        tokens
    };
    let messages: Vec<Vec<Vec<u8>>> = (0..RUNS).map(|_| message()).collect();
    let list = Native::open(Arc::clone(vfs), &path)?;
    let opened = median(&messages, |_| {
        std::hint::black_box(Native::open(Arc::clone(vfs), &path)?);
        Ok(())
    })?;
    let once = |message: &Vec<Vec<u8>>| {
        let mut list = Native::open(Arc::clone(vfs), &path)?;
        look(&mut list, message)
    };
    let once_warm = median(&messages, once)?;
    let mut staying = Native::open(Arc::clone(vfs), &path)?;
    for _ in 0..if size > 1_000_000 { 600 } else { 60 } {
        look(&mut staying, &message())?;
    }
    let again = median(&messages, |message| look(&mut staying, message))?;
    drop(list);
    let mut text = Vec::with_capacity(bytes as usize * 4);
    let start = Instant::now();
    dump(&mut staying, &mut text, None)?;
    let dumped = start.elapsed();
    let mut cold: Vec<Duration> = Vec::new();
    for message in messages.iter().take(9).filter(|_| forget(&path)) {
        forget(&path);
        let start = Instant::now();
        once(message)?;
        cold.push(start.elapsed());
    }
    cold.sort_unstable();
    let cold = cold.get(cold.len() / 2).copied().unwrap_or_default();
    let trained = median(&messages[..31], |message| train(&mut staying, message))?;
    println!(
        "{size:>9} {bytes:>10} {:>6.1} {:>8.2} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.2}",
        bytes as f64 / size as f64,
        built.as_secs_f64(),
        us(opened),
        us(once_warm),
        us(again),
        us(trained),
        us(dumped) / 1e3,
        us(cold) / 1e3,
    );
    Ok(())
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn build(vfs: &Arc<dyn Vfs>, path: &Path, entries: &[(Vec<u8>, Counts)]) -> Result<Duration> {
    let created = Created { date: DATE, encoding: None };
    let mut list = Native::open_or_create(Arc::clone(vfs), path, &created)?;
    let mut batch = Batch::new(DATE);
    for (token, counts) in entries {
        batch.change(token, *counts, Counts::default())?;
    }
    let start = Instant::now();
    list.update(&batch)?;
    Ok(start.elapsed())
}

fn look(list: &mut Native, message: &[Vec<u8>]) -> Result<()> {
    let tokens: Vec<&[u8]> = message.iter().map(|token| &token[..]).collect();
    let mut counts = [Counts::default(); LOOKUPS];
    list.counts(&tokens, &mut counts)?;
    std::hint::black_box(counts);
    Ok(())
}

fn train(list: &mut Native, message: &[Vec<u8>]) -> Result<()> {
    let mut batch = Batch::new(DATE);
    for token in message {
        batch.change(token, Counts::new(1, 0), Counts::default())?;
    }
    batch.messages(Counts::new(1, 0), Counts::default())?;
    list.update(&batch)?;
    Ok(())
}

fn median<T>(all: &[T], mut run: impl FnMut(&T) -> Result<()>) -> Result<Duration> {
    let mut times = Vec::new();
    for one in all {
        let start = Instant::now();
        run(one)?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// Evicts the table from the page cache, with dd of the GNU coreutils.
fn forget(path: &Path) -> bool {
    let mut dd = std::process::Command::new("dd");
    dd.arg(format!("if={}", path.display())).args(["iflag=nocache", "count=0", "status=none"]);
    dd.status().is_ok_and(|status| status.success())
}
