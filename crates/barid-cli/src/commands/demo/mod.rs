//! `barid demo`: opens generated mail for the first time and again, and times it.

mod folder;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use barid::{Mailbox, OpenOptions, SortKey, SortProgram, ThreadAlgorithm, Threads, Window};
use barid_corpus::Corpus;
use barid_corpus::boxes::{MboxOptions, MboxVariant};
use clap::Args;

use self::folder::TemporaryFolder;
use crate::commands::thread::print_trees;
use crate::context::Context;
use crate::exit::Outcome;
use crate::lines::write_lines;
use crate::mail::line::MessageLine;
use crate::output::json::Json;
use crate::output::number::{counted, duration, grouped, size};
use crate::output::sink::Sink;
use crate::output::style::Style;
use crate::output::table::{Align, Table};

/// A fixed seed, so that the demonstration is reproducible.
const SEED: u64 = 2026;
/// Messages listed by "the newest".
const NEWEST: u32 = 50;
/// Threads shown at the end.
const THREADS_SHOWN: usize = 4;
/// Wait after writing: a mailbox that just changed is scanned again; two seconds suffice on every
/// file system.
const QUIET: Duration = Duration::from_millis(2100);

const EXAMPLES: &str = "\
Examples:
  barid demo
  barid demo --keep                        keep the mailboxes to play with
  barid demo --messages 100000";

/// Show what barid does, on generated mail in a temporary folder
///
/// Generates a Maildir and an mbox of the same messages, opens each twice, shows the newest
/// threads, and prints the time of each step. Your own mail and caches are not touched.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Generate N messages
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    messages: u64,
    /// Keep the folder and print its path
    #[arg(long)]
    keep: bool,
}

/// One of the two mailboxes, with the times of its steps.
#[derive(Debug)]
struct Tour {
    name: &'static str,
    path: PathBuf,
    bytes: u64,
    steps: [Duration; STEPS.len()],
}

/// The steps: a name for JSON and one for people.
const STEPS: [(&str, &str); 6] = [
    ("first_open_ms", "first open: read every message"),
    ("first_threads_ms", "first threads"),
    ("open_again_ms", "open again"),
    ("newest_ms", "open again, list the newest 50 by date"),
    ("all_ms", "open again, list all"),
    ("threads_ms", "open again, thread all"),
];

/// Makes the mailboxes, runs the steps on them, and prints the times.
pub(crate) fn run(context: &mut Context, args: &DemoArgs) -> anyhow::Result<Outcome> {
    let scratch = TemporaryFolder::new("demo").context("the temporary folder cannot be made")?;
    let folder = scratch.path().to_owned();
    let mut options = OpenOptions::new(Some(folder.join("cache")), folder.join("state"));
    options.store = context.global.store;
    options.compression = context.global.compress;
    options.full_check = context.global.full_check;
    let written = Instant::now();
    print_activity(
        context,
        &format!("Making {} in {}", counted(args.messages, "message"), folder.display()),
    )?;
    let mut tours = make(&folder, args.messages).context("the mailboxes cannot be written")?;
    let made = duration(written.elapsed());
    let quiet_since = Instant::now();
    print_activity(context, &format!("Made a Maildir and an mbox in {made}; opening both"))?;
    let threads = open_first(&mut tours, &options)?;
    std::thread::sleep(QUIET.saturating_sub(quiet_since.elapsed()));
    for tour in &mut tours {
        open_again(tour, &options)?;
    }
    if context.global.json {
        tours.iter().for_each(|tour| write_json(context.out.buffer(), tour, args.messages));
    } else {
        show(context, &tours, &options, &threads)?;
    }
    finish(context, scratch, args.keep)?;
    Ok(Outcome::Done)
}

/// Prints the current activity for people.
fn print_activity(context: &mut Context, text: &str) -> anyhow::Result<()> {
    if !context.global.json && !context.global.quiet {
        context.out.line(text)?;
        context.out.flush()?;
    }
    Ok(())
}

fn make(folder: &Path, messages: u64) -> anyhow::Result<[Tour; 2]> {
    let corpus = Corpus::new(SEED, messages);
    let steps = [Duration::ZERO; STEPS.len()];
    let (maildir, mbox) = (folder.join("Maildir"), folder.join("archive.mbox"));
    let maildir_bytes = corpus.write_maildir(&maildir)?.bytes;
    let mbox_bytes = corpus.write_mbox(&mbox, MboxOptions::new(MboxVariant::Mboxrd))?.bytes;
    Ok([
        Tour { name: "maildir", path: maildir, bytes: maildir_bytes, steps },
        Tour { name: "mbox", path: mbox, bytes: mbox_bytes, steps },
    ])
}

