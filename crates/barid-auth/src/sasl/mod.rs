//! The mechanisms of SASL (RFC 4422) of a server, as state machines over decoded messages.
//!
//! [`Exchange::start`] begins a mechanism; [`Exchange::respond`] takes each further message of the
//! client. Both return a [`Step`]: a challenge to send, an [`Identity`], or a [`Failure`]. [`wire`]
//! converts between messages and the lines of IMAP.
//!
//! Steps may block, as the methods of [`UserBase`] do: they compute hashes and ask authorization
//! servers.
//!
//! No mechanism is offered on a channel that others can read, unless the configuration allows it:
//! an exchange of SCRAM can be attacked with a dictionary, and the session could be taken over.

mod bearer;
mod outcome;
mod plain;
mod scram;
mod scram_message;
pub mod wire;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use barid_vfs::Host;

use self::bearer::{Bearer, BearerForm};
pub use self::outcome::{Failure, Identity, Step};
use self::plain::{LoginExchange, PlainExchange};
use self::scram::ScramExchange;
use crate::base::UserBase;
use crate::limiter::SharedLimiter;
use crate::limits::MESSAGE_LEN_MAX;
use crate::name::{NameRules, UserName};
use crate::oauth::TokenCheck;
use crate::user::User;

/// A mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mechanism {
    /// SCRAM-SHA-256-PLUS (RFC 7677), bound to the TLS channel.
    ScramSha256Plus,
    /// SCRAM-SHA-256 (RFC 7677).
    ScramSha256,
    /// OAUTHBEARER (RFC 7628).
    OauthBearer,
    /// XOAUTH2, the form of OAUTHBEARER before the RFC, of Google and Microsoft.
    Xoauth2,
    /// PLAIN (RFC 4616).
    Plain,
    /// LOGIN (draft-murchison-sasl-login).
    Login,
}

impl Mechanism {
    /// All mechanisms, in the order in which they are offered.
    pub const ALL: [Self; 6] = [
        Self::ScramSha256Plus,
        Self::ScramSha256,
        Self::OauthBearer,
        Self::Xoauth2,
        Self::Plain,
        Self::Login,
    ];

    /// Returns the registered name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ScramSha256Plus => "SCRAM-SHA-256-PLUS",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::OauthBearer => "OAUTHBEARER",
            Self::Xoauth2 => "XOAUTH2",
            Self::Plain => "PLAIN",
            Self::Login => "LOGIN",
        }
    }

    /// Returns the mechanism with a name, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name().eq_ignore_ascii_case(name))
    }
}

/// The connection of a client.
#[derive(Clone, Default)]
pub struct Channel {
    /// The address of the client; `None` for connections within the machine.
    pub peer: Option<IpAddr>,
    /// `true` if nobody else can read it: TLS, a Unix socket, or the loopback interface.
    pub is_private: bool,
    /// The channel binding `tls-exporter` (RFC 9266): 32 bytes exported by TLS 1.3.
    pub tls_exporter: Option<Vec<u8>>,
    /// The channel binding `tls-server-end-point` (RFC 5929 §4): the hash of the certificate.
    pub tls_server_end_point: Option<Vec<u8>>,
}

impl Channel {
    /// Returns the data of a type of channel binding.
    fn binding(&self, name: &[u8]) -> Option<&[u8]> {
        match name {
            b"tls-exporter" => self.tls_exporter.as_deref(),
            b"tls-server-end-point" => self.tls_server_end_point.as_deref(),
            _ => None,
        }
    }

    fn has_binding(&self) -> bool {
        self.tls_exporter.is_some() || self.tls_server_end_point.is_some()
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Channel")
            .field("peer", &self.peer)
            .field("is_private", &self.is_private)
            .field("has_binding", &self.has_binding())
            .finish()
    }
}

/// A check that comes before any verification; a [`SharedLimiter`] is one.
pub trait Gate: fmt::Debug + Send + Sync {
    /// Returns the time for which a user may not try to log in from an address; 0 if he may.
    fn delay(&self, peer: Option<IpAddr>, user: &UserName) -> Duration;
}

