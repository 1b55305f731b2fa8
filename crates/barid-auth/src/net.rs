//! Networks of addresses, as in Dovecot's field `allow_nets`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A range of addresses with a common prefix, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    prefix: u128,
    len: u32,
}

/// The text is not a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an address or a network such as 10.0.0.0/8 or 2001:db8::/32")]
pub struct NetParseError;

impl Network {
    /// Returns `true` if the address lies in the network. An IPv4 address and its form in IPv6
    /// (`::ffff:10.0.0.1`) are the same.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        (bits(address) ^ self.prefix) & mask(self.len) == 0
    }
}

impl FromStr for Network {
    type Err = NetParseError;

    fn from_str(text: &str) -> Result<Self, NetParseError> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len.parse::<u32>().map_err(|_| NetParseError)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetParseError)?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let len = len.unwrap_or(width);
        if len > width {
            return Err(NetParseError);
        }
        let len = len + (128 - width);
        Ok(Self { prefix: bits(address) & mask(len), len })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from(self.prefix);
        match address.to_ipv4_mapped().filter(|_| self.len >= 96) {
            Some(address) => write!(out, "{address}/{}", self.len - 96),
            None => write!(out, "{address}/{}", self.len),
        }
    }
}

/// Returns the address as a number; IPv4 addresses in their form in IPv6.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Returns a number whose first `len` bits are set.
fn mask(len: u32) -> u128 {
    if len == 0 { 0 } else { u128::MAX << (128 - len) }
}

/// Returns the network by which failures of an address are counted: the address of IPv4, the /64 of
/// IPv6, which a provider gives to one customer.
pub(crate) fn customer(address: IpAddr) -> u128 {
    let bits = bits(address);
    match address.to_canonical() {
        IpAddr::V4(_) => bits,
        IpAddr::V6(_) => bits & mask(64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(network: &str, address: &str, expected: bool) {
        let parsed: Network = network.parse().unwrap();
        assert_eq!(parsed.contains(address.parse().unwrap()), expected, "{network} {address}");
    }

    #[test]
    fn addresses_are_in_networks() {
        check("10.0.0.0/8", "10.200.3.4", true);
        check("10.0.0.0/8", "11.0.0.1", false);
        check("10.1.2.3", "10.1.2.3", true);
        check("10.1.2.3", "10.1.2.4", false);
        check("10.1.2.3/8", "10.9.9.9", true);
        check("10.0.0.0/8", "::ffff:10.0.0.1", true);
        check("2001:db8::/32", "2001:db8:1::1", true);
        check("2001:db8::/32", "2001:db9::1", false);
        check("::/0", "10.0.0.1", true);
        check("0.0.0.0/0", "2001:db8::1", false);
        check("0.0.0.0/0", "192.0.2.1", true);
    }

    #[test]
    fn bad_networks_are_refused() {
        for bad in ["", "x", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/-1"] {
            assert_eq!(bad.parse::<Network>(), Err(NetParseError), "{bad:?}");
        }
    }

    #[test]
    fn networks_are_printed() {
        for text in ["10.0.0.0/8", "10.1.2.3/32", "2001:db8::/32", "::/0"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn customers_share_a_64() {
        let of = |text: &str| customer(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
    }
}
