//! The messages between the processes of a server.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use barid_auth::sasl::{Channel, Mechanism};
use barid_auth::{NameRules, User};
use serde::{Deserialize, Serialize};

use super::link::{bytes, some_bytes};
use super::setup::Protocol;
use crate::connection::ClientId;
use crate::delivery::DeliveryErrorKind;

/// Number of an attempt to log in, made by the front; no number is used twice.
pub(crate) type AttemptId = u64;
/// Number of a session, made by the supervisor.
pub(crate) type SessionId = u64;
/// Number of a link between a front and an auth process, made by the supervisor.
pub(crate) type LoginLinkId = u64;

/// Severity of a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Level {
    Info,
    Warning,
    Error,
}

/// A line for the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LogLine {
    pub(crate) level: Level,
    pub(crate) text: String,
    pub(crate) user: Option<String>,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) session: Option<SessionId>,
}

impl LogLine {
    pub(crate) fn new(level: Level, text: impl Into<String>) -> Self {
        Self { level, text: text.into(), user: None, peer: None, session: None }
    }
}

/// From the supervisor to the front.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToFront {
    /// A certificate, which the next settings put to use.
    Certificate(Box<TlsText>),
    /// First, and again after a reload; with capabilities that are offered to nobody.
    Settings(FrontSettings, Vec<String>),
    /// The socket of a listener.
    Listener { id: u64, protocol: Protocol },
    /// Ends a listener.
    CloseListener { id: u64 },
    /// The link to the auth process.
    LoginLink,
    /// The socket of a session, for an attempt that auth has verified.
    Session { attempt: AttemptId },
    /// Refuses an attempt that auth has verified.
    Refused { attempt: AttemptId, code: RefusalCode, text: String },
    /// The answer to [`FromFront::Metrics`].
    Metrics { id: u64, text: String },
    /// Accepts nothing any more, and ends connections that have not logged in.
    Stop,
}

/// Settings of the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FrontSettings {
    /// Connections at once.
    pub(crate) connections: usize,
    /// Connections at once that have not logged in; beyond it the oldest of them ends.
    pub(crate) before_login: usize,
    /// Connections at once from an address (IPv6: from a /64).
    pub(crate) per_address: usize,
    /// Time in which a client must log in.
    pub(crate) login_timeout: Duration,
}

impl Default for FrontSettings {
    /// Admits nobody.
    fn default() -> Self {
        Self { connections: 0, before_login: 0, per_address: 0, login_timeout: Duration::ZERO }
    }
}

/// A certificate with its key, in PEM.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TlsText {
    /// Names of the server for which it is used; those in it if empty.
    pub(crate) names: Vec<String>,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl std::fmt::Debug for TlsText {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("TlsText(..)")
    }
}

/// Response codes of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RefusalCode {
    AuthenticationFailed,
    AuthorizationFailed,
    Cannot,
    Unavailable,
    Limit,
    ContactAdmin,
}

impl RefusalCode {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::AuthenticationFailed => "AUTHENTICATIONFAILED",
            Self::AuthorizationFailed => "AUTHORIZATIONFAILED",
            Self::Cannot => "CANNOT",
            Self::Unavailable => "UNAVAILABLE",
            Self::Limit => "LIMIT",
            Self::ContactAdmin => "CONTACTADMIN",
        }
    }

    /// Returns the code with a text; those that `barid_auth` does not know are unavailability.
    pub(crate) fn of(text: &str) -> Self {
        let all = [Self::AuthenticationFailed, Self::AuthorizationFailed, Self::Cannot];
        all.into_iter().find(|code| code.text() == text).unwrap_or(Self::Unavailable)
    }
}

/// From the front to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromFront {
    /// It accepts connections.
    Ready,
    Log(LogLine),
    /// Asks again for a socket that it could not take, because it had no free descriptor.
    Lost(LostSocket),
    /// Asks for the metrics; `connections` are those that are open, `accepted` all so far,
    /// `refused` those beyond a limit.
    Metrics {
        id: u64,
        connections: u64,
        accepted: u64,
        refused: u64,
    },
}

/// A socket that the front could not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LostSocket {
    /// The socket of a listener.
    Listener(u64),
    /// The link to the auth process.
    LoginLink,
}

/// From the supervisor to the auth process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToAuth {
    /// First, with the text of the configuration.
    Settings(AuthSettings),
    /// A link to the front.
    LoginLink { id: LoginLinkId },
    /// The link to a child that asks PAM; without a descriptor there is none.
    PamChild { id: u64 },
    /// Looks a user up.
    LookUp { id: u64, name: String },
    /// Looks up the user whom an address means.
    FindRecipient { id: u64, address: String },
}

/// Settings of the auth process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AuthSettings {
    /// Path of the configuration, for messages.
    pub(crate) path: PathBuf,
    /// From which salts of users who do not exist are computed.
    #[serde(with = "bytes")]
    pub(crate) secret: Vec<u8>,
}

