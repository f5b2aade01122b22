//! On a node whose address lies in the network of `near`; Nova's `SimpleCIDRAffinityFilter`.

use std::net::IpAddr;

use holm_model::feasible::Refusal;
use holm_model::scheduling::parse_network;

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// The host's API address is in the network that was asked for, if one was.
#[derive(Clone, Copy, Debug)]
pub struct SimpleCidrAffinity;

impl Filter for SimpleCidrAffinity {
    fn name(&self) -> &'static str {
        "SimpleCidrAffinity"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        request.vm.spec.scheduling.near.is_some()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        let Some(near) = &request.vm.spec.scheduling.near else { return Ok(()) };
        let Some((network, prefix)) = parse_network(near) else {
            return Err(format!("near `{near}`: that is no network"));
        };
        match address_of(&host.node.api_addr) {
            None => Err(format!("near `{near}`: the node's address `{}` is no IP", host.node.api_addr)),
            Some(address) if !contains(network, prefix, address) => {
                Err(format!("near `{near}`: the node's address is {address}"))
            }
            Some(_) => Ok(()),
        }
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        "create it with another network or without `--near`; `holm node list` has the addresses".to_owned()
    }
}

/// The IP of `10.0.0.1:7460` or `[fd00::1]:7460`.
fn address_of(api_addr: &str) -> Option<IpAddr> {
    let (host, _port) = api_addr.rsplit_once(':')?;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Whether the first `prefix` bits are the same; bits of `network` behind them do not count.
fn contains(network: IpAddr, prefix: u8, address: IpAddr) -> bool {
    let prefix = u32::from(prefix);
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let differ = network.to_bits() ^ address.to_bits();
            differ.checked_shr(32 - prefix.min(32)).unwrap_or(0) == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let differ = network.to_bits() ^ address.to_bits();
            differ.checked_shr(128 - prefix.min(128)).unwrap_or(0) == 0
        }
        _ => false,
    }
}
