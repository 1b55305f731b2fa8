//! The state before login: the commands of a client that the server does not know (RFC 9051
//! §6.2).

use std::fmt::Write as _;

use super::Done;
use super::extras::write_id;
use super::reply::Reply;
use crate::backend::{Output, Refusal};
use crate::command::{Command, TaggedCommand};
use crate::limits::BAD_COMMANDS_BEFORE_LOGIN_MAX;
use crate::wire::{Decoder, Event};

/// Settings of the state before login.
#[derive(Clone, Debug, Default)]
pub struct LoginSettings {
    /// `true` if STARTTLS is possible: there is a certificate, and the connection is in clear.
    pub can_start_tls: bool,
    /// `true` if passwords may be sent: the connection is encrypted, or the configuration allows
    /// clear text.
    pub allows_passwords: bool,
    /// Mechanisms for AUTHENTICATE, in capitals.
    pub mechanisms: Vec<String>,
    /// Capabilities that are not offered, to whomever.
    pub disabled: Vec<String>,
    /// Fields of the answer to ID.
    pub id: Vec<(String, String)>,
}

/// The next step of the server after an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginRequest {
    /// Takes the next event.
    Continue,
    /// Begins TLS; unread input is dropped, since nobody knows who sent it.
    StartTls,
    /// Verifies a name and a password, and then calls [`Login::refuse`] or begins a session.
    Login {
        /// The tag of the command.
        tag: String,
        /// The name of the user.
        user: Vec<u8>,
        /// The password.
        password: Vec<u8>,
    },
    /// Begins an exchange of a SASL mechanism.
    Authenticate {
        /// The tag of the command.
        tag: String,
        /// The mechanism in capitals.
        mechanism: String,
        /// The initial response in base64; empty for an empty one.
        initial: Option<Vec<u8>>,
    },
    /// A response of the client within the exchange, in base64; `*` cancels it.
    Response(Vec<u8>),
    /// Closes the connection.
    Close,
}

/// The state before login.
pub struct Login {
    decoder: Decoder,
    settings: LoginSettings,
    bad_commands: u32,
    /// The parameters of the client's ID.
    client_id: Vec<(String, Option<String>)>,
}

impl Login {
    /// Creates the state of a connection; `decoder` is a new one, or that of a session that has
    /// ended with UNAUTHENTICATE.
    pub fn new(settings: LoginSettings, mut decoder: Decoder) -> Self {
        decoder.set_logged_in(false);
        decoder.set_rev2(false);
        decoder.set_utf8(false);
        Self { decoder, settings, bad_commands: 0, client_id: Vec::new() }
    }

    /// Writes the greeting.
    pub fn greet(&self, text: &str, out: &mut dyn Output) {
        let mut reply = Reply::new(out);
        reply.line(format_args!("* OK [CAPABILITY {}] {text}", self.capabilities()));
    }

    /// Returns the capabilities before login.
    pub fn capabilities(&self) -> String {
        let mut text = String::from("IMAP4rev1 IMAP4rev2 LITERAL+ SASL-IR ID ENABLE IDLE");
        if self.settings.can_start_tls {
            text.push_str(" STARTTLS");
        }
        if !self.settings.allows_passwords {
            text.push_str(" LOGINDISABLED");
        }
        for mechanism in &self.settings.mechanisms {
            let _ = write!(text, " AUTH={mechanism}");
        }
        let names: Vec<&str> = text.split(' ').filter(|name| self.offers(name)).collect();
        names.join(" ")
    }

    fn offers(&self, name: &str) -> bool {
        let is_disabled = |name: &str| {
            self.settings.disabled.iter().any(|disabled| disabled.eq_ignore_ascii_case(name))
        };
        let needed = (name == "IMAP4rev2").then_some("ENABLE");
        ![name].into_iter().chain(needed).any(is_disabled)
    }

    /// Takes the parameters of the client's ID (RFC 2971), for the session.
    pub fn take_client_id(&mut self) -> Vec<(String, Option<String>)> {
        std::mem::take(&mut self.client_id)
    }