/// From the auth process to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromAuth {
    /// It verifies.
    Ready,
    Log(LogLine),
    /// A login failed.
    Failed(LogLine),
    /// A client is verified.
    Verified(Box<Verified>),
    /// Asks for a child that asks PAM.
    PamWanted {
        id: u64,
    },
    /// The answer to [`ToAuth::LookUp`].
    Found {
        id: u64,
        user: Option<AccountText>,
    },
    /// The answer to [`ToAuth::FindRecipient`].
    Recipient {
        id: u64,
        found: Result<RecipientText, (DeliveryErrorKind, String)>,
    },
}

/// A user as the recipient of a message.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RecipientText {
    pub(crate) user: AccountText,
    /// The detail of the address.
    pub(crate) detail: Option<String>,
}

/// A client that auth has verified.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Verified {
    pub(crate) link: LoginLinkId,
    pub(crate) attempt: AttemptId,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) is_tls: bool,
    pub(crate) user: AccountText,
    /// The user who was verified.
    pub(crate) login: String,
    pub(crate) mechanism: String,
}

/// The account of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AccountText {
    pub(crate) name: String,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) home: Option<String>,
    pub(crate) fields: Vec<(String, String)>,
}

impl From<&User> for AccountText {
    fn from(user: &User) -> Self {
        let User { name, uid, gid, home, fields } = user;
        let (home, fields) = (home.clone(), fields.clone());
        Self { name: name.as_str().to_owned(), uid: *uid, gid: *gid, home, fields }
    }
}

impl AccountText {
    /// Returns the account, if its name is one.
    pub(crate) fn user(&self, rules: &NameRules) -> Option<User> {
        let name = rules.name(self.name.as_bytes()).filter(|name| name.as_str() == self.name)?;
        let Self { uid, gid, home, fields, .. } = self.clone();
        Some(User { name, uid, gid, home, fields })
    }
}

/// From the front to the auth process.
#[derive(Serialize, Deserialize)]
pub(crate) enum ToLogin {
    /// Asks for the mechanisms that are offered.
    Offered { attempt: AttemptId, channel: ChannelText },
    /// Begins a mechanism.
    Start {
        attempt: AttemptId,
        channel: ChannelText,
        mechanism: String,
        #[serde(with = "some_bytes")]
        initial: Option<Vec<u8>>,
    },
    /// The answer to a challenge.
    Respond {
        attempt: AttemptId,
        #[serde(with = "bytes")]
        message: Vec<u8>,
    },
    /// The client is gone, or has given up.
    Cancel { attempt: AttemptId },
}

/// From the auth process to the front. Nothing is sent for a client that is verified: the
/// supervisor answers.
#[derive(Serialize, Deserialize)]
pub(crate) enum FromLogin {
    Offered {
        attempt: AttemptId,
        mechanisms: Vec<String>,
    },
    Challenge {
        attempt: AttemptId,
        #[serde(with = "bytes")]
        message: Vec<u8>,
    },
    Denied {
        attempt: AttemptId,
        code: RefusalCode,
        text: String,
    },
}

/// The channel of a connection.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ChannelText {
    peer: Option<IpAddr>,
    is_private: bool,
    is_tls: bool,
    #[serde(with = "some_bytes")]
    tls_exporter: Option<Vec<u8>>,
    #[serde(with = "some_bytes")]
    tls_server_end_point: Option<Vec<u8>>,
}

impl ChannelText {
    pub(crate) fn new(channel: &Channel, is_tls: bool) -> Self {
        let Channel { peer, is_private, tls_exporter, tls_server_end_point } = channel.clone();
        Self { peer, is_private, is_tls, tls_exporter, tls_server_end_point }
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(crate) fn channel(self) -> Channel {
        let Self { peer, is_private, tls_exporter, tls_server_end_point, .. } = self;
        Channel { peer, is_private, tls_exporter, tls_server_end_point }
    }
}

/// Returns the mechanisms with these names.
pub(crate) fn mechanisms(names: &[String]) -> Vec<Mechanism> {
    names.iter().filter_map(|name| Mechanism::named(name)).collect()
}

/// From the supervisor to the process that speaks LMTP.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToLmtp {
    /// First.
    Settings(LmtpProcessSettings),
    /// The socket of a listener.
    Listener { id: u64 },
    /// The answer to a question; with [`LmtpAnswer::Stream`] comes the stream.
    Answer { id: u64, answer: LmtpAnswer },
}

/// Settings of the process that speaks LMTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LmtpProcessSettings {
    pub(crate) hostname: String,
    /// Largest message in bytes.
    pub(crate) size_max: u64,
    /// Folder for large messages while they are received.
    pub(crate) folder: PathBuf,
    /// Time after which a delivery is ended.
    pub(crate) timeout: Duration,
}

