//! The life of a connection before login.

use std::io;
use std::time::Duration;

use barid_auth::sasl::{Failure, Mechanism, wire};
use barid_imap::backend::Refusal;
use barid_imap::session::{Login, LoginRequest, LoginSettings};
use barid_imap::wire::{Decoder, Event};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::verifier::{Verdict, Verifier};
use crate::limits::{FAILURE_DELAY, FAILURES_MAX, LOGIN_INPUT_LEN};
use crate::server_id;

/// Names and values of a client's ID.
pub(crate) type ClientId = Vec<(String, Option<String>)>;

/// Settings of connections before login.
#[derive(Clone, Debug)]
pub(crate) struct LoginRules {
    /// `true` if STARTTLS is possible.
    pub(crate) can_start_tls: bool,
    /// Capabilities that are offered to nobody.
    pub(crate) disabled: Vec<String>,
    /// Time in which the client must log in.
    pub(crate) time: Duration,
}

/// The end of the state before login.
pub(crate) enum LoginEnd<I> {
    /// A user has logged in.
    LoggedIn {
        /// Tag of the command, which is answered by the session.
        tag: String,
        /// The user, or the way to his mail.
        identity: I,
        /// The decoder with input that was not read yet.
        decoder: Box<Decoder>,
        /// The parameters of the client's ID.
        client_id: ClientId,
    },
    /// The client begins TLS.
    StartTls,
    /// The connection is closed.
    Closed,
}

/// Serves a connection until a user has logged in. `known` is the decoder of a connection that was
/// greeted before.
///
/// # Errors
/// Errors of the connection.
pub(crate) async fn login<S: AsyncRead + AsyncWrite + Unpin, V: Verifier>(
    stream: &mut S,
    verifier: V,
    rules: LoginRules,
    known: Option<Decoder>,
) -> io::Result<LoginEnd<V::Identity>> {
    let time = rules.time;
    let work = LoginConnection { stream, verifier, rules, failures: 0 };
    // A session need not keep the room of its login.
    match timeout(time, Box::pin(work.run(known))).await {
        Ok(end) => end,
        Err(_) => Ok(LoginEnd::Closed),
    }
}

struct LoginConnection<'s, S, V> {
    stream: &'s mut S,
    verifier: V,
    rules: LoginRules,
    failures: u32,
}

/// The end of an exchange of SASL.
enum ExchangeEnd<I> {
    Done(I),
    Failed(Refusal),
    Cancelled,
    Closed,
}

