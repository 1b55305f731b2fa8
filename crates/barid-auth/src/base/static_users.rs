//! Users who all have the same password, for a first look and for tests.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::Path;

use barid_vfs::{FileType, Host, Vfs};

use super::{Login, Refusal, ScramEntry, UserBase, Verdict};
use crate::error::{Error, Result};
use crate::limits::FOLDER_USERS_MAX;
use crate::name::{NameRules, UserName};
use crate::scheme::scram::ScramKeys;
use crate::scheme::scram_keys;
use crate::secret::{Secret, equal, sha256};
use crate::server_secret::random;
use crate::user::User;

/// Iterations of the keys of SCRAM, the least that RFC 7677 §4 allows.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("because it is not 0");
/// Characters of passwords that are made up: none looks like another.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// Number of characters: 80 bits.
const PASSWORD_LEN: usize = 16;

/// Users who all have the same password. SCRAM is offered; users who do not exist get the same salt
/// as the others.
#[derive(Debug)]
pub struct StaticUsers {
    users: HashMap<UserName, User>,
    digest: [u8; 32],
    keys: ScramKeys,
}

impl StaticUsers {
    /// Creates a base of `users` with one password.
    ///
    /// # Errors
    /// Returns [`Error::Random`], and [`Error::Setting`] for an empty password.
    pub fn new(
        users: impl IntoIterator<Item = User>,
        password: &Secret,
        host: &dyn Host,
    ) -> Result<Self> {
        if password.expose().is_empty() {
            let why = "the password is empty".to_owned();
            return Err(Error::Setting { setting: "password", why });
        }
        let users = users.into_iter().map(|user| (user.name.clone(), user)).collect();
        let keys = scram_keys(password.expose(), ITERATIONS, host)?;
        Ok(Self { users, digest: sha256(password.expose()), keys })
    }

    /// Returns the users that a folder stands for: one for every folder in it, with its path as
    /// home and its owner's numbers. Symbolic links, names that begin with `.`, and those that the
    /// rules refuse are left out; so is a name that equals an earlier one in lower case.
    ///
    /// # Errors
    /// Returns errors of the file system, and [`Error::TooManyUsers`].
    pub fn of_folder(vfs: &dyn Vfs, folder: &Path, rules: &NameRules) -> Result<Vec<User>> {
        let dir = vfs.open_dir(folder).map_err(Error::at(folder))?;
        let mut names = BTreeSet::new();
        dir.list(&mut |name, file_type| {
            let may_be = matches!(file_type, FileType::Dir | FileType::Other);
            if may_be && !name.starts_with(b".") && names.len() <= FOLDER_USERS_MAX {
                names.insert(name.to_vec());
            }
        })
        .map_err(Error::at(folder))?;
        if names.len() > FOLDER_USERS_MAX {
            return Err(Error::TooManyUsers { path: folder.to_owned(), max: FOLDER_USERS_MAX });
        }
        let (mut users, mut seen) = (Vec::new(), BTreeSet::new());
        for bytes in names {
            let metadata = dir.metadata(&bytes).map_err(Error::at(folder))?;
            let is_folder = metadata.file_type == FileType::Dir;
            let path = std::str::from_utf8(&bytes).map(|name| folder.join(name));
            let (Some(name), Ok(path)) = (rules.name(&bytes), path) else { continue };
            let home = path.to_str().map(str::to_owned);
            if is_folder && home.is_some() && seen.insert(name.clone()) {
                let (uid, gid) = (Some(metadata.uid), Some(metadata.gid));
                users.push(User { uid, gid, home, ..User::named(name) });
            }
        }
        Ok(users)
    }

    /// Makes up a password of 16 letters and digits.
    ///
    /// # Errors
    /// Returns [`Error::Random`].
    pub fn random_password(host: &dyn Host) -> Result<Secret> {
        let bytes = random::<PASSWORD_LEN>(host)?;
        let char = |byte: &u8| ALPHABET[usize::from(byte % 32)];
        Ok(Secret::new(bytes.iter().map(char).collect()))
    }
}

