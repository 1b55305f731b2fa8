//! Times the scan of an mbox: `mbox_scan generate FILE MESSAGES` writes one, `mbox_scan scan FILE
//! THREADS [TIMES]` reads it with a sink that parses every header, as a header cache would.
#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use barid_formats::MboxMailbox;
use barid_mailbox::{EmptyKnown, ScanContext, ScanSink, ScannedMessage, SinkError, Sinks, Storage};
use barid_message::HeaderFields;
use barid_state::{Access, Identity, Ledger};
use barid_testkit::boxes::{MboxOptions, MboxVariant};
use barid_testkit::corpus::{Corpus, Profile};
use barid_vfs::{OsVfs, Vfs};

/// Counts the fields that it finds.
#[derive(Default)]
struct Parse(AtomicU64);

struct ParseChunk<'a>(u64, &'a AtomicU64);

impl Sinks for Parse {
    fn sink(&self, _chunk: u32) -> Box<dyn ScanSink + '_> {
        Box::new(ParseChunk(0, &self.0))
    }
}

impl ScanSink for ParseChunk<'_> {
    fn message(&mut self, message: &ScannedMessage<'_>) -> Result<(), SinkError> {
        let fields = HeaderFields::scan(message.header);
        self.0 += u64::from(fields.message_id.is_some()) + u64::from(fields.subject.is_some());
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        self.1.fetch_add(self.0, Ordering::Relaxed);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[1..] {
        ["generate", file, messages] => {
            let corpus = Corpus::with_profile(1, messages.parse()?, Profile::Classic);
            let written =
                corpus.write_mbox(Path::new(file), MboxOptions::new(MboxVariant::Mboxo))?;
            println!("{written:?}");
            Ok(())
        }
        ["scan", file, threads] => scan(Path::new(file), threads.parse()?, 5),
        ["scan", file, threads, times] => scan(Path::new(file), threads.parse()?, times.parse()?),
        _ => Err("usage: mbox_scan generate FILE MESSAGES | scan FILE THREADS [TIMES]".into()),
    }
}

fn scan(path: &Path, threads: usize, times: u32) -> Result<(), Box<dyn Error>> {
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let mailbox = MboxMailbox::open(Arc::clone(&vfs), path, None)?;
    let state = PathBuf::from(format!("{}.state", path.display()));
    vfs.create_dir_all(&state, 0o700)?;
    for id in 0..u128::from(times) {
        let identity = Identity { id, path: path.to_owned(), inode: 0 };
        let mut ledger = Ledger::open(Arc::clone(&vfs), &state, &identity, Access::ReadWrite)?;
        let mut context = ScanContext {
            ledger: &mut ledger,
            read_only: false,
            full_check: false,
            will_rescan: false,
            threads,
            progress: None,
        };
        let sinks = Parse::default();
        let start = Instant::now();
        let report = mailbox.scan(&EmptyKnown::default(), &sinks, &mut context)?;
        let elapsed = start.elapsed();
        println!(
            "{} messages, {} bytes read of {}, {} fields: {:.3} s",
            report.stats.messages_read,
            report.stats.bytes_read,
            report.size_bytes,
            sinks.0.into_inner(),
            elapsed.as_secs_f64(),
        );
        vfs.remove_file(&state.join(format!("{id:032x}.ledger")))?;
        let _ = vfs.remove_file(&state.join(format!("{id:032x}.lock")));
    }
    Ok(())
}
