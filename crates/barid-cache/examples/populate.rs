//! Times the cache alone: `populate DIR [MESSAGES] [file|span] [THREADS]`.
#![expect(clippy::print_stdout, reason = "the figures are the output")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use barid_cache::{Builder, CacheOptions, Delta, Finish, Opened, Snapshot};
use barid_mailbox::{
    Extent, Known, Location, MessageName, ScanReport, ScanStats, ScannedMessage, Sinks, Stamp,
};
use barid_state::{Identity, MessageKey};
use barid_types::{FlagSet, InternalDate, KeywordMask, KeywordTable, ModSeq, Uid, UidValidity};
use barid_vfs::{OpenOptions, OsVfs, Vfs};

const CHUNK: u32 = 4096;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().ok_or("which folder?")?);
    let count: u32 = args.next().map_or(Ok(361_052), |count| count.parse())?;
    let files = args.next().is_some_and(|kind| kind == "file");
    let threads: u32 = args.next().map_or(Ok(1), |threads| threads.parse())?;
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    vfs.create_dir_all(&dir, 0o700)?;
    let path = dir.join("populate.bhc");
    let identity = Identity { id: 1, path: dir, inode: 1 };
    let finish = |modseq: u64| Finish {
        identity: &identity,
        format: "mboxo",
        modseq: ModSeq::new(modseq).unwrap_or(ModSeq::MAX),
        keep: None,
        unchanged: None,
    };

    let (start, busy) = (Instant::now(), busy_ms(&*vfs)?);
    let builder = Builder::create(Arc::clone(&vfs), &path, &CacheOptions::default())?;
    fill(&builder, 0..count, files, threads);
    let scanned = start.elapsed();
    let report = report(count);
    let snapshot = builder.finish(&report, &finish(1))?;
    per_message("take", scanned, count);
    per_message("take and finish", start.elapsed(), count);
    println!("{:>24}: {} ms of processor time", "of that", busy_ms(&*vfs)? - busy);
    println!("{:>24}: {} bytes", "file", snapshot.file_len());
    drop(snapshot);

    let start = Instant::now();
    let snapshot = open(&vfs, &path)?;
    println!("{:>24}: {:?}", "open", start.elapsed());
    read_all(&snapshot, count)?;

    let start = Instant::now();
    let delta = Delta::new(&snapshot);
    fill(&delta, count..count + 1, files, 1);
    let mut report = report;
    report.uidnext = Uid::new(count + 2).ok_or("too many")?;
    let snapshot = delta.apply(&report, &finish(2))?;
    println!("{:>24}: {:?}", "append one", start.elapsed());
    drop(snapshot);
    let start = Instant::now();
    let snapshot = open(&vfs, &path)?;
    println!("{:>24}: {:?}, {} messages", "open", start.elapsed(), snapshot.len());
    snapshot.discard()?;
    Ok(())
}

/// Returns the processor time of this process so far, which other work on the machine does not
/// affect.
fn busy_ms(vfs: &dyn Vfs) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    let mut stat = vec![0; 1024];
    let file = vfs.open(Path::new("/proc/self/stat"), OpenOptions::READ)?;
    let len = file.read_at(&mut stat, 0)?;
    let text = String::from_utf8_lossy(&stat[..len]).into_owned();
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Ok(ticks * 10)
}

fn per_message(what: &str, time: std::time::Duration, count: u32) {
    let nanos = time.as_nanos() / u128::from(count.max(1));
    println!("{what:>24}: {time:?}, {nanos} ns a message");
}

fn open(
    vfs: &Arc<dyn Vfs>,
    path: &Path,
) -> Result<Snapshot, Box<dyn std::error::Error + Send + Sync>> {
    match Snapshot::open(Arc::clone(vfs), path, 1)? {
        Opened::Fresh(snapshot) => Ok(snapshot),
        other => Err(format!("{other:?}").into()),
    }
}