impl Gate for SharedLimiter {
    fn delay(&self, peer: Option<IpAddr>, user: &UserName) -> Duration {
        Self::delay(self, peer, Some(user))
    }
}

/// The settings and helpers that the mechanisms of a server share.
pub struct SaslService {
    /// Passwords and accounts.
    pub base: Arc<dyn UserBase>,
    /// The check of bearer tokens; without it OAUTHBEARER and XOAUTH2 are not offered.
    pub tokens: Option<Arc<dyn TokenCheck>>,
    /// The rules of user names.
    pub rules: NameRules,
    /// Users who may log in as any other.
    pub masters: BTreeSet<UserName>,
    /// Offers mechanisms on channels that others can read.
    pub allows_clear: bool,
    /// Mechanisms that are not offered.
    pub disabled: BTreeSet<Mechanism>,
    /// Asked before any verification.
    pub gate: Option<Arc<dyn Gate>>,
    /// The source of random bytes.
    pub host: Arc<dyn Host>,
}

impl SaslService {
    /// Creates a service of a user base, with the defaults for everything else.
    #[must_use]
    pub fn new(base: Arc<dyn UserBase>, host: Arc<dyn Host>) -> Self {
        Self {
            base,
            tokens: None,
            rules: NameRules::default(),
            masters: BTreeSet::new(),
            allows_clear: false,
            disabled: BTreeSet::new(),
            gate: None,
            host,
        }
    }

    /// Returns the mechanisms that are offered on a channel, in the order of their names' strength.
    /// A user base that does not work now offers no SCRAM.
    #[must_use]
    pub fn offered(&self, channel: &Channel) -> Vec<Mechanism> {
        let mut offered = Mechanism::ALL.to_vec();
        offered.retain(|mechanism| self.offers(*mechanism, channel));
        offered
    }

    /// Returns `true` if a mechanism is offered on a channel.
    #[must_use]
    pub fn offers(&self, mechanism: Mechanism, channel: &Channel) -> bool {
        if self.disabled.contains(&mechanism) || !(channel.is_private || self.allows_clear) {
            return false;
        }
        match mechanism {
            Mechanism::Plain | Mechanism::Login => true,
            Mechanism::OauthBearer | Mechanism::Xoauth2 => self.tokens.is_some(),
            Mechanism::ScramSha256 => self.base.offers_scram().unwrap_or(false),
            Mechanism::ScramSha256Plus => {
                channel.has_binding() && self.base.offers_scram().unwrap_or(false)
            }
        }
    }

    /// Returns the identity of a verified user who wants to act as `target`, if that is given.
    fn authorize(&self, context: &Context<'_>, user: User, target: Option<&[u8]>) -> Step {
        let login = user.name.clone();
        let target = target.filter(|target| !target.is_empty());
        let is_other = target.map(|target| self.rules.name(target));
        let user = match is_other {
            None => user,
            Some(Some(target)) if target == login => user,
            Some(Some(target)) if self.masters.contains(&login) => {
                match self.base.user(&target, context.channel.peer) {
                    Ok(Ok(user)) => user,
                    Ok(Err(refusal)) => return Step::Failed(Failure::Credentials(refusal)),
                    Err(error) => return Step::Failed(Failure::Unavailable(error)),
                }
            }
            Some(_) => return Step::Failed(Failure::Authorization),
        };
        Step::Done(Box::new(Identity { user, login, mechanism: context.mechanism }))
    }
}

impl fmt::Debug for SaslService {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SaslService")
            .field("base", &self.base)
            .field("tokens", &self.tokens)
            .field("masters", &self.masters)
            .field("allows_clear", &self.allows_clear)
            .field("disabled", &self.disabled)
            .finish_non_exhaustive()
    }
}

