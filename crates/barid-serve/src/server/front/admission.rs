//! The admission of connections: bounds in all, by address, and before login.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::server::messages::FrontSettings;

/// The connections that are open.
pub(super) struct Admission {
    open: Mutex<Open>,
    accepted: AtomicU64,
    refused: AtomicU64,
}

struct Open {
    limits: FrontSettings,
    count: usize,
    addresses: HashMap<IpAddr, usize>,
    /// Connections that have not logged in, oldest first, with the means to end them.
    before_login: BTreeMap<u64, oneshot::Sender<()>>,
    last: u64,
}

/// A place of a connection, given back when it is dropped.
pub(super) struct Place {
    admission: Arc<Admission>,
    address: Option<IpAddr>,
}

/// A place among those that have not logged in.
pub(super) struct LoginPlace {
    admission: Arc<Admission>,
    number: u64,
}

impl Admission {
    pub(super) fn new(limits: FrontSettings) -> Self {
        let open = Open {
            limits,
            count: 0,
            addresses: HashMap::new(),
            before_login: BTreeMap::new(),
            last: 0,
        };
        Self { open: Mutex::new(open), accepted: AtomicU64::new(0), refused: AtomicU64::new(0) }
    }

    pub(super) fn set_limits(&self, limits: FrontSettings) {
        self.open().limits = limits;
    }

    pub(super) fn login_timeout(&self) -> Duration {
        self.open().limits.login_timeout
    }

    /// Returns the open connections, and the numbers of all that were accepted and refused.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        let open = self.open().count as u64;
        (open, self.accepted.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    /// Admits a connection, or tells why not.
    pub(super) fn admit(self: &Arc<Self>, peer: Option<IpAddr>) -> Result<Place, &'static str> {
        let address = peer.map(customer);
        let mut open = self.open();
        let FrontSettings { connections, per_address, .. } = open.limits;
        let of_address = address.and_then(|address| open.addresses.get(&address).copied());
        let of_address = of_address.unwrap_or(0);
        let refusal = match () {
            () if open.count >= connections => "Too many connections, try again later",
            () if of_address >= per_address => "Too many connections from your address",
            () => {
                open.count += 1;
                if let Some(address) = address {
                    open.addresses.insert(address, of_address + 1);
                }
                self.accepted.fetch_add(1, Ordering::Relaxed);
                return Ok(Place { admission: Arc::clone(self), address });
            }
        };
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(refusal)
    }

    /// Takes a place among those that have not logged in; if there is none, the oldest must go, so
    /// that slow ones do not keep others out.
    pub(super) fn before_login(self: &Arc<Self>) -> (LoginPlace, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        let mut open = self.open();
        while open.before_login.len() >= open.limits.before_login.max(1) {
            if let Some((_, oldest)) = open.before_login.pop_first() {
                let _ = oldest.send(());
            }
        }
        open.last += 1;
        let number = open.last;
        open.before_login.insert(number, sender);
        (LoginPlace { admission: Arc::clone(self), number }, receiver)
    }

    /// Ends all connections that have not logged in.
    pub(super) fn end_logins(&self) {
        let all = std::mem::take(&mut self.open().before_login);
        for sender in all.into_values() {
            let _ = sender.send(());
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.admission.open();
        open.count -= 1;
        let Some(address) = self.address else { return };
        if let Some(count) = open.addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.addresses.remove(&address);
            }
        }
    }
}

impl Drop for LoginPlace {
    fn drop(&mut self) {
        self.admission.open().before_login.remove(&self.number);
    }
}

/// Returns the address by which connections are counted: of IPv6 the /64, which a provider gives to
/// one customer.
fn customer(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & (u128::MAX << 64)).into()),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission() -> Arc<Admission> {
        Arc::new(Admission::new(FrontSettings {
            connections: 4,
            per_address: 2,
            before_login: 2,
            login_timeout: Duration::from_secs(60),
        }))
    }

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn places_are_counted_by_address_and_given_back() {
        let admission = admission();
        let first = admission.admit(ip("2001:db8::1")).ok();
        let second = admission.admit(ip("2001:db8::2")).ok();
        assert!(first.is_some() && second.is_some());
        let refusal = admission.admit(ip("2001:db8::3")).err();
        assert_eq!(refusal, Some("Too many connections from your address"));
        let others = [admission.admit(ip("192.0.2.1")), admission.admit(ip("192.0.2.2"))];
        assert!(others.iter().all(Result::is_ok));
        let refusal = admission.admit(ip("192.0.2.3")).err();
        assert_eq!(refusal, Some("Too many connections, try again later"));
        drop(first);
        assert!(admission.admit(ip("::ffff:192.0.2.3")).is_ok());
        assert_eq!(admission.counts(), (3, 5, 2));
        drop((second, others));
        assert!(admission.open().addresses.is_empty());
    }

    #[test]
    fn the_oldest_goes_before_login() {
        let admission = admission();
        let (_first, mut first_ends) = admission.before_login();
        let (second, mut second_ends) = admission.before_login();
        assert!(first_ends.try_recv().is_err());
        let (_third, mut third_ends) = admission.before_login();
        assert!(first_ends.try_recv().is_ok());
        drop(second);
        let _fourth = admission.before_login();
        assert!(third_ends.try_recv().is_err());
        assert!(second_ends.try_recv().is_err());
    }
}
