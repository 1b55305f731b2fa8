//! A passwd-file as a user base: read once, and again when it changes.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use barid_vfs::{FileStamp, OpenOptions, Timestamp, Vfs};
use zeroize::Zeroizing;

use super::parse::{ParseOptions, ParsedFile, Problem, parse};
use super::verified::Verified;
use super::{Login, Refusal, ScramEntry, UserBase, Verdict};
use crate::error::{Error, Result};
use crate::ffi::accounts;
use crate::limits::{PASSWD_FILE_SIZE_MAX, VERIFIED_TIME, VERIFIED_USERS_MAX};
use crate::name::{NameRules, UserName};
use crate::scheme::scram::{ScramHash, ScramKeys};
use crate::scheme::{Cost, Password, Scheme};
use crate::secret::Secret;
use crate::server_secret::ServerSecret;

/// A file that changed less than this before it was read is read once more: it may have changed
/// again without a new time stamp.
const SETTLED: Duration = Duration::from_secs(2);

/// Settings of a [`PasswdFile`].
#[derive(Clone, Debug)]
pub struct PasswdFileOptions {
    /// The rules of user names.
    pub rules: NameRules,
    /// The scheme of passwords that name none; [`Scheme::Crypt`] as in Dovecot.
    pub default_scheme: Scheme,
    /// Time for which verified passwords are remembered; 0 turns it off.
    pub verified_time: Duration,
    /// Number of users whose verified password is remembered.
    pub verified_users: usize,
}

impl Default for PasswdFileOptions {
    fn default() -> Self {
        Self {
            rules: NameRules::default(),
            default_scheme: Scheme::Crypt,
            verified_time: VERIFIED_TIME,
            verified_users: VERIFIED_USERS_MAX,
        }
    }
}

/// A passwd-file as a user base.
///
/// Every lookup asks the file system for the file's stamp, and reads the file only after it
/// changed; meanwhile other threads use the old users. If the file is missing or cannot be read,
/// lookups fail with an error that is worth another try, and nobody is let in by an old file.
///
/// A user who does not exist costs the same computation as one whose password has the scheme that
/// most users have.
pub struct PasswdFile {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    options: PasswdFileOptions,
    secret: ServerSecret,
    verified: Verified,
    table: RwLock<Arc<Table>>,
    reading: Mutex<()>,
}

/// The users at one time.
#[derive(Debug)]
struct Table {
    stamp: FileStamp,
    read: Timestamp,
    is_settled: bool,
    generation: u64,
    users: ParsedFile,
    /// Stands in for users who do not exist.
    dummy: Password,
    /// If all users have keys of SCRAM: iterations and length of the salt of most.
    scram: Option<(NonZeroU32, usize)>,
}

impl PasswdFile {
    /// Reads a passwd-file. Lines with problems make no users; see [`PasswdFile::problems`].
    ///
    /// # Errors
    /// Returns errors of the file system, and [`Error::Random`].
    pub fn open(
        vfs: Arc<dyn Vfs>,
        path: &Path,
        options: PasswdFileOptions,
        secret: ServerSecret,
    ) -> Result<Self> {
        let verified = Verified::new(options.verified_users, options.verified_time, &*vfs)?;
        let table = RwLock::new(Arc::new(Table::read(&*vfs, path, &options, 1)?));
        let (path, reading) = (path.to_owned(), Mutex::new(()));
        Ok(Self { vfs, path, options, secret, verified, table, reading })
    }

    /// Returns the problems of the file as it was read last, the number of further ones, and a
    /// number that grows whenever the file is read.
    #[must_use]
    pub fn problems(&self) -> (Vec<Problem>, usize, u64) {
        let table = self.current();
        (table.users.problems().to_vec(), table.users.more_problems(), table.generation)
    }

    /// Returns the number of users of the file as it was read last.
    #[must_use]
    pub fn users(&self) -> usize {
        self.current().users.len()
    }

    fn current(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the users, read again if the file changed.
    fn table(&self) -> Result<Arc<Table>> {
        let metadata = self.vfs.metadata(&self.path).map_err(Error::at(&self.path))?;
        let table = self.current();
        if table.is_of(&FileStamp::from(&metadata), self.vfs.now()) {
            return Ok(table);
        }
        let Ok(_reading) = self.reading.try_lock() else { return Ok(table) };
        let generation = self.current().generation + 1;
        let table = Table::read(&*self.vfs, &self.path, &self.options, generation)?;
        let table = Arc::new(table);
        let mut slot = self.table.write().unwrap_or_else(PoisonError::into_inner);
        *slot = Arc::clone(&table);
        Ok(table)
    }

    /// Returns `true` if the password is right; remembers it if verification is slow.
    fn check(&self, login: &Login<'_>, password: &Password) -> bool {
        if !password.is_slow() {
            return password.verify(login.password);
        }
        let now = self.vfs.now();
        let mac = self.verified.mac(login.name, password.fingerprint(), login.password);
        if self.verified.knows(login.name, &mac, now) {
            return true;
        }
        let is_right = password.verify(login.password);
        if is_right {
            self.verified.remember(login.name, mac, now);
        }
        is_right
    }

    /// Makes up keys for a user who does not exist.
    fn made_up(&self, name: &UserName, iterations: NonZeroU32, salt_len: usize) -> ScramKeys {
        let name = name.as_str().as_bytes();
        let part = |what: &[u8], number: u8| self.secret.derive(&[what, &[number], name]);
        let salt = (0..=u8::MAX).flat_map(|number| part(b"scram salt", number));
        let salt = salt.take(salt_len).collect();
        let stored_key = Secret::from(&part(b"scram stored key", 0)[..]);
        let server_key = Secret::from(&part(b"scram server key", 0)[..]);
        ScramKeys { hash: ScramHash::Sha256, iterations, salt, stored_key, server_key }
    }
}

impl fmt::Debug for PasswdFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PasswdFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl UserBase for PasswdFile {
    fn verify(&self, login: &Login<'_>) -> Result<Verdict> {
        let table = self.table()?;
        let account = table.users.accounts.get(login.name);
        let password = account.map(|account| &account.password);
        let password = password.filter(|password| !password.is_locked());
        let is_right = self.check(login, password.unwrap_or(&table.dummy));
        match account {
            None => Ok(Err(Refusal::UnknownUser)),
            Some(account) if account.password.is_locked() => Ok(Err(Refusal::Locked)),
            Some(_) if !is_right => Ok(Err(Refusal::WrongPassword)),
            Some(account) => account.admit(login.name, login.peer),
        }
    }

