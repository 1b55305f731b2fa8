//! `barid spam daemon`: the filter as a service, with the word list open.
//!
//! It has two sockets: one for programs of the same user, whose protocol is in
//! `docs/formats/spam-daemon.md`, and one for mail servers, with the milter protocol. Each
//! connection has a thread; as many messages as there are cores are processed at once.

mod milter;
mod requests;
mod serve;

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use barid_serve::socket::{Address, SocketError, SocketListener, Stream};
use barid_spam::bayes::Status;
use barid_spam::wordlist::remote::socket_of;
use barid_spam::{Classified, ConcurrentFilter, Filter, SpamOptions};
use clap::{Args, ValueHint};

use super::ScoringArgs;
use super::damage::{WAY_OUT, in_words};
use crate::context::Context;
use crate::exit::{Outcome, WithHint};
use crate::output::escape::visible;
use crate::output::number::size;
use crate::signals;

use milter::{Rules, Verdict};
use serve::{Busy, Turns};

const EXAMPLES: &str = "\
Examples:
  barid spam daemon                        serve programs of the same user
  barid spam daemon --milter /var/spool/postfix/barid.sock --milter-mode 666
  barid spam daemon --milter inet:127.0.0.1:8893 --reject-spam
  postconf -e smtpd_milters=inet:127.0.0.1:8893 milter_default_action=accept

The milter adds the field X-Bogosity at the end of each header and removes those that the sender
wrote. A message that cannot be classified passes without the field.

SIGTERM or SIGHUP ends the daemon; running requests have up to 20 seconds to finish. Restart it
after `barid spam tune --save`.";

/// Serve programs and mail servers with the word list kept open
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct DaemonArgs {
    /// Listen to programs at PATH [default: the word list's path followed by `.socket`, where
    /// `barid bogofilter` looks for it]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    socket: Option<PathBuf>,
    /// Permissions of the socket, as an octal mode
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = parse_mode)]
    socket_mode: u32,
    /// Listen to mail servers at PATH, unix:PATH or inet:HOST:PORT
    #[arg(long, value_name = "ADDRESS", value_hint = ValueHint::FilePath)]
    milter: Option<Address>,
    /// Permissions of the socket, as an octal mode
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = parse_mode)]
    #[arg(requires = "milter")]
    milter_mode: u32,
    /// Reject spam from mail servers
    #[arg(long, requires = "milter", conflicts_with = "quarantine")]
    reject_spam: bool,
    /// Have mail servers quarantine spam for a human to check
    #[arg(long, requires = "milter")]
    quarantine: bool,
    /// Largest number of connections of programs, and of mail servers, at a time. Others wait until
    /// one ends; after 10 seconds the one without progress for the longest time is closed
    #[arg(long, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Largest size of a message: only its first BYTES are used from mail servers; from programs, a
    /// larger one is refused
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20)]
    #[arg(value_parser = clap::value_parser!(u64).range(1024..=1 << 30))]
    message_size: u64,
    /// Close connections that are silent for SECONDS, or that take longer for a request, for a
    /// phase of a message (its sender, its recipients, its text), or to read an answer
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    #[command(flatten)]
    scoring: ScoringArgs,
}

fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "an octal mode, as in 660".to_owned())
}

/// A log to standard error, for use by all threads.
#[derive(Clone, Copy, Debug)]
struct Log {
    is_quiet: bool,
    is_verbose: bool,
}

impl Log {
    fn warn(self, text: &str) {
        if !self.is_quiet {
            line("warning", text);
        }
    }

    fn detail(self, text: &str) {
        if self.is_verbose {
            line("note", text);
        }
    }
}

fn line(kind: &str, text: &str) {
    let line = format!("{kind}: {}\n", visible(text.as_bytes()));
    // Nobody reads a closed standard error.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// The state that all connections share.
struct Daemon<'a> {
    shared_filter: ConcurrentFilter<'a>,
    filter: &'a Filter,
    /// Number of places of damage of the list that were reported.
    told: AtomicUsize,
    turns: Turns,
    rules: Rules,
    log: Log,
}

/// Serves connections until a signal requests the end.
pub(crate) fn run(context: &mut Context, args: &DaemonArgs) -> anyhow::Result<Outcome> {
    let options = SpamOptions {
        // A message is processed by the thread of its connection.
        threads: 1,
        ..SpamOptions::default()
    };
    let filter = args.scoring.filter(context, options)?;
    let end = end_on_signal()?;
    let log = Log { is_quiet: context.global.quiet, is_verbose: context.global.verbose };
    let daemon = daemon(&filter, args, log);
    daemon.look_at_list()?;
    let listeners = listen(context, args)?;
    let places: Vec<String> = listeners.iter().map(SocketListener::place).collect();
    let text = match &places[..] {
        [programs, mail_servers] => {
            format!("listening at {programs}, to mail servers at {mail_servers}")
        }
        _ => format!("listening at {}", places.concat()),
    };
    context.out.line(&visible(text.as_bytes()))?;
    context.out.flush()?;
    let timeout = Duration::from_secs(args.timeout);
    let serve = |listener: usize, stream: Stream, busy: &Busy| daemon.serve(listener, stream, busy);
    serve::serve(&listeners, &end, args.connections.into(), timeout, &serve)
        .context("waiting for connections")?;
    Ok(Outcome::Done)
}

