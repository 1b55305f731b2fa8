//! A client of the daemon that keeps a word list open (`docs/formats/spam-daemon.md`): it requests
//! counts, so that a process that classifies one message need not open the list. Everything else,
//! and everything once the daemon does not answer, uses the list itself.

mod frame;

use std::io::{self, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use barid_vfs::{OsVfs, Vfs};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

pub use self::frame::Frame;

use crate::limits::DAEMON_ANSWER_LEN_MAX;
use crate::{
    AnyList, Batch, Beside, Counts, Decide, Receipt, Result, Rewritten, TokenEntry, Updated, Visit,
    WordList, open_list,
};

/// Timeout of an answer, after which the list itself is used: a suspended daemon must not delay
/// mail.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A connection with a deadline for the whole of an answer.
#[derive(Debug)]
struct Hasty {
    stream: UnixStream,
    until: Instant,
}

impl Read for Hasty {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

/// A list and its daemon.
#[derive(Debug)]
struct Remote {
    path: PathBuf,
    stream: Option<BufReader<Hasty>>,
    /// The list itself, once it is needed.
    local: Option<AnyList>,
    generation: u64,
}

/// Returns the default path of the socket of a word list's daemon: beside the list, with `.socket`
/// appended to its name.
pub fn socket_of(list: &Path) -> PathBuf {
    let mut path = list.as_os_str().to_owned();
    path.push(".socket");
    path.into()
}

/// Connects to the daemon of the word list at `path`, if one listens.
pub fn connect(path: &Path) -> Option<AnyList> {
    let address = SocketAddrUnix::new(socket_of(path)).ok()?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    // This fails at once if too many clients wait already, or nobody accepts connections.
    net::connect(&socket, &address).ok()?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false).ok()?;
    stream.set_write_timeout(Some(TIMEOUT)).ok()?;
    let stream = Some(BufReader::new(Hasty { stream, until: Instant::now() }));
    Some(Box::new(Remote { path: path.to_owned(), stream, local: None, generation: 0 }))
}

impl Remote {
    fn ask(&mut self, tokens: &[&[u8]], counts: &mut [Counts]) -> io::Result<()> {
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let mut request = Frame::new("counts");
        for token in tokens {
            request.body.extend_from_slice(token);
            request.body.push(0);
        }
        stream.get_mut().until = Instant::now() + TIMEOUT;
        request.write(&mut stream.get_mut().stream)?;
        let answer = Frame::read(stream, DAEMON_ANSWER_LEN_MAX)?;
        let answer = answer.filter(|answer| answer.verb == "ok");
        let answer = answer.filter(|answer| answer.body.len() == 8 * tokens.len());
        let answer = answer.ok_or(io::ErrorKind::InvalidData)?;
        for (found, bytes) in counts.iter_mut().zip(answer.body.chunks_exact(8)) {
            let number = |at: usize| {
                bytes[at..].iter().take(4).rev().fold(0, |all, byte| all << 8 | u32::from(*byte))
            };
            *found = Counts::new(number(0), number(4));
        }
        let generation = answer.field("generation").and_then(|value| str::from_utf8(value).ok());
        self.generation = generation.and_then(|value| value.parse().ok()).unwrap_or_default();
        Ok(())
    }

    fn local(&mut self) -> Result<&mut AnyList> {
        if self.local.is_none() {
            let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
            self.local = Some(open_list(&vfs, &self.path)?);
        }
        Ok(self.local.as_mut().expect("because it was opened"))
    }
}

impl WordList for Remote {
    fn generation(&self) -> u64 {
        self.local.as_ref().map_or(self.generation, |list| list.generation())
    }

    fn refresh(&mut self) -> Result<bool> {
        // The daemon refreshes the list with each question.
        self.local.as_mut().map_or(Ok(true), |list| list.refresh())
    }

    fn counts(&mut self, tokens: &[&[u8]], counts: &mut [Counts]) -> Result<()> {
        if tokens.is_empty() {
            return Ok(());
        }
        if self.ask(tokens, counts).is_ok() {
            return Ok(());
        }
        self.stream = None;
        self.local()?.counts(tokens, counts)
    }

    fn entry(&mut self, token: &[u8]) -> Result<Option<TokenEntry>> {
        self.local()?.entry(token)
    }

    fn receipts(&mut self, contents: &[u128]) -> Result<Vec<Option<Receipt>>> {
        self.local()?.receipts(contents)
    }

    fn update(&mut self, batch: &Batch) -> Result<Updated> {
        self.local()?.update(batch)
    }

    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        self.local()?.scan(visit)
    }

    fn rewrite_beside(
        &mut self,
        decide: &mut Decide<'_>,
        beside: &mut Beside<'_>,
    ) -> Result<Rewritten> {
        self.local()?.rewrite_beside(decide, beside)
    }
}
