//! Locking options of an mbox: `--lock-timeout` and `--locks`.

use std::time::Duration;

use barid::{MboxLock, OpenOptions};
use clap::Args;
use clap::builder::PossibleValue;
use clap::{ValueEnum, value_parser};

/// Options of commands that take locks for writing.
#[derive(Clone, Debug, Args)]
pub(crate) struct LockArgs {
    /// Wait no longer than TIME for another program's lock of an mbox (as in 500ms, 30s, 2m)
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "30s")]
    lock_timeout: Duration,
    /// Take these locks of an mbox, in this order; use the same set as all other programs that
    /// write to it. Reading takes only the flock and fcntl locks among them
    #[arg(long, value_name = "LOCK,...", value_delimiter = ',', value_parser = value_parser!(Lock))]
    #[arg(default_value = "session,dotlock,flock,fcntl")]
    locks: Vec<Lock>,
}

impl LockArgs {
    /// Copies the options into those of opening a mailbox.
    pub(crate) fn apply(&self, options: &mut OpenOptions) {
        options.lock_timeout = self.lock_timeout;
        options.write_locks.clear();
        for Lock(lock) in &self.locks {
            if !options.write_locks.contains(lock) {
                options.write_locks.push(*lock);
            }
        }
    }
}

/// A lock, parsed from its name.
#[derive(Clone, Copy, Debug)]
struct Lock(MboxLock);

impl ValueEnum for Lock {
    fn value_variants<'a>() -> &'a [Self] {
        const {
            &[
                Self(MboxLock::Session),
                Self(MboxLock::Dotlock),
                Self(MboxLock::Flock),
                Self(MboxLock::Fcntl),
            ]
        }
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.0 {
            MboxLock::Session => "c-client's lock in /tmp (UW IMAP, Alpine)",
            MboxLock::Dotlock => "FILE.lock",
            MboxLock::Flock => "flock",
            MboxLock::Fcntl => "fcntl (Dovecot, mutt)",
        };
        Some(PossibleValue::new(self.0.name()).help(help))
    }
}

pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let millis = match unit.trim_start() {
        "ms" => 1,
        "" | "s" => 1000,
        "m" | "min" => 60_000,
        _ => 0,
    };
    let value = digits.parse::<u64>().ok().filter(|_| millis > 0);
    value.and_then(|value| value.checked_mul(millis)).map(Duration::from_millis).ok_or_else(|| {
        "a time is a number of seconds, or a number followed by ms, s or m".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, millis: Option<u64>) {
        assert_eq!(parse_time(text).ok(), millis.map(Duration::from_millis), "{text}");
    }

    #[test]
    fn times_have_units() {
        check("30", Some(30_000));
        check("30s", Some(30_000));
        check("500ms", Some(500));
        check("2m", Some(120_000));
        check("0", Some(0));
        for wrong in ["", "s", "-1", "1h", "1.5s", "999999999999999999m"] {
            check(wrong, None);
        }
    }

    #[test]
    fn every_lock_can_be_named() {
        let named = Lock::value_variants().iter().map(|lock| lock.0);
        assert!(named.eq(MboxLock::ALL));
    }
}
