//! The interfaces that carry this node's addresses.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use super::facts::{Link, LinkState};

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carrier {
    pub interface: String,
    pub address: IpAddr,
    pub is_up: bool,
    pub has_carrier: bool,
}

/// Every address of this host, in the network namespace of this thread.
///
/// # Errors
/// When the kernel does not tell.
pub fn carriers() -> io::Result<Vec<Carrier>> {
    let found = getifaddrs()?.filter_map(|entry| {
        let address = entry.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::from(v4.ip()));
        let v6 = address.as_sockaddr_in6().map(|v6| IpAddr::from(v6.ip()));
        Some(Carrier {
            interface: entry.interface_name,
            address: v4.or(v6)?,
            is_up: entry.flags.contains(InterfaceFlags::IFF_UP),
            has_carrier: entry.flags.contains(InterfaceFlags::IFF_RUNNING),
        })
    });
    Ok(found.collect())
}

/// Remembers which addresses were on an interface: one that never was is somebody else's, who forwards to here.
#[derive(Debug, Default)]
pub struct LinkWatch {
    seen: BTreeSet<IpAddr>,
}

impl LinkWatch {
    /// How the interfaces of `addresses` are.
    pub fn look(&mut self, addresses: &BTreeSet<IpAddr>, carriers: &[Carrier]) -> Vec<Link> {
        let mut links = Vec::new();
        for address in addresses.iter().copied().filter(is_of_a_network) {
            let state = match carriers.iter().find(|carrier| carrier.address == address) {
                Some(Carrier { interface, is_up: false, .. }) => {
                    LinkState::Down { interface: interface.clone() }
                }
                Some(Carrier { interface, has_carrier: false, .. }) => {
                    LinkState::NoCarrier { interface: interface.clone() }
                }
                Some(_) => LinkState::Running,
                None if self.seen.contains(&address) => LinkState::Missing,
                None => continue,
            };
            self.seen.insert(address);
            links.push(Link { address, state });
        }
        links
    }
}

/// Not every address of this host, and not one that is always there.
fn is_of_a_network(address: &IpAddr) -> bool {
    !address.is_unspecified() && !address.is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn eth0(is_up: bool, has_carrier: bool) -> Vec<Carrier> {
        vec![Carrier { interface: "eth0".into(), address: ip("10.0.0.1"), is_up, has_carrier }]
    }

    #[test]
    fn an_address_follows_its_interface() {
        let mut watch = LinkWatch::default();
        let mut look = |carriers: &[Carrier]| {
            let addresses = ["10.0.0.1", "127.0.0.1", "0.0.0.0", "203.0.113.9"].map(ip);
            let links = watch.look(&addresses.into(), carriers);
            links.into_iter().map(|link| link.state).collect::<Vec<_>>()
        };
        let interface = || "eth0".to_owned();
        assert_eq!(look(&[]), [], "none was ever here");
        assert_eq!(look(&eth0(true, true)), [LinkState::Running]);
        assert_eq!(look(&eth0(true, false)), [LinkState::NoCarrier { interface: interface() }]);
        assert_eq!(look(&eth0(false, false)), [LinkState::Down { interface: interface() }]);
        assert_eq!(look(&[]), [LinkState::Missing]);
        assert_eq!(look(&eth0(true, true)), [LinkState::Running]);
    }

    #[test]
    fn this_host_has_a_loopback() {
        assert!(carriers().unwrap().iter().any(|carrier| carrier.address == ip("127.0.0.1")));
    }
}