fn daemon<'a>(filter: &'a Filter, args: &DaemonArgs, log: Log) -> Daemon<'a> {
    let rules = Rules {
        message_len_max: args.message_size as usize,
        rejects: args.reject_spam,
        quarantines: args.quarantine,
    };
    let turns = Turns::new(thread::available_parallelism().map_or(1, usize::from));
    Daemon {
        shared_filter: filter.concurrent(),
        filter,
        told: AtomicUsize::new(0),
        turns,
        rules,
        log,
    }
}

fn listen(context: &Context, args: &DaemonArgs) -> anyhow::Result<Vec<SocketListener>> {
    let path = match &args.socket {
        Some(path) => path.clone(),
        None => socket_of(&args.scoring.list.path(context)?),
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let made = barid::vfs::create_dir_durable(&barid::vfs::OsVfs, folder, 0o700);
        made.with_context(|| folder.display().to_string())?;
    }
    let mut listeners = vec![bind(&Address::Unix(path), args.socket_mode)?];
    if let Some(milter) = &args.milter {
        listeners.push(bind(milter, args.milter_mode)?);
    }
    Ok(listeners)
}

fn bind(address: &Address, mode: u32) -> anyhow::Result<SocketListener> {
    let listener = SocketListener::bind(address, mode).map_err(|error| {
        let hint = match error {
            SocketError::PathTooLong(_) => {
                "name a shorter path, as with --socket /run/user/1000/barid.sock; \
                 `barid bogofilter` then does without the daemon"
            }
            SocketError::InUse(_) => "stop that one first, or name another --socket",
            SocketError::Foreign(_) | SocketError::NotASocket(_) => "name another path",
            _ => return error.into(),
        };
        WithHint::error(error.to_string(), hint)
    })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Returns a socket that becomes readable when a signal requests the end. A second signal ends the
/// program at once.
fn end_on_signal() -> anyhow::Result<UnixStream> {
    let (end, told) = UnixStream::pair().context("a pair of sockets")?;
    let at = "signals cannot be caught";
    signals::set_on_signal(&Arc::default()).context(at)?;
    for signal in signals::ending() {
        signal_hook::low_level::pipe::register(signal, told.try_clone()?).context(at)?;
    }
    Ok(end)
}

impl Daemon<'_> {
    /// Fails if the list cannot be used; a missing one is only a warning, since it may be created
    /// later.
    fn look_at_list(&self) -> anyhow::Result<()> {
        let counts = self.shared_filter.counts(&[barid_spam::wordlist::keys::MSG_COUNT]);
        self.warn_of_damage();
        match counts {
            Err(barid_spam::Error::WordList(
                error @ barid_spam::wordlist::Error::NotFound { .. },
            )) => {
                self.log.warn(&format!("{error}; mail passes unclassified until it exists"));
                Ok(())
            }
            counts => Ok(counts.map(drop)?),
        }
    }

    fn serve(&self, listener: usize, stream: Stream, busy: &Busy) {
        let served = match listener {
            0 => requests::serve(self, stream, busy),
            _ => milter::serve(stream, self.rules, busy, &|message| self.judge(message)),
        };
        if let Err(error) = served {
            self.log.detail(&format!("a connection ended: {error}"));
        }
    }

    /// Warns once of each damage of the list, whose sound parts are used.
    fn warn_of_damage(&self) {
        let known = self.told.load(Ordering::Relaxed);
        let damage = self.filter.damage(known);
        let Some(text) = in_words(&damage) else { return };
        let (told, order) = (known + damage.len(), Ordering::Relaxed);
        if self.told.compare_exchange(known, told, order, order).is_ok() {
            self.log.warn(&format!("{text}; {WAY_OUT}"));
        }
    }

    fn classify(&self, message: &[u8], explains: bool) -> barid_spam::Result<Classified> {
        let found = self.turns.with(|| self.shared_filter.classify(message, explains));
        self.warn_of_damage();
        found
    }

    /// Classifies a message for the milter; `None` if that fails.
    fn judge(&self, message: &[u8]) -> Option<Verdict> {
        match self.classify(message, false) {
            Err(error) => {
                self.log.warn(&format!("a message passes unclassified: {error}"));
                None
            }
            Ok(found) => {
                let verdict = Verdict { status: found.status, line: line_of(&found) };
                let len = size(message.len() as u64);
                self.log.detail(&format!("a message of {len}: {}", verdict.line));
                Some(verdict)
            }
        }
    }
}

/// Returns the value of X-Bogosity, as bogofilter writes it.
fn line_of(found: &Classified) -> String {
    let name = match found.status {
        Status::Spam => "Spam",
        Status::Ham => "Ham",
        Status::Unsure => "Unsure",
    };
    format!("{name}, tests=bogofilter, spamicity={:.6}, version=1.2.5", found.spamicity)
}