impl UserBase for StaticUsers {
    fn verify(&self, login: &Login<'_>) -> Result<Verdict> {
        let is_right = equal(&sha256(login.password), &self.digest);
        Ok(match self.users.get(login.name) {
            None => Err(Refusal::UnknownUser),
            Some(_) if !is_right => Err(Refusal::WrongPassword),
            Some(user) => Ok(user.clone()),
        })
    }

    fn user(&self, name: &UserName, _: Option<IpAddr>) -> Result<Verdict> {
        Ok(self.users.get(name).cloned().ok_or(Refusal::UnknownUser))
    }

    fn offers_scram(&self) -> Result<bool> {
        Ok(true)
    }

    fn scram(&self, name: &UserName, peer: Option<IpAddr>) -> Result<ScramEntry> {
        Ok(ScramEntry { keys: self.keys.clone(), user: self.user(name, peer)? })
    }
}

#[cfg(test)]
mod tests {
    use barid_vfs::{MemVfs, OpenOptions};

    use super::*;

    fn name(text: &str) -> UserName {
        NameRules::default().name(text.as_bytes()).unwrap()
    }

    fn verify(base: &StaticUsers, user: &str, password: &str) -> Verdict {
        let name = name(user);
        base.verify(&Login { name: &name, password: password.as_bytes(), peer: None }).unwrap()
    }

    #[test]
    fn all_have_one_password() {
        let users = ["ann", "bob"].map(|user| User::named(name(user)));
        let password = Secret::from(&b"secret"[..]);
        let base = StaticUsers::new(users, &password, &MemVfs::new()).unwrap();
        assert!(verify(&base, "ann", "secret").is_ok());
        assert!(verify(&base, "bob", "secret").is_ok());
        assert_eq!(verify(&base, "bob", "secrets"), Err(Refusal::WrongPassword));
        assert_eq!(verify(&base, "carl", "secret"), Err(Refusal::UnknownUser));
        let (ann, carl) = (name("ann"), name("carl"));
        let entries = [&ann, &carl].map(|name| base.scram(name, None).unwrap());
        assert_eq!(entries[0].keys.salt, entries[1].keys.salt);
        assert!(entries[0].keys.verify(b"secret"));
        assert_eq!(entries[1].user, Err(Refusal::UnknownUser));
        let empty = StaticUsers::new([], &Secret::from(&b""[..]), &MemVfs::new());
        assert!(empty.is_err());
    }

    #[test]
    fn folders_are_users() {
        let vfs = MemVfs::new();
        for folder in ["/m", "/m/ann", "/m/Bob", "/m/bob", "/m/.hidden", "/m/a b"] {
            vfs.create_dir(Path::new(folder), 0o700).unwrap();
        }
        vfs.open(Path::new("/m/file"), OpenOptions::create(0o600)).unwrap();
        let users = StaticUsers::of_folder(&vfs, Path::new("/m"), &NameRules::default()).unwrap();
        let homes: Vec<_> = users.iter().map(|user| user.home.as_deref().unwrap()).collect();
        assert_eq!(homes, ["/m/Bob", "/m/ann"]);
        assert_eq!(users[0].name.as_str(), "bob");
        let missing = StaticUsers::of_folder(&vfs, Path::new("/no"), &NameRules::default());
        assert!(missing.is_err());
    }

    #[test]
    fn passwords_are_made_up() {
        let vfs = MemVfs::new();
        let first = StaticUsers::random_password(&vfs).unwrap();
        assert_eq!(first.expose().len(), PASSWORD_LEN);
        assert!(first.expose().iter().all(|byte| ALPHABET.contains(byte)));
        let second = StaticUsers::random_password(&vfs).unwrap();
        assert_ne!(first.expose(), second.expose());
    }
}