/// An answer to the process that speaks LMTP.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LmtpAnswer {
    /// The recipient exists.
    Recipient,
    /// The stream to a process that delivers to the recipient.
    Stream,
    /// There is no such recipient, or he cannot be looked up, or no process be started.
    Failed { kind: DeliveryErrorKind, text: String },
}

/// From the process that speaks LMTP to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromLmtp {
    /// It accepts connections.
    Ready,
    Log(LogLine),
    /// Asks again for the socket of a listener.
    Lost(LostSocket),
    /// Asks whether a recipient exists.
    Recipient {
        id: u64,
        address: String,
    },
    /// Asks for a process that delivers to a recipient.
    Deliver {
        id: u64,
        address: String,
    },
    /// A delivery has ended.
    Ended(DeliveryOutcome),
}

/// The end of a delivery to one recipient, for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DeliveryOutcome {
    Stored,
    /// The message had been delivered before.
    Duplicate,
    /// The mail server is to try again.
    Deferred,
    Refused,
}

/// From the supervisor to a process that delivers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToDelivery {
    /// First, with the text of the configuration.
    Order(Box<DeliveryOrderText>),
    /// The stream with the message.
    Message,
}

/// An order to deliver to a user.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DeliveryOrderText {
    /// Path of the configuration, for messages.
    pub(crate) path: PathBuf,
    pub(crate) user: AccountText,
    /// The detail of the recipient's address.
    pub(crate) detail: Option<String>,
}

/// The first bytes on the stream to a process that delivers, after their length.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MessagePrelude {
    pub(crate) sender: String,
    pub(crate) recipient: String,
    /// Bytes of the message, which follows.
    pub(crate) len: u64,
}

/// The report of a process that delivers, on the stream from which the message came.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DeliveryReport {
    pub(crate) result: DeliveryResult,
    /// Warnings about the process itself, such as a kernel without Landlock.
    pub(crate) warnings: Vec<String>,
}

/// The result of a delivery.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum DeliveryResult {
    Stored { mailbox: String, notes: Vec<String> },
    Duplicate,
    Failed { kind: DeliveryErrorKind, text: String },
}

/// From the supervisor to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToWorker {
    /// First, with the text of the configuration.
    Settings(Box<WorkerSettings>),
    /// A link to the watcher of the uid, the one with this number.
    Watcher { number: u64 },
    /// The socket of a session.
    Session { session: SessionId },
    /// Ends a session.
    Kick { session: SessionId },
    /// Ends all sessions, and the process.
    Stop,
}

/// Settings of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorkerSettings {
    /// Path of the configuration, for messages.
    pub(crate) path: PathBuf,
    pub(crate) user: AccountText,
    /// `true` if the worker has no inotify instance of its own, and gets links to watchers.
    pub(crate) shares_watcher: bool,
}

/// From the supervisor to the watcher of a uid.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToWatcher {
    /// A link to the worker with this number, which replaces its previous one.
    Worker { number: u64 },
}

/// From the watcher of a uid to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromWatcher {
    Log(LogLine),
}

/// From a worker to the watcher of its uid.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WatchOrder {
    /// Watches the file or folder whose descriptor comes with the message.
    Add,
    /// Watches it no longer.
    Remove { watch: i32 },
}

/// From the watcher of a uid to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WatchAnswer {
    /// It is watched; what is the same file has the same number.
    Added { watch: i32 },
    /// It is not watched; `error` is that of the system.
    Failed { error: i32 },
    /// Files and folders that may have changed.
    Happened { watches: Vec<i32> },
    /// Any of them may have changed.
    Lost,
}

/// From a worker to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromWorker {
    Log(LogLine),
    /// Asks for a link to a watcher, because the one with this number does not answer.
    WatcherLost {
        number: u64,
    },
    /// The worker has the socket of a session.
    Began {
        session: SessionId,
    },
    /// The worker could not take the socket of a session.
    Refused {
        session: SessionId,
    },
    /// A session has ended.
    Ended {
        session: SessionId,
    },
}

/// The first bytes of the front on the socket of a session, after their length.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Prelude {
    /// Tag of the command that logged in.
    pub(crate) tag: String,
    /// The name of the client, as ID has it.
    pub(crate) client_id: ClientId,
    /// Input beyond it.
    #[serde(with = "bytes")]
    pub(crate) unread: Vec<u8>,
}

/// From the auth process to a child that asks PAM.
#[derive(Serialize, Deserialize)]
pub(crate) struct PamQuestion {
    pub(crate) service: String,
    /// More characters that user names may have.
    pub(crate) name_extra: String,
    pub(crate) is_lower_case: bool,
    pub(crate) name: String,
    #[serde(with = "bytes")]
    pub(crate) password: Vec<u8>,
    pub(crate) peer: Option<IpAddr>,
}

/// From a child that asks PAM.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum PamAnswer {
    Yes { name: String },
    UnknownUser,
    WrongPassword,
    Locked,
    Unavailable { why: String },
}