fn timed<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, Duration)> {
    let started = Instant::now();
    Ok((work()?, started.elapsed()))
}

fn open(tour: &Tour, options: &OpenOptions) -> anyhow::Result<Mailbox> {
    Ok(Mailbox::open(&tour.path.to_string_lossy(), options)?)
}

/// Opens mailboxes without a cache; returns the threads of the first.
fn open_first(tours: &mut [Tour; 2], options: &OpenOptions) -> anyhow::Result<Threads> {
    let mut shown = Threads::default();
    for tour in tours.iter_mut().rev() {
        let (mut mailbox, opened) = timed(|| open(tour, options))?;
        let (threads, threaded) = timed(|| Ok(mailbox.threads(ThreadAlgorithm::Refs)?))?;
        // Sort orders are computed on first use.
        mailbox.sorted(&by_date(), Window::Last(NEWEST))?;
        (tour.steps[0], tour.steps[1]) = (opened, threaded);
        shown = threads;
    }
    Ok(shown)
}

fn open_again(tour: &mut Tour, options: &OpenOptions) -> anyhow::Result<()> {
    tour.steps[2] = timed(|| open(tour, options))?.1;
    tour.steps[3] = timed(|| list(tour, options, Window::Last(NEWEST)))?.1;
    tour.steps[4] = timed(|| list(tour, options, Window::All))?.1;
    tour.steps[5] = timed(|| Ok(open(tour, options)?.threads(ThreadAlgorithm::Refs)?))?.1;
    Ok(())
}

fn by_date() -> SortProgram {
    SortProgram(vec![(SortKey::Date, false)])
}

/// Lists messages like `ls`, and discards the output.
fn list(tour: &Tour, options: &OpenOptions, window: Window) -> anyhow::Result<()> {
    let mut mailbox = open(tour, options)?;
    let rows = mailbox.sorted(&by_date(), window)?.rows;
    let uidnext = mailbox.status().uidnext;
    let mut nowhere = Sink::discarding();
    write_lines(&mut nowhere, &mailbox, &rows, || MessageLine::new(None, Style::PLAIN, uidnext))
}

fn show(
    context: &mut Context,
    tours: &[Tour; 2],
    options: &OpenOptions,
    threads: &Threads,
) -> anyhow::Result<()> {
    let mailbox = open(&tours[0], options)?;
    let (bold, reset) = (context.style.bold, context.style.reset);
    let found = counted(threads.len() as u64, "thread");
    context.out.line(&format!("\n{bold}The newest of {found}{reset}\n"))?;
    print_trees(context, &mailbox, threads, Some(THREADS_SHOWN))?;
    context.out.line(&format!("\n{bold}Times{reset}\n"))?;
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right]);
    table.row([String::new(), "Maildir".to_owned(), "mbox".to_owned()]);
    let both = |text: &dyn Fn(&Tour) -> String| [text(&tours[0]), text(&tours[1])];
    let mut row = |name: &str, [maildir, mbox]: [String; 2]| {
        table.row([name.to_owned(), maildir, mbox]);
    };
    row("size", both(&|tour| size(tour.bytes)));
    for (step, (_, name)) in STEPS.into_iter().enumerate() {
        row(name, both(&|tour| duration(tour.steps[step])));
    }
    table.write(context.out.buffer(), "  ");
    let len = grouped(mailbox.len().into());
    context.out.line(&format!(
        "\nEach mailbox has {len} messages. Opening it again reads only the cache."
    ))?;
    Ok(())
}

fn write_json(out: &mut Vec<u8>, tour: &Tour, messages: u64) {
    let mut json = Json::line(out, "demo");
    json.key("mailbox").str(tour.name);
    json.key("messages").number(messages);
    json.key("size_bytes").number(tour.bytes);
    for ((key, _), time) in STEPS.into_iter().zip(tour.steps) {
        json.key(key).millis(time);
    }
    json.end_line();
}

fn finish(context: &mut Context, scratch: TemporaryFolder, keep: bool) -> anyhow::Result<()> {
    if !keep {
        return Ok(());
    }
    let folder = scratch.path().display().to_string();
    scratch.keep();
    print_activity(context, &format!("\nKept in {folder}. Try:"))?;
    print_activity(context, &format!("  barid ls --sort date --limit 20 {folder}/Maildir"))?;
    print_activity(
        context,
        &format!("  barid thread --algorithm refs --newest 10 {folder}/archive.mbox"),
    )
}
