//! SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677) with the channel bindings
//! `tls-exporter` (RFC 9266) and `tls-server-end-point` (RFC 5929).
//!
//! A client that says `y` (it could bind, and believes that the server could not) while
//! SCRAM-SHA-256-PLUS was offered has been lied to, and fails. Users who do not exist get the same
//! messages as others, with keys that the base makes up.

use super::scram_message::{BindingFlag, ClientFinal, ClientFirst};
use super::{Context, Conversation, Failure, Mechanism, Step};
use crate::base::{Refusal, ScramEntry};
use crate::error::Error;
use crate::scheme::encode::to_base64;
use crate::secret::equal;
use crate::user::User;

/// Random bytes of the server's part of the nonce; a multiple of 3, so that its Base64 ends without
/// padding.
const NONCE_LEN: usize = 18;

/// A conversation of SCRAM.
#[derive(Default)]
pub(super) enum ScramExchange {
    /// Nothing was sent yet.
    #[default]
    First,
    /// The server sent nonce and salt.
    Final(Box<Sent>),
    /// The server sent its signature.
    Acknowledged { user: Box<User>, target: Option<Vec<u8>> },
    /// The conversation failed.
    Ended,
}

/// The messages so far.
pub(super) struct Sent {
    entry: ScramEntry,
    target: Option<Vec<u8>>,
    /// The GS2 header and the data of the channel binding.
    binding: Vec<u8>,
    first_bare: Vec<u8>,
    server_first: String,
    nonce: String,
}

impl Conversation for ScramExchange {
    fn respond(&mut self, context: &mut Context<'_>, message: &[u8]) -> Step {
        match std::mem::replace(self, Self::Ended) {
            Self::First => match Sent::answer(context, message) {
                Ok(sent) => {
                    let challenge = sent.server_first.clone().into_bytes();
                    *self = Self::Final(Box::new(sent));
                    Step::Challenge(challenge)
                }
                Err(failure) => Step::Failed(failure),
            },
            Self::Final(sent) => match sent.verify(message) {
                Ok((user, signature)) => {
                    *self = Self::Acknowledged { user: Box::new(user), target: sent.target };
                    Step::Challenge(signature)
                }
                Err(failure) => Step::Failed(failure),
            },
            Self::Acknowledged { user, target } if message.is_empty() => {
                context.service.authorize(context, *user, target.as_deref())
            }
            Self::Acknowledged { .. } | Self::Ended => {
                Step::Failed(Failure::Malformed("a message after the end of SCRAM"))
            }
        }
    }
}

impl Sent {
    /// Answers the first message of a client.
    fn answer(context: &mut Context<'_>, message: &[u8]) -> Result<Self, Failure> {
        let first = ClientFirst::parse(message)?;
        let mut binding = first.header.bytes.to_vec();
        binding.extend_from_slice(bound(context, first.header.flag)?);
        let mut random = [0; NONCE_LEN];
        context.service.host.random(&mut random).map_err(Error::Random)?;
        let name = context.named(&first.name)?;
        let entry = context.service.base.scram(&name, context.channel.peer)?;
        Ok(Self::new(&first, binding, entry, &to_base64(&random)))
    }

    fn new(
        first: &ClientFirst<'_>,
        binding: Vec<u8>,
        entry: ScramEntry,
        server_nonce: &str,
    ) -> Self {
        let client_nonce = String::from_utf8_lossy(first.nonce);
        let nonce = format!("{client_nonce}{server_nonce}");
        let salt = to_base64(&entry.keys.salt);
        let server_first = format!("r={nonce},s={salt},i={}", entry.keys.iterations);
        Self {
            entry,
            target: first.header.target.clone(),
            binding,
            first_bare: first.header.rest.to_vec(),
            server_first,
            nonce,
        }
    }

