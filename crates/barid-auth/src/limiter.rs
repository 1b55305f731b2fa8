//! Delays for those who fail to log in.
//!
//! Failures are counted by address (IPv6 by /64) and by user. After some free failures each
//! further one doubles the time for which attempts are refused, up to a maximum; time without
//! failures forgets them. A user's delay does not apply to an address from which he logged in
//! lately, so that a stranger who guesses cannot lock him out.
//!
//! Memory is bounded: when the tables are full, those seen once are dropped first, so that one who
//! sprays names or addresses does not wash out those who fail repeatedly. Nothing here waits, and
//! only [`SharedLimiter`] reads a clock.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use barid_vfs::{Host, Timestamp};
use quick_cache::unsync::Cache;

use crate::name::UserName;
use crate::net::customer;

/// Settings of a [`Limiter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimiterOptions {
    /// Failures of an address that cost nothing.
    pub address_free: u32,
    /// Failures of a user that cost nothing.
    pub user_free: u32,
    /// The delay after the first failure that costs.
    pub delay: Duration,
    /// The longest delay of an address.
    pub address_delay_max: Duration,
    /// The longest delay of a user. Others can inflict it on him, so it is shorter.
    pub user_delay_max: Duration,
    /// Time without failures after which one failure is forgotten.
    pub forget: Duration,
    /// Time for which an address stays known after a user logged in from it.
    pub known: Duration,
    /// Number of addresses that are remembered, of users, and of pairs of them.
    pub entries_max: usize,
}

impl Default for LimiterOptions {
    fn default() -> Self {
        Self {
            address_free: 5,
            user_free: 5,
            delay: Duration::from_secs(1),
            address_delay_max: Duration::from_secs(15 * 60),
            user_delay_max: Duration::from_secs(60),
            forget: Duration::from_secs(5 * 60),
            known: Duration::from_secs(30 * 24 * 3600),
            entries_max: 50_000,
        }
    }
}

/// A counter of failures.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Timestamp,
    /// The end of the delay.
    until: Timestamp,
}

/// Failures by address and by user.
pub struct Limiter {
    options: LimiterOptions,
    addresses: Cache<u128, Failures>,
    users: Cache<UserName, Failures>,
    known: Cache<(u128, UserName), Timestamp>,
}

impl Limiter {
    /// Creates a limiter that has seen no failures.
    #[must_use]
    pub fn new(options: LimiterOptions) -> Self {
        let entries_max = options.entries_max.max(1);
        Self {
            options,
            addresses: Cache::new(entries_max),
            users: Cache::new(entries_max),
            known: Cache::new(entries_max),
        }
    }

    /// Returns the time until an attempt of a user from an address is allowed; 0 if it is allowed
    /// now. Without a user, as before the name is known, the address alone counts; without an
    /// address, as on connections within the machine, the user alone.
    #[must_use]
    pub fn delay(&self, peer: Option<IpAddr>, user: Option<&UserName>, now: Timestamp) -> Duration {
        let address = peer.map(customer);
        let of_address = address.and_then(|address| self.addresses.get(&address));
        let of_user = user.and_then(|user| match address {
            Some(address) if self.is_known(address, user, now) => None,
            _ => self.users.get(user),
        });
        let delays = [of_address, of_user].map(|failures| match failures {
            Some(failures) => between(now, failures.until),
            None => Duration::ZERO,
        });
        let max = self.options.address_delay_max.max(self.options.user_delay_max);
        // A clock that was set back does not lengthen the longest delay.
        delays[0].max(delays[1]).min(max)
    }

    /// Counts a failure, which [`Limiter::delay`] did not refuse.
    pub fn failed(&mut self, peer: Option<IpAddr>, user: Option<&UserName>, now: Timestamp) {
        let options = self.options;
        let address = peer.map(customer);
        if let Some(address) = address {
            let before = self.addresses.get(&address).copied();
            let (free, max) = (options.address_free, options.address_delay_max);
            self.addresses.insert(address, options.after(before, free, max, now));
        }
        if let Some(user) = user
            && !address.is_some_and(|address| self.is_known(address, user, now))
        {
            let before = self.users.get(user).copied();
            let (free, max) = (options.user_free, options.user_delay_max);
            self.users.insert(user.clone(), options.after(before, free, max, now));
        }
    }

