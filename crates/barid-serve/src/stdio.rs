//! A session over standard input and output, for a client that starts the program itself: `ssh host
//! barid serve --stdio` as a tunnel of mbsync, NeoMutt or offlineimap.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use barid::Cancel;
use barid_imap::session::{Session, SessionSettings};
use barid_imap::wire::Decoder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, Stdin, Stdout};

use crate::connection::{StopRequest, serve};
use crate::mail::{SessionAccount, UserMail};
use crate::server_id;

/// Standard input and output as one stream.
struct Stdio {
    input: Stdin,
    output: Stdout,
}

impl AsyncRead for Stdio {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stdio {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.output).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.output).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.output).poll_shutdown(context)
    }
}

/// Serves one session over standard input and output, until it ends or the input does. Everything
/// that was acknowledged is durable.
///
/// # Errors
/// Errors of the streams.
pub fn serve_stdio(user: UserMail) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let cancel = Cancel::new();
    let user = Arc::new(user);
    let account = SessionAccount::new(Arc::clone(&user), cancel.clone());
    let settings =
        SessionSettings { can_compress: true, id: server_id(), ..SessionSettings::default() };
    let session = Box::new(Session::new(account, settings, Decoder::new()));
    let stream = Stdio { input: tokio::io::stdin(), output: tokio::io::stdout() };
    let end = runtime.block_on(serve(stream, session, None, cancel, StopRequest::never()));
    // The next process would list its mailboxes again.
    user.wait_until_read();
    // A read of standard input cannot be cancelled, and must not keep the process alive.
    runtime.shutdown_background();
    end.map(drop)
}
