//! The life of a connection after login.

use std::future::{Future, pending, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use barid::{Cancel, Subscription};
use barid_imap::backend::Output;
use barid_imap::session::{Next, Session};
use barid_imap::wire::{Decoder, Event};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, interval_at, sleep, sleep_until, timeout};

use super::compression::Deflate;
use super::output::output;
use crate::limits::{
    IDLE_NOTE_PERIOD, IDLE_TIMEOUT, INPUT_LEN, NAMES_PERIOD, PROGRESS_PERIOD, SESSION_TIMEOUT,
    SLOW_READER_TIMEOUT,
};
use crate::log::{RawDirection, RawLog};
use crate::mail::SessionAccount;

/// The end of a session.
pub(crate) enum SessionEnd {
    /// The connection is closed.
    Closed,
    /// The client has returned to the state before login (RFC 8437).
    Unauthenticated(Box<Decoder>),
}

type UserSession = Session<SessionAccount>;

/// A request to end a session from outside, with a text for the client.
#[derive(Clone, Debug)]
pub(crate) struct StopRequest(watch::Receiver<Option<&'static str>>);

impl StopRequest {
    /// Creates a request that the sender makes by sending the text.
    pub(crate) fn new() -> (watch::Sender<Option<&'static str>>, Self) {
        let (sender, receiver) = watch::channel(None);
        (sender, Self(receiver))
    }

    /// Creates a request that is never made.
    pub(crate) fn never() -> Self {
        Self::new().1
    }

    /// Waits until the request is made.
    async fn made(&mut self) -> &'static str {
        match self.0.wait_for(Option::is_some).await.map(|text| *text) {
            Ok(Some(text)) => text,
            _ => pending().await,
        }
    }
}

/// A connection with a session.
struct Connection<S> {
    stream: S,
    stop: StopRequest,
    /// `None` while the session runs on another thread, and after a panic there.
    session: Option<Box<UserSession>>,
    deflate: Option<Deflate>,
    progress_period: Duration,
    /// The log of the protocol, for a user who wants one.
    rawlog: Option<RawLog>,
    /// Woken when the selected mailbox changes.
    changed: Arc<Notify>,
}

/// Serves a session until it ends. `login_tag` is that of the command that logged in; `None` for a
/// connection without login.
///
/// # Errors
/// Errors of the connection.
pub(crate) fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    session: Box<UserSession>,
    login_tag: Option<String>,
    cancel: Cancel,
    stop: StopRequest,
) -> impl Future<Output = io::Result<SessionEnd>> {
    serve_logged(stream, session, login_tag, cancel, stop, None)
}