    /// Verifies the proof of a client; returns the user and the message with the server's
    /// signature.
    fn verify(&self, message: &[u8]) -> Result<(User, Vec<u8>), Failure> {
        let last = ClientFinal::parse(message)?;
        if last.nonce != self.nonce.as_bytes() {
            return Err(Failure::Malformed("another nonce"));
        }
        if !equal(&last.binding, &self.binding) {
            return Err(Failure::Binding("the client is bound to another channel"));
        }
        let server_first = self.server_first.as_bytes();
        let signed = [&self.first_bare[..], server_first, last.without_proof].join(&b","[..]);
        let keys = &self.entry.keys;
        let hash = keys.hash;
        if last.proof.len() != hash.len() {
            return Err(Failure::Malformed("a proof of another length"));
        }
        let stored_key = keys.stored_key.expose();
        let signature = hash.mac(stored_key, &signed);
        let client_key: Vec<u8> =
            last.proof.iter().zip(&signature).map(|(left, right)| left ^ right).collect();
        let is_right = equal(&hash.hash(&client_key), stored_key);
        let server_signature = hash.mac(keys.server_key.expose(), &signed);
        match &self.entry.user {
            Ok(user) if is_right => {
                let message = format!("v={}", to_base64(&server_signature));
                Ok((user.clone(), message.into_bytes()))
            }
            Ok(_) => Err(Failure::Credentials(Refusal::WrongPassword)),
            Err(Refusal::Address) if !is_right => Err(Failure::Credentials(Refusal::WrongPassword)),
            Err(refusal) => Err(Failure::Credentials(*refusal)),
        }
    }
}

/// Returns the data of the channel binding that a client uses, or nothing if it may go without.
fn bound<'a>(context: &Context<'a>, flag: BindingFlag<'_>) -> Result<&'a [u8], Failure> {
    let is_plus = context.mechanism == Mechanism::ScramSha256Plus;
    match flag {
        BindingFlag::Used(name) if is_plus => {
            let binding = context.channel.binding(name);
            binding.ok_or(Failure::Binding("a type that this connection does not have"))
        }
        BindingFlag::Used(_) => Err(Failure::Binding("used in a mechanism without it")),
        _ if is_plus => Err(Failure::Binding("not used in a mechanism with it")),
        BindingFlag::Unsupported => Ok(b""),
        BindingFlag::NotOffered => {
            let plus = Mechanism::ScramSha256Plus;
            if context.service.offers(plus, context.channel) {
                return Err(Failure::Binding("the client did not see that it was offered"));
            }
            Ok(b"")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::name::NameRules;
    use crate::scheme::encode::from_base64;
    use crate::scheme::scram::{ScramHash, ScramKeys};

    /// Runs an example of an RFC: its messages must come out.
    fn check(hash: ScramHash, salt: &str, messages: [&str; 4], server_nonce: &str) {
        let [first, server_first, last, server_final] = messages;
        let salt = from_base64(salt.as_bytes()).unwrap();
        let iterations = NonZeroU32::new(4096).unwrap();
        let keys = ScramKeys::derive(hash, b"pencil", &salt, iterations);
        let user = User::named(NameRules::default().name(b"user").unwrap());
        let entry = ScramEntry { keys, user: Ok(user.clone()) };
        let first = ClientFirst::parse(first.as_bytes()).unwrap();
        assert_eq!(first.name, b"user");
        let binding = first.header.bytes.to_vec();
        let mut sent = Sent::new(&first, binding, entry, server_nonce);
        assert_eq!(sent.server_first, server_first);
        let (found, signature) = sent.verify(last.as_bytes()).unwrap();
        assert_eq!((found, signature.as_slice()), (user, server_final.as_bytes()));
        let other = last.replace("p=d", "p=e").replace("p=v", "p=w");
        assert_ne!(other, last);
        let error = sent.verify(other.as_bytes()).unwrap_err();
        assert!(matches!(error, Failure::Credentials(Refusal::WrongPassword)), "{error}");
        // A right proof does not help a user who does not exist.
        sent.entry.user = Err(Refusal::UnknownUser);
        let error = sent.verify(last.as_bytes()).unwrap_err();
        assert!(matches!(error, Failure::Credentials(Refusal::UnknownUser)), "{error}");
    }

    #[test]
    fn the_example_of_rfc_7677() {
        check(
            ScramHash::Sha256,
            "W22ZaJ0SNY7soEsUEjb6gQ==",
            [
                "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
                "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
                "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
                "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
            ],
            "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        );
    }

    #[test]
    fn the_example_of_rfc_5802() {
        check(
            ScramHash::Sha1,
            "QSXCR+Q6sek8bf92",
            [
                "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
                "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
                "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
                "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
            ],
            "3rfcNHYJY1ZVvWVs7j",
        );
    }
}
