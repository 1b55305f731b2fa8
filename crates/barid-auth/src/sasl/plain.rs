//! PLAIN (RFC 4616) and LOGIN.

use super::{Context, Conversation, Failure, Step};
use crate::base::Login;
use crate::name::UserName;

/// PLAIN: `[authzid] NUL authcid NUL passwd`, one message.
pub(super) struct PlainExchange;

impl Conversation for PlainExchange {
    fn respond(&mut self, context: &mut Context<'_>, message: &[u8]) -> Step {
        let mut parts = message.split(|byte| *byte == 0);
        let (Some(target), Some(name), Some(password), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            let what = "a message of PLAIN without exactly two NUL characters";
            return Step::Failed(Failure::Malformed(what));
        };
        match context.named(name) {
            Ok(name) => verify(context, &name, password, Some(target)),
            Err(failure) => Step::Failed(failure),
        }
    }
}

/// LOGIN: the name, then the password, each after a challenge.
#[derive(Default)]
pub(super) struct LoginExchange {
    name: Option<UserName>,
}

impl Conversation for LoginExchange {
    fn first_challenge(&self) -> &'static [u8] {
        b"Username:"
    }

    fn respond(&mut self, context: &mut Context<'_>, message: &[u8]) -> Step {
        if message.contains(&0) {
            return Step::Failed(Failure::Malformed("a NUL character in LOGIN"));
        }
        match self.name.take() {
            Some(name) => verify(context, &name, message, None),
            None => match context.named(message) {
                Ok(name) => {
                    self.name = Some(name);
                    Step::Challenge(b"Password:".to_vec())
                }
                Err(failure) => Step::Failed(failure),
            },
        }
    }
}

fn verify(context: &Context<'_>, name: &UserName, password: &[u8], target: Option<&[u8]>) -> Step {
    let login = Login { name, password, peer: context.channel.peer };
    match context.service.base.verify(&login) {
        Ok(Ok(user)) => context.service.authorize(context, user, target),
        Ok(Err(refusal)) => Step::Failed(Failure::Credentials(refusal)),
        Err(error) => Step::Failed(Failure::Unavailable(error)),
    }
}
