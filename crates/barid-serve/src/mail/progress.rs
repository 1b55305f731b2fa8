//! Progress of long commands (RFC 9585).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barid::{LongOperation, Progress, ProgressFn};

/// Progress of the commands of a user.
#[derive(Debug, Default)]
pub(crate) struct UserProgress(Mutex<ProgressState>);

#[derive(Debug, Default)]
struct ProgressState {
    /// Number of commands that run.
    commands: u32,
    /// The latest report.
    latest: Option<Progress>,
}

impl UserProgress {
    fn state(&self) -> MutexGuard<'_, ProgressState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the function that mailboxes report to.
    pub(crate) fn callback(self: &Arc<Self>) -> ProgressFn {
        let progress = Arc::clone(self);
        Arc::new(move |report| {
            // The building of an index is not the progress of a command.
            if report.work != LongOperation::Index {
                progress.state().latest = Some(report);
            }
        })
    }

    pub(crate) fn begin(&self) {
        let mut state = self.state();
        state.commands += 1;
        state.latest = None;
    }

    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.commands = state.commands.saturating_sub(1);
    }

    /// Returns the units that are done, and their number in all. `None` if nothing is known, also
    /// while several commands of the user run: a report may be of any of them.
    pub(crate) fn numbers(&self) -> Option<(u32, u32)> {
        let state = self.state();
        let Progress { done, total, .. } = state.latest.filter(|_| state.commands == 1)?;
        // The numbers of the protocol have 32 bits.
        let divisor = total.div_ceil(u32::MAX.into()).max(1);
        let (done, total) = (done / divisor, total / divisor);
        let numbers = (u32::try_from(done).ok()?, u32::try_from(total).ok()?);
        (numbers.0 < numbers.1).then_some(numbers)
    }
}

#[cfg(test)]
mod tests {
    use barid::Unit;

    use super::*;

    #[test]
    fn numbers_are_those_of_the_only_command() {
        let progress = Arc::new(UserProgress::default());
        let callback = progress.callback();
        let check = |done, total, expected| {
            callback(Progress { work: LongOperation::Scan, unit: Unit::Bytes, done, total });
            assert_eq!(progress.numbers(), expected, "{done} {total}");
        };
        check(1, 3, None);
        progress.begin();
        assert_eq!(progress.numbers(), None);
        check(1, 3, Some((1, 3)));
        check(3, 3, None);
        check(0, 0, None);
        check(1 << 33, 1 << 34, Some((1_717_986_918, 3_435_973_836)));
        progress.begin();
        check(1, 3, None);
        progress.end();
        check(2, 3, Some((2, 3)));
        progress.end();
        check(2, 3, None);
    }
}
