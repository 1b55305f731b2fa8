//! The users of the system, whose passwords the caller verifies: by PAM in a child process.

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

use super::{Login, Refusal, UserBase, Verdict};
use crate::error::Result;
use crate::ffi::accounts::system_user;
use crate::name::UserName;

/// A check of passwords without accounts.
pub trait PasswordCheck: Debug + Send + Sync {
    /// Verifies a password; returns the name of the user, which the check may change.
    ///
    /// # Errors
    /// Returns an error if the check does not work now, or took too long.
    fn check(&self, login: &Login<'_>) -> Result<std::result::Result<UserName, Refusal>>;
}

/// The accounts of the system, with a check of passwords that the caller supplies: one that runs
/// [`pam::verify`](crate::pam::verify) in a child process with a time limit. Nothing is remembered
/// of passwords, so that a change by any module of PAM counts at once.
#[derive(Debug)]
pub struct SystemUsers {
    check: Arc<dyn PasswordCheck>,
    uid_min: u32,
}

impl SystemUsers {
    /// Creates a base of the users whose uid is at least `uid_min`, and never root; Dovecot's
    /// `first_valid_uid` is 500, Debian's first user has 1000.
    #[must_use]
    pub fn new(check: Arc<dyn PasswordCheck>, uid_min: u32) -> Self {
        Self { check, uid_min: uid_min.max(1) }
    }

    fn account(&self, name: &UserName) -> Result<Verdict> {
        Ok(match system_user(name)? {
            None => Err(Refusal::UnknownUser),
            Some(user) if user.uid.is_none_or(|uid| uid < self.uid_min) => Err(Refusal::Locked),
            Some(user) => Ok(user),
        })
    }
}

impl UserBase for SystemUsers {
    fn verify(&self, login: &Login<'_>) -> Result<Verdict> {
        match self.check.check(login)? {
            Ok(name) => self.account(&name),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    fn user(&self, name: &UserName, _: Option<IpAddr>) -> Result<Verdict> {
        self.account(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::NameRules;

    /// Lets everybody in whose password is `secret`.
    #[derive(Debug)]
    struct Secret;

    impl PasswordCheck for Secret {
        fn check(&self, login: &Login<'_>) -> Result<std::result::Result<UserName, Refusal>> {
            let is_right = login.password == b"secret";
            Ok(if is_right { Ok(login.name.clone()) } else { Err(Refusal::WrongPassword) })
        }
    }

    fn check(uid_min: u32, user: &str, password: &str, expected: Result<u32, Refusal>) {
        let base = SystemUsers::new(Arc::new(Secret), uid_min);
        let name = NameRules::default().name(user.as_bytes()).unwrap();
        let login = Login { name: &name, password: password.as_bytes(), peer: None };
        let verdict = base.verify(&login).unwrap().map(|user| user.uid.unwrap());
        assert_eq!(verdict, expected, "{user} {password}");
    }

    type Result<T, E = crate::error::Error> = std::result::Result<T, E>;

    #[test]
    fn accounts_come_from_the_system() {
        // Every Debian has these, and most other systems too.
        check(1, "daemon", "secret", Ok(1));
        check(1, "daemon", "other", Err(Refusal::WrongPassword));
        check(2, "daemon", "secret", Err(Refusal::Locked));
        check(0, "root", "secret", Err(Refusal::Locked));
        check(1, "no-such-user-here", "secret", Err(Refusal::UnknownUser));
    }
}
