//! The system's PAM as a check of passwords.
//!
//! libpam is loaded when it is first asked. Its modules run arbitrary code, keep what they like in
//! memory, wait for network services, and delay failures by seconds: call [`verify`] only in a
//! child process made for one attempt, and kill the child when its time is up. PAM's own log
//! (`auth.log`) has the details of failures.

use std::path::PathBuf;

use crate::base::{Login, Refusal};
use crate::error::{Error, Result};
use crate::ffi::pam::{Answer, Question, ask, code};
use crate::name::{NameRules, UserName};

/// A service of PAM, which is a file in `/etc/pam.d`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PamService {
    /// The name of the file, such as `barid`, `imap` or `dovecot`.
    pub name: String,
    /// A folder instead of `/etc/pam.d`; needs Linux-PAM 1.4.
    pub folder: Option<PathBuf>,
    /// The rules for the user name that PAM returns.
    pub rules: NameRules,
}

/// Longest password in bytes that PAM's modules accept (`PAM_MAX_RESP_SIZE`, with a NUL).
const PASSWORD_LEN_MAX: usize = 511;

/// Verifies a password, and that the account is valid; prompts that PAM hides get the password.
///
/// Blocks, for seconds if the password is wrong: see the head of this module. Returns the name of
/// the user, which PAM may have changed; [`system_user`](crate::system_user) has his account.
///
/// # Errors
/// Returns [`Error::Unavailable`] if PAM does not work: no library, no such service, or a module
/// that failed.
pub fn verify(
    service: &PamService,
    login: &Login<'_>,
) -> Result<std::result::Result<UserName, Refusal>> {
    let is_possible = !login.password.is_empty()
        && login.password.len() <= PASSWORD_LEN_MAX
        && !login.password.contains(&0);
    if !is_possible {
        return Ok(Err(Refusal::WrongPassword));
    }
    let question = Question {
        service: &service.name,
        folder: service.folder.as_deref(),
        user: login.name.as_str(),
        password: login.password,
        remote: login.peer.map(|peer| peer.to_canonical().to_string()),
    };
    match ask(&question)? {
        Answer::Yes(name) => match service.rules.name(&name) {
            Some(name) => Ok(Ok(name)),
            None => Err(Error::unavailable("PAM", "it returned a user name that is not allowed")),
        },
        Answer::No(code::AUTH_ERR | code::MAXTRIES, _) => Ok(Err(Refusal::WrongPassword)),
        Answer::No(code::USER_UNKNOWN, _) => Ok(Err(Refusal::UnknownUser)),
        Answer::No(
            code::PERM_DENIED | code::ACCT_EXPIRED | code::AUTHTOK_EXPIRED | code::NEW_AUTHTOK_REQD,
            _,
        ) => Ok(Err(Refusal::Locked)),
        Answer::No(_, why) => Err(Error::unavailable(format!("PAM service {}", service.name), why)),
    }
}