/// Serves a session as [`serve`], and writes its protocol to a log.
///
/// # Errors
/// As [`serve`].
pub(crate) async fn serve_logged<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    session: Box<UserSession>,
    login_tag: Option<String>,
    cancel: Cancel,
    stop: StopRequest,
    rawlog: Option<RawLog>,
) -> io::Result<SessionEnd> {
    let changed = Arc::clone(session.account().wake());
    let mut connection = Connection {
        stream,
        stop,
        session: Some(session),
        deflate: None,
        progress_period: PROGRESS_PERIOD,
        rawlog,
        changed,
    };
    let end = connection.serve(login_tag).await;
    // Nothing is begun on behalf of the client any more.
    cancel.cancel();
    let session = connection.session.take();
    if let (Ok(Next::Unauthenticate), Some(session)) = (&end, session) {
        return Ok(SessionEnd::Unauthenticated(Box::new(session.into_decoder())));
    }
    end.map(|_| SessionEnd::Closed)
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn serve(&mut self, login_tag: Option<String>) -> io::Result<Next> {
        let greet = move |session: &mut UserSession, out: &mut dyn Output| match &login_tag {
            Some(tag) => session.greet_login(tag, out),
            None => session.greet_preauth("barid ready", out),
        };
        self.run(greet).await?;
        let end = self.commands().await;
        // Closing a mailbox may write flags.
        let session = self.session.take();
        let is_kept = matches!(end, Ok(Next::Unauthenticate));
        let closed = spawn_blocking(move || if is_kept { session } else { None }).await;
        self.session = closed.unwrap_or_default();
        end
    }

    async fn commands(&mut self) -> io::Result<Next> {
        loop {
            match self.drain().await? {
                Next::Continue => {
                    if !self.wait().await? {
                        return Ok(Next::Close);
                    }
                }
                Next::Idle => {
                    if !self.idle().await? {
                        return Ok(Next::Close);
                    }
                }
                Next::Compress => {
                    self.deflate = Some(Deflate::new());
                    let unread = self.session()?.take_unread();
                    self.feed(&unread)?;
                }
                end @ Next::Unauthenticate => {
                    if let Some(deflate) = self.deflate.take() {
                        self.feed(&deflate.into_plain())?;
                    }
                    return Ok(end);
                }
                Next::Close => return Ok(Next::Close),
            }
        }
    }

    /// Waits between commands for input, and announces the events that the client has asked for
    /// (RFC 5465); `false` if the connection ends.
    async fn wait(&mut self) -> io::Result<bool> {
        let end = Instant::now() + SESSION_TIMEOUT;
        let notifies = self.session()?.notifies();
        let _subscription = if notifies { self.subscribe()? } else { None };
        let mut stop = self.stop.clone();
        // There may have been a change between the last look and the subscription.
        let mut is_changed = notifies;
        loop {
            let announce = |session: &mut UserSession, out: &mut dyn Output| session.announce(out);
            let is_possible = is_changed && self.session()?.is_between_commands();
            if is_possible && self.run(announce).await? == Next::Close {
                return Ok(false);
            }
            tokio::select! {
                read = read_piece(&mut self.stream) => {
                    let piece = read?;
                    self.feed(&piece)?;
                    return Ok(!piece.is_empty());
                }
                text = stop.made() => return self.bye(text).await.map(|_| false),
                () = self.changed.notified(), if notifies => is_changed = true,
                () = sleep(NAMES_PERIOD), if notifies => is_changed = true,
                () = sleep_until(end) => {
                    return self.bye("Autologout: no command for long").await.map(|_| false);
                }
            }
        }
    }

    fn session(&mut self) -> io::Result<&mut UserSession> {
        self.session.as_deref_mut().ok_or_else(|| io::Error::other("the session has failed"))
    }

    async fn bye(&mut self, text: &str) -> io::Result<Next> {
        self.send(format!("* BYE {text}\r\n").as_bytes(), true).await?;
        Ok(Next::Close)
    }

    /// Passes input to the session.
    fn feed(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Self { session, deflate, rawlog, .. } = self;
        let session = session.as_mut().ok_or_else(|| io::Error::other("the session has failed"))?;
        let mut receive = |piece: &[u8]| {
            write_raw(rawlog, RawDirection::In, piece);
            session.receive(piece);
            Ok(())
        };
        match deflate {
            None => receive(bytes),
            Some(deflate) => deflate.decompress(bytes, &mut receive),
        }
    }

    /// Runs all complete events.
    async fn drain(&mut self) -> io::Result<Next> {
        let session = self.session()?;
        let first = session.poll();
        if first == Event::More {
            return Ok(if session.is_idle() { Next::Idle } else { Next::Continue });
        }
        self.run(move |session, out| {
            let mut event = first;
            loop {
                let next = session.handle(event, out);
                if !matches!(next, Next::Continue | Next::Idle) {
                    return next;
                }
                event = session.poll();
                if event == Event::More {
                    return next;
                }
            }
        })
        .await
    }

    /// Runs the session on a thread that may wait, and sends what it writes meanwhile.
    async fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut UserSession, &mut dyn Output) -> T + Send + 'static,
    ) -> io::Result<T> {
        let session = self.session.take();
        let mut session = session.ok_or_else(|| io::Error::other("the session has failed"))?;
        let progress = session.account().progress();
        let (mut out, mut pieces, running_command) = output(progress);
        let period = self.progress_period;
        let mut notes = interval_at(Instant::now() + period, period);
        let running = spawn_blocking(move || {
            let result = work(&mut session, &mut out);
            (session, result)
        });
        let mut sent = Ok(());
        loop {
            let (piece, is_last) = tokio::select! {
                biased;
                piece = pieces.recv() => match piece {
                    Some(piece) => (piece, pieces.is_empty()),
                    None => break,
                },
                now = notes.tick() => match running_command.line(now - period / 2) {
                    Some(line) if pieces.is_empty() => (line.into_bytes(), true),
                    _ => continue,
                },
            };
            sent = self.send(&piece, is_last).await;
            if sent.is_err() {
                // The session sees that the client is gone.
                pieces.close();
                break;
            }
        }
        let (session, result) = running.await.map_err(io::Error::other)?;
        self.session = Some(session);
        sent.map(|()| result)
    }

    async fn send(&mut self, bytes: &[u8], flush: bool) -> io::Result<()> {
        let Self { stream, deflate, rawlog, .. } = self;
        write_raw(rawlog, RawDirection::Out, bytes);
        let compressed = deflate.as_mut().map(|deflate| deflate.compress(bytes, flush));
        let compressed = compressed.transpose()?;
        let write = async {
            stream.write_all(compressed.as_deref().unwrap_or(bytes)).await?;
            if flush { stream.flush().await } else { Ok(()) }
        };
        let written = timeout(SLOW_READER_TIMEOUT, write).await;
        written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Subscribes to changes of the selected mailbox.
    fn subscribe(&mut self) -> io::Result<Option<Subscription>> {
        let changed = Arc::clone(&self.changed);
        let selected = self.session()?.selected();
        let wake = move |_: &barid::View| changed.notify_one();
        Ok(selected.map(|mailbox| mailbox.shared().subscribe(wake)))
    }

    /// Waits in IDLE for input, and announces changes; `false` if the connection ends.
    async fn idle(&mut self) -> io::Result<bool> {
        let _subscription = self.subscribe()?;
        let end = Instant::now() + IDLE_TIMEOUT;
        let mut note_at = Instant::now() + IDLE_NOTE_PERIOD;
        let notifies = self.session()?.notifies();
        // There may have been a change between the last look and the subscription.
        let mut is_changed = true;
        let mut stop = self.stop.clone();
        loop {
            let announce = |session: &mut UserSession, out: &mut dyn Output| session.announce(out);
            if is_changed && self.run(announce).await? == Next::Close {
                return Ok(false);
            }
            tokio::select! {
                read = read_piece(&mut self.stream) => {
                    let piece = read?;
                    self.feed(&piece)?;
                    return Ok(!piece.is_empty());
                }
                text = stop.made() => return self.bye(text).await.map(|_| false),
                () = self.changed.notified() => is_changed = true,
                () = sleep(NAMES_PERIOD), if notifies => is_changed = true,
                () = sleep_until(note_at) => {
                    note_at = Instant::now() + IDLE_NOTE_PERIOD;
                    if Instant::now() > end {
                        return self.bye("IDLE lasted too long").await.map(|_| false);
                    }
                    self.send(b"* OK Still here\r\n", true).await?;
                    is_changed = false;
                }
            }
        }
    }
}