impl<S: AsyncRead + AsyncWrite + Unpin, V: Verifier> LoginConnection<'_, S, V> {
    async fn run(mut self, known: Option<Decoder>) -> io::Result<LoginEnd<V::Identity>> {
        let offered = self.verifier.offered().await?;
        let settings = LoginSettings {
            can_start_tls: self.rules.can_start_tls,
            allows_passwords: offered.contains(&Mechanism::Plain),
            mechanisms: offered.iter().map(|mechanism| mechanism.name().to_owned()).collect(),
            disabled: self.rules.disabled.clone(),
            id: server_id(),
        };
        let is_greeted = known.is_some();
        let mut login = Login::new(settings, known.unwrap_or_default());
        let mut out = Vec::new();
        if !is_greeted {
            login.greet("barid ready", &mut out);
        }
        loop {
            self.send(&mut out).await?;
            let event = login.poll();
            if event == Event::More {
                if !self.receive(&mut login).await? {
                    return Ok(LoginEnd::Closed);
                }
                continue;
            }
            let (tag, end) = match login.handle(event, &mut out) {
                LoginRequest::Continue | LoginRequest::Response(_) => continue,
                LoginRequest::StartTls => {
                    self.send(&mut out).await?;
                    return Ok(LoginEnd::StartTls);
                }
                LoginRequest::Close => {
                    self.send(&mut out).await?;
                    return Ok(LoginEnd::Closed);
                }
                LoginRequest::Login { tag, user, password } => {
                    let message = [&b"\0"[..], &user, b"\0", &password].concat();
                    let end = self.exchange(&mut login, Mechanism::Plain, Some(message)).await?;
                    (tag, end)
                }
                LoginRequest::Authenticate { tag, mechanism, initial } => {
                    (tag, self.authenticate(&mut login, &mechanism, initial).await?)
                }
            };
            match end {
                ExchangeEnd::Done(identity) => {
                    let client_id = login.take_client_id();
                    let decoder = Box::new(login.into_decoder());
                    return Ok(LoginEnd::LoggedIn { tag, identity, decoder, client_id });
                }
                ExchangeEnd::Closed => return Ok(LoginEnd::Closed),
                ExchangeEnd::Cancelled => {
                    let refusal = Refusal::bad("Authentication cancelled");
                    login.refuse(&tag, &refusal, &mut out);
                }
                ExchangeEnd::Failed(refusal) => {
                    self.refuse(&mut login, &tag, &refusal, &mut out).await;
                    if self.failures == FAILURES_MAX {
                        out.extend_from_slice(b"* BYE Too many failed logins\r\n");
                        self.send(&mut out).await?;
                        return Ok(LoginEnd::Closed);
                    }
                }
            }
        }
    }

    /// Counts a failed login, and writes its refusal after a while.
    async fn refuse(&mut self, login: &mut Login, tag: &str, refusal: &Refusal, out: &mut Vec<u8>) {
        self.failures += 1;
        tokio::time::sleep(FAILURE_DELAY).await;
        login.refuse(tag, refusal, out);
    }

    /// Runs the mechanism that a client names, with its initial response in base64.
    async fn authenticate(
        &mut self,
        login: &mut Login,
        mechanism: &str,
        initial: Option<Vec<u8>>,
    ) -> io::Result<ExchangeEnd<V::Identity>> {
        let decoded = initial.map(|initial| wire::decode_initial(&initial).map(|m| m.to_vec()));
        match (Mechanism::named(mechanism), decoded.transpose()) {
            (Some(mechanism), Ok(initial)) => self.exchange(login, mechanism, initial).await,
            _ => Ok(ExchangeEnd::Failed(not_base64())),
        }
    }

    /// Runs a mechanism to its end.
    async fn exchange(
        &mut self,
        login: &mut Login,
        mechanism: Mechanism,
        initial: Option<Vec<u8>>,
    ) -> io::Result<ExchangeEnd<V::Identity>> {
        let mut verdict = self.verifier.start(mechanism, initial).await?;
        loop {
            let challenge = match verdict {
                Verdict::Done(identity) => return Ok(ExchangeEnd::Done(identity)),
                Verdict::Failed(refusal) => return Ok(ExchangeEnd::Failed(refusal)),
                Verdict::Challenge(challenge) => challenge,
            };
            let mut out = Vec::new();
            login.challenge(&wire::encode(&challenge), &mut out);
            self.send(&mut out).await?;
            let line = loop {
                match login.poll() {
                    Event::Line(line) => break line,
                    Event::More if self.receive(login).await? => {}
                    _ => return Ok(ExchangeEnd::Closed),
                }
            };
            if line == b"*" {
                return Ok(ExchangeEnd::Cancelled);
            }
            let Ok(message) = wire::decode_line(&line) else {
                return Ok(ExchangeEnd::Failed(not_base64()));
            };
            verdict = self.verifier.respond(message.to_vec()).await?;
        }
    }

    async fn send(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if !out.is_empty() {
            self.stream.write_all(out).await?;
            self.stream.flush().await?;
            out.clear();
        }
        Ok(())
    }

    /// Reads input; returns `false` at its end.
    async fn receive(&mut self, login: &mut Login) -> io::Result<bool> {
        let mut buffer = [0; LOGIN_INPUT_LEN];
        let len = self.stream.read(&mut buffer).await?;
        login.receive(&buffer[..len]);
        Ok(len > 0)
    }
}

fn not_base64() -> Refusal {
    let (code, text) = Failure::Malformed("a response not in base64").response();
    Refusal::new(code, text)
}
