//! Addresses for one cluster: a random part of 127.0.0.0/8, one address a node, fixed ports. Outgoing
//! connections take their source ports on 127.0.0.1, so a port stays free while its daemon is dead; and
//! two clusters on one machine never meet.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Result, bail};
use rand::Rng;

const API_PORT: u16 = 7460;
const PEER_PORT: u16 = 7461;

/// Where one node listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub api: SocketAddr,
    pub peer: SocketAddr,
}

impl Addresses {
    /// Of a node that has `ip` for itself.
    pub fn on(ip: IpAddr) -> Self {
        Self { api: (ip, API_PORT).into(), peer: (ip, PEER_PORT).into() }
    }
}

/// Addresses for `nodes` nodes.
///
/// # Errors
/// When none can be bound.
pub fn pick(nodes: usize) -> Result<Vec<Addresses>> {
    let mut rng = rand::rng();
    for _ in 0..100 {
        let (b, c) = (rng.random_range(64..=254), rng.random_range(0..=254));
        let picked: Vec<_> = (1..=nodes)
            .map(|node| {
                let ip = Ipv4Addr::new(127, b, c, u8::try_from(node).expect("a handful of nodes"));
                Addresses::on(ip.into())
            })
            .collect();
        let free = |address: SocketAddr| TcpListener::bind(address).is_ok();
        if picked.iter().all(|node| free(node.api) && free(node.peer)) {
            return Ok(picked);
        }
    }
    bail!("no free addresses in 127.0.0.0/8")
}