/// Writes to the log of the protocol. Without space for it the session goes on without the log.
fn write_raw(rawlog: &mut Option<RawLog>, direction: RawDirection, bytes: &[u8]) {
    if let Some(log) = rawlog
        && log.write(direction, bytes).is_err()
    {
        *rawlog = None;
    }
}

/// Reads what is there; empty at the end. A connection without input has no buffer.
async fn read_piece<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Vec<u8>> {
    poll_fn(|context| {
        let mut space = [MaybeUninit::uninit(); INPUT_LEN];
        let mut piece = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut *stream).poll_read(context, &mut piece))?;
        Poll::Ready(Ok(piece.filled().to_vec()))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::io::AsyncReadExt as _;

    use barid_imap::session::SessionSettings;
    use flate2::{Compress, Compression, FlushCompress};

    use super::*;
    use crate::mail::test_session;

    /// Compresses bytes.
    fn deflated(bytes: &[u8], how: FlushCompress) -> Vec<u8> {
        let mut out = Vec::with_capacity(1000);
        let mut compress = Compress::new(Compression::fast(), false);
        compress.compress_vec(bytes, &mut out, how).unwrap();
        out
    }

    /// Logs out of a compressed session; returns the input that is left for the next login.
    fn unauthenticated(sent: &[u8]) -> Vec<u8> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (stream, mut client) = tokio::io::duplex(64 * 1024);
        let settings = SessionSettings {
            can_compress: true,
            can_unauthenticate: true,
            ..SessionSettings::default()
        };
        let never = StopRequest::never();
        let served = serve(stream, Box::new(test_session(settings)), None, Cancel::new(), never);
        runtime.block_on(async move {
            let talk = async {
                let mut text = String::new();
                let mut piece = vec![0; 4096];
                client.write_all(b"a COMPRESS DEFLATE\r\n").await.unwrap();
                while !text.contains("a OK") {
                    let len = client.read(&mut piece).await.unwrap();
                    text.push_str(&String::from_utf8_lossy(&piece[..len]));
                }
                client.write_all(sent).await.unwrap();
                let len = client.read(&mut piece).await.unwrap();
                let mut answer = Vec::new();
                let mut take = |piece: &[u8]| {
                    answer.extend_from_slice(piece);
                    Ok(())
                };
                Deflate::new().decompress(&piece[..len], &mut take).unwrap();
                assert_eq!(answer, b"b OK Unauthenticated\r\n");
            };
            match tokio::join!(served, talk).0.unwrap() {
                SessionEnd::Unauthenticated(mut decoder) => decoder.take(),
                SessionEnd::Closed => panic!("closed"),
            }
        })
    }

    #[test]
    fn compression_ends_with_unauthenticate() {
        let command = b"b UNAUTHENTICATE\r\n";
        assert_eq!(unauthenticated(&deflated(command, FlushCompress::Sync)), b"");
        // A client that ends its stream may send its next login ahead.
        let mut sent = deflated(command, FlushCompress::Finish);
        sent.extend_from_slice(b"c LOGIN");
        assert_eq!(unauthenticated(&sent), b"c LOGIN");
    }

    #[test]
    fn progress_is_announced_until_a_command_writes() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (stream, mut client) = tokio::io::duplex(64 * 1024);
        let (session, stop, changed) =
            (test_session(SessionSettings::default()), StopRequest::never(), Arc::default());
        let period = Duration::from_millis(20);
        let mut connection = Connection {
            stream,
            stop,
            session: Some(Box::new(session)),
            deflate: None,
            rawlog: None,
            progress_period: period,
            changed,
        };
        let (seen, wait) = mpsc::channel::<()>();
        let work = move |_: &mut UserSession, out: &mut dyn Output| {
            out.write(b"* BEFORE\r\n");
            out.begin_command("a\\1");
            wait.recv().unwrap();
            out.write(b"a1 OK (");
            std::thread::sleep(period * 5);
            out.write(b")\r\n")
        };
        let text = runtime.block_on(async move {
            let run = async {
                assert!(connection.run(work).await.unwrap());
                drop(connection);
            };
            let read = async {
                let mut text = String::new();
                let mut piece = vec![0; 1024];
                loop {
                    let len = client.read(&mut piece).await.unwrap();
                    text.push_str(&String::from_utf8_lossy(&piece[..len]));
                    if text.matches("INPROGRESS").count() >= 2 {
                        let _ = seen.send(());
                    }
                    if len == 0 {
                        return text;
                    }
                }
            };
            tokio::join!(run, read).1
        });
        let line = "* OK [INPROGRESS (\"a\\\\1\" NIL NIL)] Still working\r\n";
        let notes = text.matches(line).count();
        assert!(notes >= 2, "{text}");
        assert_eq!(text, format!("* BEFORE\r\n{}a1 OK ()\r\n", line.repeat(notes)));
    }
}
