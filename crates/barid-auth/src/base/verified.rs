//! Verified passwords, so that the second login of a user does not compute a slow hash again.

use std::time::Duration;

use barid_vfs::{Host, Timestamp};
use quick_cache::sync::Cache;

use crate::error::Result;
use crate::mac::MacKey;
use crate::name::UserName;
use crate::secret::equal;
use crate::server_secret::random;

/// The users who logged in lately, with a MAC of the password that was right then.
///
/// The MAC has a key that this process made up, and covers the name, the stored hash and the
/// password: after a change of the hash it fits no longer. Wrong passwords are never remembered, so
/// that guessing costs the slow hash every time.
pub(super) struct Verified {
    key: MacKey,
    users: Cache<UserName, Entry>,
    time: Duration,
}

#[derive(Clone)]
struct Entry {
    mac: [u8; 32],
    since: Timestamp,
}

impl Verified {
    /// Creates a cache of at most `users_max` users, each remembered for `time`.
    pub(super) fn new(users_max: usize, time: Duration, host: &dyn Host) -> Result<Self> {
        let key = MacKey::new(&*random(host)?);
        Ok(Self { key, users: Cache::new(users_max), time })
    }

    /// Returns the MAC of a login; `stored` distinguishes stored hashes.
    pub(super) fn mac(&self, name: &UserName, stored: &[u8; 16], password: &[u8]) -> [u8; 32] {
        self.key.of(&[name.as_str().as_bytes(), stored, password])
    }

    /// Returns `true` if this login was right lately.
    pub(super) fn knows(&self, name: &UserName, mac: &[u8; 32], now: Timestamp) -> bool {
        self.users.get(name).is_some_and(|entry| {
            let age = now.unix_nanos.checked_sub(entry.since.unix_nanos);
            // A clock that was set back ends the time as well.
            let age = age.and_then(|age| u64::try_from(age).ok()).map(Duration::from_nanos);
            equal(&entry.mac, mac) && age.is_some_and(|age| age < self.time)
        })
    }

    /// Remembers a login that was right.
    pub(super) fn remember(&self, name: &UserName, mac: [u8; 32], now: Timestamp) {
        if !self.time.is_zero() {
            self.users.insert(name.clone(), Entry { mac, since: now });
        }
    }
}

impl std::fmt::Debug for Verified {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Verified").field("users", &self.users.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use barid_vfs::MemVfs;

    use super::*;
    use crate::name::NameRules;

    const STORED: [u8; 16] = [1; 16];

    fn at(seconds: i64) -> Timestamp {
        Timestamp { unix_nanos: seconds * 1_000_000_000 }
    }

    fn name(text: &str) -> UserName {
        NameRules::default().name(text.as_bytes()).unwrap()
    }

    fn verified(users_max: usize) -> Verified {
        Verified::new(users_max, Duration::from_secs(60), &MemVfs::new()).unwrap()
    }

    #[test]
    fn only_the_same_login_is_known_and_only_for_its_time() {
        let (verified, ann) = (verified(10), name("ann"));
        let mac = verified.mac(&ann, &STORED, b"secret");
        assert!(!verified.knows(&ann, &mac, at(100)));
        verified.remember(&ann, mac, at(100));
        assert!(verified.knows(&ann, &mac, at(100)));
        assert!(verified.knows(&ann, &mac, at(159)));
        assert!(!verified.knows(&ann, &mac, at(160)));
        assert!(!verified.knows(&ann, &mac, at(99)));
        assert!(!verified.knows(&ann, &verified.mac(&ann, &STORED, b"other"), at(100)));
        assert!(!verified.knows(&ann, &verified.mac(&ann, &[2; 16], b"secret"), at(100)));
        assert!(!verified.knows(&name("bob"), &mac, at(100)));
    }

    #[test]
    fn the_number_of_users_is_bounded() {
        let verified = verified(100);
        for number in 0..1000 {
            verified.remember(&name(&format!("user{number}")), [0; 32], at(0));
        }
        assert!(verified.users.len() <= 100, "{}", verified.users.len());
    }

    #[test]
    fn a_time_of_zero_remembers_nothing() {
        let verified = Verified::new(10, Duration::ZERO, &MemVfs::new()).unwrap();
        verified.remember(&name("ann"), [0; 32], at(0));
        assert_eq!(verified.users.len(), 0);
    }
}