    /// Forgets the failures of a user who logged in, and knows the address from then on. The
    /// failures of the address remain: otherwise one who has an account there could guess those of
    /// others at full speed.
    pub fn succeeded(&mut self, peer: Option<IpAddr>, user: &UserName, now: Timestamp) {
        match peer {
            Some(peer) => self.known.insert((customer(peer), user.clone()), now),
            None => {
                self.users.remove(user);
            }
        }
    }

    fn is_known(&self, address: u128, user: &UserName, now: Timestamp) -> bool {
        let since = self.known.get(&(address, user.clone()));
        since.is_some_and(|since| between(*since, now) < self.options.known)
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Limiter")
            .field("addresses", &self.addresses.len())
            .field("users", &self.users.len())
            .field("known", &self.known.len())
            .finish()
    }
}

/// A [`Limiter`] that threads share, with a clock.
#[derive(Debug)]
pub struct SharedLimiter {
    limiter: Mutex<Limiter>,
    host: Arc<dyn Host>,
}

impl SharedLimiter {
    /// Creates a limiter that has seen no failures.
    #[must_use]
    pub fn new(options: LimiterOptions, host: Arc<dyn Host>) -> Self {
        Self { limiter: Mutex::new(Limiter::new(options)), host }
    }

    /// As [`Limiter::delay`], now.
    #[must_use]
    pub fn delay(&self, peer: Option<IpAddr>, user: Option<&UserName>) -> Duration {
        let now = self.host.now();
        self.limiter().delay(peer, user, now)
    }

    /// As [`Limiter::failed`], now.
    pub fn failed(&self, peer: Option<IpAddr>, user: Option<&UserName>) {
        let now = self.host.now();
        self.limiter().failed(peer, user, now);
    }

    /// As [`Limiter::succeeded`], now.
    pub fn succeeded(&self, peer: Option<IpAddr>, user: &UserName) {
        let now = self.host.now();
        self.limiter().succeeded(peer, user, now);
    }

    fn limiter(&self) -> MutexGuard<'_, Limiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LimiterOptions {
    /// Returns the counter after one more failure.
    fn after(
        &self,
        before: Option<Failures>,
        free: u32,
        max: Duration,
        now: Timestamp,
    ) -> Failures {
        let remembered = before.map_or(0, |before| {
            let quiet = between(before.last, now).as_nanos() / self.forget.as_nanos().max(1);
            before.count.saturating_sub(u32::try_from(quiet).unwrap_or(u32::MAX))
        });
        let delay_of = |count: u32| match count.checked_sub(free.saturating_add(1)) {
            None => Duration::ZERO,
            Some(doublings) => {
                let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
                self.delay.saturating_mul(factor).min(max)
            }
        };
        // The count stops where the delay does, so that it is forgotten in a bounded time.
        let is_longest = delay_of(remembered) == max;
        let count = if is_longest { remembered } else { remembered.saturating_add(1) };
        let delay = delay_of(count);
        Failures { count, last: now, until: later(now, delay) }
    }
}