fn read_all(
    snapshot: &Snapshot,
    count: u32,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let start = Instant::now();
    let dates = snapshot.sent_dates()?;
    per_message("dates", start.elapsed(), count);
    let start = Instant::now();
    let mut references = 0;
    snapshot.thread_rows(0..snapshot.len(), &mut |_, view| references += view.references.len())?;
    per_message("thread rows", start.elapsed(), count);
    let start = Instant::now();
    let mut names = 0;
    snapshot.visit(0, &mut |known| {
        names += known.location.message_name().is_some() as usize;
        true
    })?;
    per_message("known", start.elapsed(), count);
    let mut rows: Vec<u32> = (0..snapshot.len()).collect();
    let mut bytes = 0;
    for what in ["records in order", "records shuffled"] {
        let start = Instant::now();
        snapshot.records(&rows, &mut |_, _, record| {
            bytes += record.fields.subject.map_or(0, <[u8]>::len);
        })?;
        per_message(what, start.elapsed(), count);
        rows.sort_by_key(|row| u64::from(*row).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    let start = Instant::now();
    let last: Vec<u32> = (snapshot.len().saturating_sub(50)..snapshot.len()).collect();
    snapshot.records(&last, &mut |_, _, _| {})?;
    println!("{:>24}: {:?}", "the last 50", start.elapsed());
    println!("{:>24}: {} {references} {names} {bytes}", "seen", dates.len());
    Ok(())
}

fn fill(sinks: &dyn Sinks, rows: std::ops::Range<u32>, files: bool, threads: u32) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let rows = rows.clone();
            scope.spawn(move || {
                let mut header = Header::default();
                let mut chunk = thread;
                while rows.start + chunk * CHUNK < rows.end {
                    let first = rows.start + chunk * CHUNK;
                    let mut sink = sinks.sink(chunk);
                    for number in first..rows.end.min(first + CHUNK) {
                        let message = header.message(number, files);
                        sink.message(&message).expect("because the disk is not full");
                    }
                    sink.finish().expect("because the disk is not full");
                    chunk += threads;
                }
            });
        }
    });
}

/// A header of 2.4 KB whose few varying bytes are rewritten for each message, so that creating it
/// costs almost nothing.
#[derive(Default)]
struct Header {
    bytes: Vec<u8>,
    name: Vec<u8>,
    ids: Vec<usize>,
}

impl Header {
    fn message(&mut self, number: u32, files: bool) -> ScannedMessage<'_> {
        if self.bytes.is_empty() {
            self.make();
        }
        let digits = format!("{number:08}");
        for at in &self.ids {
            self.bytes[*at..*at + 8].copy_from_slice(digits.as_bytes());
        }
        self.name[..8].copy_from_slice(digits.as_bytes());
        let header_len = self.bytes.len() as u32;
        ScannedMessage {
            uid: Uid::new(number + 1),
            location: if files {
                Location::from(MessageName { name: &self.name, in_new: false, mark: 0 })
            } else {
                let offset = u64::from(number) * 4000;
                Location::from(Extent { offset, separator_len: 44, header_len, body_len: 1600 })
            },
            header: &self.bytes,
            size: 4000,
            rfc822_size: None,
            internal_date: InternalDate { unix_seconds: i64::from(number), zone_minutes: 60 },
            flags: FlagSet::EMPTY,
            keywords: KeywordMask(0),
            key: MessageKey(u64::from(number)),
        }
    }

    fn make(&mut self) {
        let received = "Received: from relay.example.org (relay.example.org [192.0.2.1])\n\
            \tby mail.example.net (Postfix) with ESMTP id 4F3A21B2C3\n\
            \tfor <user@example.net>; Tue,  3 Mar 2020 10:20:30 +0100 (CET)\n";
        let dkim = format!("DKIM-Signature: v=1; a=rsa-sha256;\n\tb={}\n", "QUFB".repeat(180));
        let text = received.repeat(4)
            + &dkim
            + "From: Some Body <some.body@example.org>\n\
               To: The List <list@lists.example.org>, other@example.com\n\
               Cc: third.person@example.com\n\
               Subject: [list] Re: a subject of the usual length about ########\n\
               Date: Tue, 03 Mar 2020 10:20:29 +0100\n\
               Message-ID: <20200303.########@example.org>\n\
               In-Reply-To: <20200302.########@example.com>\n\
               References: <20200301.########@example.net> <20200302.########@example.com>\n\
               MIME-Version: 1.0\n\
               Content-Type: text/plain; charset=utf-8\n"
            + &"X-Spam-Report: some words that nobody reads but everybody sends along\n".repeat(8)
            + "\n";
        self.ids = text.match_indices("########").map(|(at, _)| at).collect();
        self.bytes = text.into_bytes();
        self.name = b"00000000.M123456P789.host.example.org,S=4000:2,S".to_vec();
    }
}

fn report(count: u32) -> ScanReport {
    ScanReport {
        stamp: Stamp::default(),
        state: Vec::new(),
        uidvalidity: UidValidity::MIN,
        uidnext: Uid::new(count + 1).unwrap_or(Uid::MAX),
        keywords: KeywordTable::default(),
        reset: false,
        expunged: Vec::new(),
        changed: Vec::new(),
        new_uids: Vec::new(),
        tail_verified: false,
        size_bytes: u64::from(count) * 4000,
        defects: Vec::new(),
        stats: ScanStats::default(),
    }
}