/// The things that a mechanism knows besides its messages.
struct Context<'a> {
    service: &'a SaslService,
    channel: &'a Channel,
    mechanism: Mechanism,
    /// The name that the client gave, for log and back-off.
    name: &'a mut Option<UserName>,
}

impl Context<'_> {
    /// Accepts the user name that a client gave, unless the gate is closed for it.
    fn named(&mut self, name: &[u8]) -> Result<UserName, Failure> {
        let Some(name) = self.service.rules.name(name) else {
            return Err(Failure::Credentials(crate::base::Refusal::UnknownUser));
        };
        *self.name = Some(name.clone());
        let gate = self.service.gate.as_deref();
        match gate.map_or(Duration::ZERO, |gate| gate.delay(self.channel.peer, &name)) {
            Duration::ZERO => Ok(name),
            delay => Err(Failure::Delayed(delay)),
        }
    }
}

/// The messages of a mechanism.
trait Conversation: Send {
    /// Returns the challenge before the first message of the client.
    fn first_challenge(&self) -> &'static [u8] {
        b""
    }

    /// Takes a message of the client.
    fn respond(&mut self, context: &mut Context<'_>, message: &[u8]) -> Step;
}

/// An authentication that goes on.
pub struct Exchange {
    service: Arc<SaslService>,
    channel: Channel,
    mechanism: Mechanism,
    name: Option<UserName>,
    /// `None` after the end.
    conversation: Option<Box<dyn Conversation>>,
}

impl Exchange {
    /// Starts a mechanism; `initial` is the client's first message, if it came with the command.
    #[must_use]
    pub fn start(
        service: Arc<SaslService>,
        channel: Channel,
        mechanism: Mechanism,
        initial: Option<&[u8]>,
    ) -> (Self, Step) {
        if !service.offers(mechanism, &channel) {
            let ended = Self { service, channel, mechanism, name: None, conversation: None };
            return (ended, Step::Failed(Failure::NotOffered));
        }
        let conversation: Box<dyn Conversation> = match mechanism {
            Mechanism::Plain => Box::new(PlainExchange),
            Mechanism::Login => Box::new(LoginExchange::default()),
            Mechanism::ScramSha256 | Mechanism::ScramSha256Plus => {
                Box::new(ScramExchange::default())
            }
            Mechanism::OauthBearer => Box::new(Bearer::new(BearerForm::Rfc7628)),
            Mechanism::Xoauth2 => Box::new(Bearer::new(BearerForm::Xoauth2)),
        };
        let challenge = conversation.first_challenge();
        let conversation = Some(conversation);
        let mut exchange = Self { service, channel, mechanism, name: None, conversation };
        let step = match initial {
            None => Step::Challenge(challenge.to_vec()),
            Some(message) => exchange.respond(message),
        };
        (exchange, step)
    }

    /// Takes the client's answer to the last challenge.
    pub fn respond(&mut self, message: &[u8]) -> Step {
        let Some(mut conversation) = self.conversation.take() else {
            return Step::Failed(Failure::Malformed("a message after the end"));
        };
        if message.len() > MESSAGE_LEN_MAX {
            return Step::Failed(Failure::Malformed("a message that is too long"));
        }
        let mut context = Context {
            service: &self.service,
            channel: &self.channel,
            mechanism: self.mechanism,
            name: &mut self.name,
        };
        let step = conversation.respond(&mut context, message);
        if matches!(step, Step::Challenge(_)) {
            self.conversation = Some(conversation);
        }
        step
    }

    /// Returns the user name that the client gave so far: for the log and for counting failures.
    /// Of mechanisms with a token it is the name of a token that was valid.
    #[must_use]
    pub fn name(&self) -> Option<&UserName> {
        self.name.as_ref()
    }

    /// Returns the mechanism.
    #[must_use]
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Exchange")
            .field("mechanism", &self.mechanism)
            .field("name", &self.name)
            .field("has_ended", &self.conversation.is_none())
            .finish_non_exhaustive()
    }
}