    fn user(&self, name: &UserName, peer: Option<IpAddr>) -> Result<Verdict> {
        self.table()?.users.user(name, peer)
    }

    fn offers_scram(&self) -> Result<bool> {
        Ok(self.table()?.scram.is_some())
    }

    fn scram(&self, name: &UserName, peer: Option<IpAddr>) -> Result<ScramEntry> {
        let table = self.table()?;
        let Some((iterations, salt_len)) = table.scram else {
            return Err(Error::unavailable("SCRAM", "not every user has its keys"));
        };
        // Made up in any case, so that both cases take the same time.
        let made_up = self.made_up(name, iterations, salt_len);
        let account = table.users.accounts.get(name);
        let keys = account.and_then(|account| account.password.scram());
        let user = match (account, keys) {
            (None, _) => Err(Refusal::UnknownUser),
            (Some(_), None) => Err(Refusal::Locked),
            (Some(account), Some(_)) => account.admit(name, peer)?,
        };
        Ok(ScramEntry { keys: keys.cloned().unwrap_or(made_up), user })
    }
}

impl Table {
    fn read(
        vfs: &dyn Vfs,
        path: &Path,
        options: &PasswdFileOptions,
        generation: u64,
    ) -> Result<Self> {
        let read = vfs.now();
        let (bytes, stamp) = contents(vfs, path).map_err(Error::at(path))?;
        let users = parse(
            &bytes,
            &ParseOptions {
                rules: &options.rules,
                default_scheme: options.default_scheme,
                uid_of: &|name| accounts::uid_of(name).ok().flatten(),
                gid_of: &|name| accounts::gid_of(name).ok().flatten(),
            },
        );
        let dummy = usual(&users).map(Password::dummy);
        let dummy = dummy.unwrap_or_else(|| {
            Password::parse(b"{PLAIN}-", Scheme::Plain)
                .expect("because it is a password in clear")
                .dummy()
        });
        let age = read.unix_nanos.saturating_sub(stamp.modified.max(stamp.changed).unix_nanos);
        let is_settled = age >= i64::try_from(SETTLED.as_nanos()).unwrap_or(i64::MAX);
        let scram = scram_of_all(&users);
        Ok(Self { stamp, read, is_settled, generation, users, dummy, scram })
    }

    /// Returns `true` if the file is unchanged.
    fn is_of(&self, stamp: &FileStamp, now: Timestamp) -> bool {
        let age = now.unix_nanos.saturating_sub(self.read.unix_nanos);
        let is_recent = age < i64::try_from(SETTLED.as_nanos()).unwrap_or(i64::MAX);
        self.stamp == *stamp && (self.is_settled || is_recent)
    }
}

/// Reads a file and the stamp that it had before.
fn contents(vfs: &dyn Vfs, path: &Path) -> std::io::Result<(Zeroizing<Vec<u8>>, FileStamp)> {
    let file = vfs.open(path, OpenOptions::READ)?;
    let metadata = file.metadata()?;
    if metadata.size > PASSWD_FILE_SIZE_MAX {
        let what = format!("the file has more than {PASSWD_FILE_SIZE_MAX} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, what));
    }
    let len = usize::try_from(metadata.size).unwrap_or(usize::MAX);
    let mut bytes = Zeroizing::new(vec![0; len]);
    let len = file.read_full_at(&mut bytes, 0)?;
    bytes.truncate(len);
    Ok((bytes, FileStamp::from(&metadata)))
}

/// Returns a password of the cost that most users' passwords have.
fn usual(users: &ParsedFile) -> Option<&Password> {
    let mut costs: BTreeMap<Cost, (usize, &Password)> = BTreeMap::new();
    for account in users.accounts.values() {
        if let Some(cost) = account.password.cost() {
            costs.entry(cost).or_insert((0, &account.password)).0 += 1;
        }
    }
    costs.into_values().max_by_key(|(count, _)| *count).map(|(_, password)| password)
}

/// Returns iterations and length of the salt of most users if all who have a password have keys of
/// SCRAM.
fn scram_of_all(users: &ParsedFile) -> Option<(NonZeroU32, usize)> {
    let mut open = users.accounts.values().filter(|account| !account.password.is_locked());
    if !open.all(|account| account.password.scram().is_some()) {
        return None;
    }
    let keys = usual(users)?.scram()?;
    Some((keys.iterations, keys.salt.len()))
}

#[cfg(test)]
mod tests;
