//! The signals that ask for an end (SIGINT, SIGTERM, SIGHUP and others) while a command changes
//! something.
//!
//! A command that only reads ends at once, as a signal does by default. One that changes a mailbox
//! or a word list sets a flag instead, and the work ends after its current step. That step may wait
//! for the disk, so a thread answers the first signal: it reports what is done so far. A second
//! signal ends the program at once; nothing is lost by that, since every change survives a crash.
//!
//! While a mailbox is opened or input is awaited, no change is in progress, and the first signal
//! ends the program ([`while_idle`]).

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use barid::vfs::{OpenOptions, OsVfs, Vfs as _};
use barid::{LongOperation, Progress, Unit};
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ,
};
use signal_hook::{flag, low_level};

use crate::limits::PROCESS_STATUS_LEN_MAX;
use crate::output::number::{counted, grouped, size};

/// A command that ends within this time after a signal reports the result itself.
const ANSWER_AFTER: Duration = Duration::from_millis(300);

/// `true` while no change is in progress.
static IS_IDLE: AtomicBool = AtomicBool::new(false);
/// The progress reported last.
static LAST: Mutex<Option<Progress>> = Mutex::new(None);

/// Signals that end a program and may come from outside.
const ENDING: [i32; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGALRM, SIGUSR1, SIGXCPU];

/// Makes the signals that ask for an end set a flag; the second one ends the program at once.
pub(crate) fn set_on_signal(stop: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in ending() {
        flag::register_conditional_default(signal, Arc::clone(stop))?;
        flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}

/// Returns the signals that ask for an end. One that is ignored, as SIGHUP by `nohup`, stays so.
pub(crate) fn ending() -> impl Iterator<Item = i32> {
    let ignored = ignored();
    ENDING.into_iter().filter(move |signal| ignored >> (signal - 1) & 1 == 0)
}

/// Returns the signals that this process was started to ignore, a bit each, as Linux reports them;
/// 0 if unknown.
fn ignored() -> u64 {
    let status = OsVfs.open(Path::new("/proc/self/status"), OpenOptions::READ);
    let mut bytes = [0; PROCESS_STATUS_LEN_MAX];
    let Ok(len) = status.and_then(|status| status.read_full_at(&mut bytes, 0)) else { return 0 };
    let text = String::from_utf8_lossy(&bytes[..len]);
    let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Does the same as [`set_on_signal`], for work whose steps may be long: the first signal is
/// answered on standard error, unless `quiet`.
pub(crate) fn answer_signals(stop: &Arc<AtomicBool>, quiet: bool) -> io::Result<()> {
    set_on_signal(stop)?;
    let (mut woken, waker) = UnixStream::pair()?;
    let which = Arc::new(AtomicUsize::new(0));
    for signal in ending() {
        flag::register_usize(signal, Arc::clone(&which), signal as usize)?;
        low_level::pipe::register(signal, waker.try_clone()?)?;
    }
    let answer = move || {
        if woken.read_exact(&mut [0]).is_err() {
            return;
        }
        if IS_IDLE.load(Ordering::SeqCst) {
            // The flag is set, so this acts as the second signal.
            let _ = low_level::raise(which.load(Ordering::SeqCst) as i32);
        }
        std::thread::sleep(ANSWER_AFTER);
        if !quiet {
            // Nobody reads a closed standard error.
            let _ = io::stderr().write_all(answer().as_bytes());
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(answer)?;
    Ok(())
}

/// Runs work during which no change is in progress: a signal that asks for an end ends the program.
pub(crate) fn while_idle<T>(work: impl FnOnce() -> T) -> T {
    let before = set_idle(true);
    let result = work();
    set_idle(before);
    result
}

/// Declares that from now on no change is in progress, or that one may be; returns the state
/// before.
pub(crate) fn set_idle(is_idle: bool) -> bool {
    IS_IDLE.swap(is_idle, Ordering::SeqCst)
}

/// Notes the progress that the answer to a signal reports.
pub(crate) fn note_progress(progress: &Progress) {
    if progress.work != LongOperation::Scan
        && let Ok(mut last) = LAST.try_lock()
    {
        *last = Some(*progress);
    }
}

/// Returns the answer to the first signal.
fn answer() -> String {
    let done = LAST.lock().ok().and_then(|last| *last).map(|last| {
        let of = |done: String, total: String| format!("{done} of {total} done; ");
        match last.unit {
            Unit::Bytes => of(size(last.done), size(last.total)),
            Unit::Messages => of(grouped(last.done), counted(last.total, "message")),
            Unit::Trials => of(grouped(last.done), counted(last.total, "trial")),
            Unit::Steps => of(grouped(last.done), counted(last.total, "step")),
        }
    });
    let done = done.unwrap_or_default();
    // The terminal may show a progress line.
    let (start, end) = if io::stderr().is_terminal() { ("\r", "\x1b[K") } else { ("", "") };
    format!(
        "{start}note: interrupted: {done}ending after this step; a second signal ends it now{end}\n"
    )
}

/// Makes a write beyond the limit of file sizes an error, which leaves a mailbox unchanged, instead
/// of killing the program in mid-write: delivery agents set such a limit.
pub(crate) fn survive_size_limits() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(drop)
}

/// Ignores requests to release a lock. c-client sends SIGUSR2 to the holder of a session lock,
/// which would end a program that does not expect it; barid holds a lock for one change only, so
/// the other program need not ask.
pub(crate) fn ignore_requests_for_locks() -> io::Result<()> {
    flag::register(SIGUSR2, Arc::new(AtomicBool::new(false))).map(drop)
}