/// Returns the time from `from` to `to`; 0 if `to` is earlier.
fn between(from: Timestamp, to: Timestamp) -> Duration {
    let nanos = to.unix_nanos.saturating_sub(from.unix_nanos);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

fn later(time: Timestamp, duration: Duration) -> Timestamp {
    let nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    Timestamp { unix_nanos: time.unix_nanos.saturating_add(nanos) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::NameRules;

    const OPTIONS: LimiterOptions = LimiterOptions {
        address_free: 2,
        user_free: 3,
        delay: Duration::from_secs(1),
        address_delay_max: Duration::from_secs(60),
        user_delay_max: Duration::from_secs(8),
        forget: Duration::from_secs(100),
        known: Duration::from_secs(1000),
        entries_max: 64,
    };

    struct World {
        limiter: Limiter,
        seconds: i64,
    }

    fn name(user: &str) -> UserName {
        NameRules::default().name(user.as_bytes()).unwrap()
    }

    impl World {
        fn new() -> Self {
            Self { limiter: Limiter::new(OPTIONS), seconds: 1_000_000 }
        }

        fn now(&self) -> Timestamp {
            Timestamp { unix_nanos: self.seconds * 1_000_000_000 }
        }

        fn delay(&self, peer: &str, user: &str) -> u64 {
            let (peer, user) = (peer.parse().ok(), name(user));
            self.limiter.delay(peer, Some(&user), self.now()).as_secs()
        }

        fn fail(&mut self, peer: &str, user: &str) {
            let now = self.now();
            self.limiter.failed(peer.parse().ok(), Some(&name(user)), now);
        }

        fn succeed(&mut self, peer: &str, user: &str) {
            let now = self.now();
            self.limiter.succeeded(peer.parse().ok(), &name(user), now);
        }
    }

    #[test]
    fn an_address_waits_twice_as_long_each_time() {
        let mut world = World::new();
        let mut delays = Vec::new();
        for number in 0..10 {
            delays.push(world.delay("192.0.2.1", "x"));
            world.fail("192.0.2.1", &format!("user{number}"));
        }
        assert_eq!(delays, [0, 0, 0, 1, 2, 4, 8, 16, 32, 60]);
        assert_eq!(world.delay("192.0.2.2", "x"), 0);
        world.seconds += 59;
        assert_eq!(world.delay("192.0.2.1", "x"), 1);
        world.seconds += 1;
        assert_eq!(world.delay("192.0.2.1", "x"), 0);
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let mut world = World::new();
        for number in 0..4 {
            world.fail(&format!("2001:db8::{number}"), &format!("user{number}"));
        }
        assert_eq!(world.delay("2001:db8::ffff", "x"), 2);
        assert_eq!(world.delay("2001:db8:0:1::1", "x"), 0);
    }

    #[test]
    fn a_user_is_guarded_against_many_addresses() {
        let mut world = World::new();
        for number in 0..9 {
            world.fail(&format!("192.0.2.{number}"), "ann");
        }
        assert_eq!(world.delay("192.0.2.100", "ann"), 8);
        assert_eq!(world.delay("192.0.2.100", "bob"), 0);
        assert_eq!(world.delay("", "ann"), 8);
    }

    #[test]
    fn strangers_cannot_lock_a_user_out() {
        let mut world = World::new();
        world.succeed("198.51.100.1", "ann");
        for number in 0..9 {
            world.fail(&format!("192.0.2.{number}"), "ann");
        }
        assert_eq!(world.delay("198.51.100.1", "ann"), 0);
        assert_eq!(world.delay("198.51.100.2", "ann"), 8);
        world.seconds += 1000;
        for number in 0..9 {
            world.fail(&format!("192.0.2.{number}"), "ann");
        }
        assert_eq!(world.delay("198.51.100.1", "ann"), 8);
    }

    #[test]
    fn failures_are_forgotten() {
        let mut world = World::new();
        for _ in 0..20 {
            world.fail("192.0.2.1", "ann");
        }
        assert_eq!(world.delay("192.0.2.1", "bob"), 60);
        // 9 failures count; 7 are above the free ones.
        world.seconds += 700;
        world.fail("192.0.2.1", "ann");
        assert_eq!(world.delay("192.0.2.1", "bob"), 1);
        world.seconds += 1000;
        world.fail("192.0.2.1", "ann");
        assert_eq!(world.delay("192.0.2.1", "ann"), 0);
    }

    #[test]
    fn success_does_not_clear_an_address() {
        let mut world = World::new();
        for round in 0..10 {
            world.fail("192.0.2.1", &format!("user{round}"));
            world.succeed("192.0.2.1", "mallory");
        }
        assert_eq!(world.delay("192.0.2.1", "x"), 60);
    }

    #[test]
    fn a_clock_set_back_does_not_lock_for_long() {
        let mut world = World::new();
        for _ in 0..20 {
            world.fail("192.0.2.1", "ann");
        }
        world.seconds -= 100_000;
        assert_eq!(world.delay("192.0.2.1", "ann"), 60);
    }

    #[test]
    fn memory_is_bounded_and_repeated_failures_stay() {
        let mut world = World::new();
        for _ in 0..9 {
            world.fail("192.0.2.1", "ann");
        }
        for number in 0..10_000 {
            let peer = format!("10.{}.{}.1", number / 250, number % 250);
            world.fail(&peer, &format!("user{number}"));
        }
        let limiter = &world.limiter;
        assert!(limiter.addresses.len() <= 64, "{limiter:?}");
        assert!(limiter.users.len() <= 64, "{limiter:?}");
        assert!(world.delay("192.0.2.1", "x") > 0);
        assert!(world.delay("192.0.2.9", "ann") > 0);
    }
}
