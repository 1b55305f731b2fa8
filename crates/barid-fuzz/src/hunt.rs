//! Runs a target on one input after another, and reports the first that breaks a promise.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::limits::INPUT_TIME_MAX;
use crate::{Target, input};

/// Interval at which the time of an input is looked at.
const TICK: Duration = Duration::from_millis(50);

/// End of a hunt that fails nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// After this many inputs.
    Inputs(u64),
    /// After this time.
    Time(Duration),
}

/// Result of a hunt that found nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of inputs that were run.
    pub inputs: u64,
    /// Number of the input that took longest.
    pub slowest: u64,
    /// Time that it took.
    pub slowest_time: Duration,
}

/// The promise that an input broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breach {
    /// The target panicked with this message.
    Panic(String),
    /// The target did not return within [`INPUT_TIME_MAX`]. Its thread is left behind.
    Slow,
}

/// An input that broke a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Name of the target.
    pub target: &'static str,
    /// Number of the input.
    pub number: u64,
    /// The input.
    pub bytes: Vec<u8>,
    /// The promise.
    pub breach: Breach,
}

/// Progress of the thread that runs the inputs.
#[derive(Debug, Default)]
struct Running {
    number: AtomicU64,
    since: Mutex<Option<Instant>>,
    is_over: AtomicBool,
}

impl Running {
    fn since(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a target on the inputs from number `first` on. `before` is called with the number of each
/// input before it runs, for programs whose target may end the process.
///
/// # Errors
/// Returns the first [`Failure`].
pub fn hunt(
    target: &'static Target,
    first: u64,
    extent: Extent,
    before: impl Fn(u64) + Send + 'static,
) -> Result<Tally, Box<Failure>> {
    let running = Arc::new(Running::default());
    let (send, receive) = channel();
    let worker = Arc::clone(&running);
    // Not a scoped thread: one that never returns must not keep the caller.
    thread::spawn(move || {
        // The receiver is gone only if the hunt has failed already.
        drop(send.send(run(target, first, extent, &worker, &before)));
    });
    let result = watch(&running, &receive);
    result.map_err(|(number, breach)| {
        let bytes = input(target, &(target.seeds)(), number);
        Box::new(Failure { target: target.name, number, bytes, breach })
    })
}

type Outcome = Result<Tally, (u64, Breach)>;

fn watch(running: &Running, receive: &Receiver<Outcome>) -> Outcome {
    loop {
        match receive.recv_timeout(TICK) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Disconnected) => {
                let number = running.number.load(Ordering::Relaxed);
                return Err((number, Breach::Panic("the thread ended".to_owned())));
            }
            Err(RecvTimeoutError::Timeout) => {
                let since = *running.since();
                if since.is_some_and(|since| since.elapsed() > INPUT_TIME_MAX) {
                    running.is_over.store(true, Ordering::Relaxed);
                    return Err((running.number.load(Ordering::Relaxed), Breach::Slow));
                }
            }
        }
    }
}

fn run(
    target: &'static Target,
    first: u64,
    extent: Extent,
    running: &Running,
    before: &dyn Fn(u64),
) -> Outcome {
    let seeds = (target.seeds)();
    let start = Instant::now();
    let mut tally = Tally::default();
    for number in first.. {
        let is_enough = match extent {
            Extent::Inputs(count) => tally.inputs >= count,
            Extent::Time(time) => start.elapsed() >= time,
        };
        if is_enough || running.is_over.load(Ordering::Relaxed) {
            break;
        }
        let bytes = input(target, &seeds, number);
        before(number);
        let since = Instant::now();
        running.number.store(number, Ordering::Relaxed);
        *running.since() = Some(since);
        let result = catch_unwind(AssertUnwindSafe(|| (target.run)(&bytes)));
        *running.since() = None;
        if let Err(panic) = result {
            return Err((number, Breach::Panic(message_of(&*panic))));
        }
        tally.inputs += 1;
        if since.elapsed() > tally.slowest_time {
            (tally.slowest, tally.slowest_time) = (number, since.elapsed());
        }
    }
    Ok(tally)
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    static PANICS: Target = Target {
        name: "test-panics",
        run: |bytes| assert!(!bytes.contains(&b'!'), "an exclamation mark"),
        seeds: || vec![b"fine".to_vec(), b"fine, too".to_vec()],
        words: &["!"],
        inputs: 0,
    };

    #[test]
    fn the_first_input_that_panics_is_returned_and_can_be_repeated() {
        let failure = hunt(&PANICS, 0, Extent::Inputs(100_000), |_| {}).unwrap_err();
        assert_eq!(failure.breach, Breach::Panic("an exclamation mark".to_owned()));
        assert!(failure.bytes.contains(&b'!'));
        assert_eq!(input(&PANICS, &(PANICS.seeds)(), failure.number), failure.bytes);
        let again = hunt(&PANICS, failure.number, Extent::Inputs(1), |_| {}).unwrap_err();
        assert_eq!(again, failure);
    }

    #[test]
    fn inputs_are_counted() {
        let tally = hunt(&PANICS, 0, Extent::Inputs(2), |_| {}).unwrap();
        assert_eq!(tally.inputs, 2);
    }
}
