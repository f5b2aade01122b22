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

    /// `ip` with these words, in the network namespace of this thread.
    fn run_ip(words: &str) -> bool {
        let output = std::process::Command::new("ip").args(words.split(' ')).output();
        output.is_ok_and(|output| output.status.success())
    }

    /// In a network of its own: a cable with two ends, one of which is pulled.
    #[test]
    fn a_cable_that_is_pulled_and_an_interface_that_is_switched_off_are_seen() {
        let name = "a_cable_that_is_pulled_and_an_interface_that_is_switched_off_are_seen";
        let alone = std::thread::spawn(|| {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).is_ok()
                && run_ip("link add near type veth peer name far")
                && run_ip("addr add 10.9.9.1/24 dev near")
                && run_ip("link set near up")
                && run_ip("link set far up")
        });
        if !alone.join().unwrap() {
            let skipped =
                format_args!("SKIPPED: {name}: no network namespace with a veth pair can be made\n");
            drop(std::io::Write::write_fmt(&mut std::io::stderr(), skipped));
            return;
        }
        std::thread::spawn(|| {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            let mut watch = LinkWatch::default();
            let mut after = |words: &[&str], expected: &[LinkState]| {
                words.iter().for_each(|words| assert!(run_ip(words), "ip {words}"));
                // Carrier changes are told a moment later.
                let begun = std::time::Instant::now();
                loop {
                    let links = watch.look(&[ip("10.9.9.1")].into(), &carriers().unwrap());
                    let states: Vec<_> = links.into_iter().map(|link| link.state).collect();
                    if states == expected {
                        return;
                    }
                    assert!(begun.elapsed().as_secs() < 10, "{states:?} after {words:?}");
                    std::thread::yield_now();
                }
            };
            let near = || "near".to_owned();
            after(&[], &[]);
            let plug = ["link add near type veth peer name far", "addr add 10.9.9.1/24 dev near"];
            after(&plug, &[LinkState::Down { interface: near() }]);
            after(&["link set near up"], &[LinkState::NoCarrier { interface: near() }]);
            after(&["link set far up"], &[LinkState::Running]);
            after(&["link set far down"], &[LinkState::NoCarrier { interface: near() }]);
            after(&["link del near"], &[LinkState::Missing]);
        })
        .join()
        .unwrap();
    }
}
