//! The check of a client's credentials, as the state before login sees it: in this process, or in
//! another one.

use std::io;
use std::sync::Arc;

use barid_auth::sasl::{Channel, Exchange, Identity, Mechanism, SaslService, Step};
use barid_imap::backend::Refusal;
use tokio::task::spawn_blocking;

/// The result of a message of the client.
pub(crate) enum Verdict<I> {
    /// The server sends this challenge, and the client answers.
    Challenge(Vec<u8>),
    /// The client is logged in.
    Done(I),
    /// The client is not logged in.
    Failed(Refusal),
}

/// The check of the credentials of one connection.
pub(crate) trait Verifier {
    /// The user, or the way to his mail.
    type Identity;

    /// Returns the mechanisms that are offered.
    async fn offered(&mut self) -> io::Result<Vec<Mechanism>>;

    /// Begins a mechanism, and ends one that was under way.
    async fn start(
        &mut self,
        mechanism: Mechanism,
        initial: Option<Vec<u8>>,
    ) -> io::Result<Verdict<Self::Identity>>;

    /// Takes the answer to a challenge.
    async fn respond(&mut self, message: Vec<u8>) -> io::Result<Verdict<Self::Identity>>;
}

/// The check in this process.
pub(crate) struct LocalVerifier {
    sasl: Arc<SaslService>,
    channel: Channel,
    exchange: Option<Exchange>,
}

impl LocalVerifier {
    pub(crate) fn new(sasl: Arc<SaslService>, channel: Channel) -> Self {
        Self { sasl, channel, exchange: None }
    }

    fn take(&mut self, exchange: Exchange, step: Step) -> Verdict<Box<Identity>> {
        self.exchange = None;
        match step {
            Step::Challenge(challenge) => {
                self.exchange = Some(exchange);
                Verdict::Challenge(challenge)
            }
            Step::Done(identity) => Verdict::Done(identity),
            Step::Failed(failure) => {
                let (code, text) = failure.response();
                Verdict::Failed(Refusal::new(code, text))
            }
        }
    }
}

impl Verifier for LocalVerifier {
    type Identity = Box<Identity>;

    async fn offered(&mut self) -> io::Result<Vec<Mechanism>> {
        let (sasl, channel) = (Arc::clone(&self.sasl), self.channel.clone());
        // A user base may have to look at its file.
        blocking(move || sasl.offered(&channel)).await
    }

    async fn start(
        &mut self,
        mechanism: Mechanism,
        initial: Option<Vec<u8>>,
    ) -> io::Result<Verdict<Box<Identity>>> {
        let (sasl, channel) = (Arc::clone(&self.sasl), self.channel.clone());
        // Hashes take long, by intention.
        let start = move || Exchange::start(sasl, channel, mechanism, initial.as_deref());
        let (exchange, step) = blocking(start).await?;
        Ok(self.take(exchange, step))
    }

    async fn respond(&mut self, message: Vec<u8>) -> io::Result<Verdict<Box<Identity>>> {
        let exchange = self.exchange.take();
        let mut exchange = exchange.ok_or_else(|| io::Error::other("no exchange is under way"))?;
        let (exchange, step) = blocking(move || {
            let step = exchange.respond(&message);
            (exchange, step)
        })
        .await?;
        Ok(self.take(exchange, step))
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)
}