    /// Takes bytes of the client.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.decoder.push(bytes);
    }

    /// Returns the next event; [`Event::More`] if more input is needed.
    pub fn poll(&mut self) -> Event {
        self.decoder.next()
    }

    /// Returns the decoder with its unread input, for the session.
    pub fn into_decoder(self) -> Decoder {
        self.decoder
    }

    /// Makes the next line of the client a [`LoginRequest::Response`], and writes a challenge in
    /// base64.
    pub fn challenge(&mut self, base64: &str, out: &mut dyn Output) {
        self.decoder.expect_line();
        Reply::new(out).line(format_args!("+ {base64}"));
    }

    /// Writes the refusal of a login.
    pub fn refuse(&mut self, tag: &str, refusal: &Refusal, out: &mut dyn Output) {
        Reply::new(out).no(tag, refusal);
    }

    /// Handles an event.
    pub fn handle(&mut self, event: Event, out: &mut dyn Output) -> LoginRequest {
        let mut reply = Reply::new(out);
        let request = match event {
            Event::Command(TaggedCommand { tag, command }) => self.run(tag, command, &mut reply),
            Event::Line(line) => LoginRequest::Response(line),
            Event::Continue => {
                reply.line(format_args!("+ OK"));
                LoginRequest::Continue
            }
            Event::Bad { tag, code, is_no, text } => {
                let kind = if is_no { "NO" } else { "BAD" };
                reply.refuse(tag.as_deref(), kind, code, &text);
                self.count_bad(&mut reply)
            }
            // APPEND is not possible here; its bytes are not read.
            Event::Message(_) | Event::Part { .. } | Event::Data(_) | Event::MessageEnd => {
                reply.line(format_args!("* BYE Not logged in"));
                LoginRequest::Close
            }
            Event::Fatal(text) => {
                reply.line(format_args!("* BYE {text}"));
                LoginRequest::Close
            }
            Event::More => LoginRequest::Continue,
        };
        if reply.finish() { request } else { LoginRequest::Close }
    }

    fn run(&mut self, tag: String, command: Command, reply: &mut Reply<'_>) -> LoginRequest {
        match command {
            Command::Capability => {
                reply.line(format_args!("* CAPABILITY {}", self.capabilities()));
                reply.ok(&tag, &Done::text("Capability completed"));
            }
            Command::Noop => reply.ok(&tag, &Done::text("NOOP completed")),
            Command::Id(parameters) if self.offers("ID") => {
                self.client_id = parameters;
                write_id(&self.settings.id, reply);
                reply.ok(&tag, &Done::text("ID completed"));
            }
            Command::Logout => {
                reply.line(format_args!("* BYE Logging out"));
                reply.ok(&tag, &Done::text("Logout completed"));
                return LoginRequest::Close;
            }
            Command::StartTls if self.settings.can_start_tls => {
                // What was said in clear may have been somebody else's (RFC 9051 §6.2.1).
                self.client_id.clear();
                reply.ok(&tag, &Done::text("Begin TLS negotiation now"));
                return LoginRequest::StartTls;
            }
            Command::Login { user, password } => {
                if self.settings.allows_passwords {
                    return LoginRequest::Login { tag, user, password };
                }
                let text = "Passwords may be sent over TLS only";
                reply.no(&tag, &Refusal::new("PRIVACYREQUIRED", text));
            }
            Command::Authenticate { mechanism, initial } => {
                if initial.is_some() && !self.offers("SASL-IR") {
                    reply.no(&tag, &Refusal::bad("SASL-IR is not available"));
                    return self.count_bad(reply);
                }
                if self.settings.mechanisms.contains(&mechanism) {
                    return LoginRequest::Authenticate { tag, mechanism, initial };
                }
                reply.no(&tag, &Refusal::text("The mechanism is not available"));
            }
            _ => {
                reply.no(&tag, &Refusal::bad("Log in first"));
                return self.count_bad(reply);
            }
        }
        LoginRequest::Continue
    }

    fn count_bad(&mut self, reply: &mut Reply<'_>) -> LoginRequest {
        self.bad_commands += 1;
        if self.bad_commands < BAD_COMMANDS_BEFORE_LOGIN_MAX {
            return LoginRequest::Continue;
        }
        reply.line(format_args!("* BYE Too many invalid commands"));
        LoginRequest::Close
    }
}
