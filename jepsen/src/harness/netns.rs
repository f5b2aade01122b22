//! A network of its own for each node: one namespace a node, one for clients, one for the switch between them, and
//! nothing on the host. Faults are nftables rules in the namespace of the node that is not to receive; whether they took
//! hold, and were healed, is told by datagrams sent along each way.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sched::{CloneFlags, setns};

use super::leftovers;

/// Begins the name of every namespace of ours; the owner follows.
pub const PREFIX: &str = "holmj-";
/// A datagram on an idle bridge is there long before.
const ARRIVES: Duration = Duration::from_millis(300);
const TABLE: &str = "holmfault";

/// The namespaces of one cluster; removed when dropped.
#[derive(Debug)]
pub struct Network {
    id: String,
    nodes: usize,
}

impl Network {
    /// Why there can be none here, if so.
    pub fn missing() -> Option<String> {
        if !nix::unistd::geteuid().is_root() {
            return Some("needs root for network namespaces".to_owned());
        }
        for (program, word) in
            [("ip", "-V"), ("nft", "-v"), ("tc", "-V"), ("nsenter", "-V"), ("unshare", "-V")]
        {
            if Command::new(program).arg(word).stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
                return Some(format!("{program} is not installed"));
            }
        }
        None
    }

    /// A network for `nodes` nodes, whole.
    ///
    /// # Errors
    /// When a step fails; nothing is left behind then.
    pub fn new(nodes: usize) -> Result<Self> {
        let network =
            Self { id: format!("{PREFIX}{}-{:04x}", leftovers::owner()?, rand::random::<u16>()), nodes };
        let switch = network.switch();
        ip(&["netns", "add", &switch])?;
        ip(&["-n", &switch, "link", "add", "br0", "type", "bridge"])?;
        ip(&["-n", &switch, "link", "set", "br0", "up"])?;
        for node in 0..=network.clients() {
            let (name, port) = (network.namespace(node), format!("p{node}"));
            let address = format!("{}/24", network.address(node));
            ip(&["netns", "add", &name])?;
            ip(&[
                "-n", &switch, "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &name,
            ])?;
            ip(&["-n", &switch, "link", "set", &port, "master", "br0", "up"])?;
            ip(&["-n", &name, "addr", "add", &address, "dev", "eth0"])?;
            ip(&["-n", &name, "link", "set", "eth0", "up"])?;
            ip(&["-n", &name, "link", "set", "lo", "up"])?;
        }
        Ok(network)
    }

    /// Name of a node's namespace, or of the clients'.
    pub fn namespace(&self, node: usize) -> String {
        if node == self.clients() { format!("{}-c", self.id) } else { format!("{}-n{}", self.id, node + 1) }
    }

    /// By which number the namespace goes in which clients live: as if it were one more node's.
    pub fn clients(&self) -> usize {
        self.nodes
    }

    fn switch(&self) -> String {
        format!("{}-sw", self.id)
    }

    /// The same in every run: namespaces do not meet.
    #[allow(clippy::unused_self)]
    pub fn address(&self, node: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 177, 0, u8::try_from(node + 1).expect("a handful of nodes"))
    }

    /// From now on `to` loses `percent` of what comes from each of `from`; earlier rules there end.
    ///
    /// # Errors
    /// When the rules are not accepted.
    pub fn drop_at(&self, to: usize, from: &[usize], percent: u8) -> Result<()> {
        let mut rules = format!(
            "table inet {TABLE} {{}}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n\
             chain input {{ type filter hook input priority 0; policy accept;\n"
        );
        for from in from {
            let address = self.address(*from);
            let chance =
                if percent < 100 { format!("numgen random mod 100 < {percent} ") } else { String::new() };
            writeln!(rules, "ip saddr {address} {chance}drop")?;
        }
        rules.push_str("}\n}\n");
        self.nft(to, &rules)
    }

    /// From now on nobody reaches this TCP port of `node`; what it sends itself goes through.
    ///
    /// # Errors
    /// When the rules are not accepted.
    pub fn close_port(&self, node: usize, port: u16) -> Result<()> {
        let rules = format!(
            "table inet {TABLE} {{}}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n\
             chain input {{ type filter hook input priority 0; policy accept;\n\
             tcp dport {port} drop\n}}\n}}\n"
        );
        self.nft(node, &rules)
    }

    /// From now on what `node` sends gets through at `kbit` a second, after a queue that makes it late.
    ///
    /// # Errors
    /// When the queue cannot be made.
    pub fn slow_down(&self, node: usize, kbit: u32) -> Result<()> {
        let rate = format!("{kbit}kbit");
        let mut command = Command::new("tc");
        command.args(["-n", &self.namespace(node), "qdisc", "replace", "dev", "eth0", "root"]);
        call(command.args(["tbf", "rate", &rate, "burst", "16kb", "latency", "300ms"])).map(drop)
    }

    /// Ends every fault.
    ///
    /// # Errors
    /// When a rule cannot be removed.
    pub fn heal(&self) -> Result<()> {
        for node in 0..=self.clients() {
            // There is one only where it was slowed down.
            let mut command = Command::new("tc");
            let _ = call(command.args(["-n", &self.namespace(node), "qdisc", "del", "dev", "eth0", "root"]));
        }
        let rules = format!("table inet {TABLE} {{}}\ndelete table inet {TABLE}\n");
        (0..=self.clients()).try_for_each(|node| self.nft(node, &rules))
    }

    fn nft(&self, node: usize, rules: &str) -> Result<()> {
        let mut child = Command::new("nsenter")
            .arg(format!("--net={}", self.path(node).display()))
            .args(["--", "nft", "-f", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        child.stdin.take().context("a piped stdin")?.write_all(rules.as_bytes())?;
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "nft: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(())
    }

    /// How many of `count` datagrams of `bytes` arrive.
    ///
    /// # Errors
    /// When none can be sent.
    pub fn delivered(&self, from: usize, to: usize, count: usize, bytes: usize) -> Result<usize> {
        let (sender, receiver) = (self.socket(from)?, self.socket(to)?);
        receiver.set_read_timeout(Some(ARRIVES))?;
        let address = receiver.local_addr()?;
        for _ in 0..count {
            // Refused where a queue is full: it does not arrive.
            let _ = sender.send_to(&vec![0; bytes], address);
        }
        let mut arrived = 0;
        while arrived < count && receiver.recv(&mut [0; 2048]).is_ok() {
            arrived += 1;
        }
        Ok(arrived)
    }

    /// Whether each way, of nodes and clients, is as `cut` says it should be.
    ///
    /// # Errors
    /// When it cannot be told.
    pub fn is_as(&self, cut: impl Fn(usize, usize) -> bool) -> Result<bool> {
        for from in 0..=self.clients() {
            for to in (0..=self.clients()).filter(|to| *to != from) {
                let arrived = self.delivered(from, to, 3, 1)?;
                if (arrived == 0) != cut(from, to) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The file that names the namespace.
    pub fn path(&self, node: usize) -> PathBuf {
        PathBuf::from("/run/netns").join(self.namespace(node))
    }

    /// A socket in a node's namespace; it stays there, whichever thread uses it.
    fn socket(&self, node: usize) -> Result<UdpSocket> {
        let (path, address) = (self.path(node), SocketAddr::from((self.address(node), 0)));
        let made = std::thread::spawn(move || -> Result<UdpSocket> {
            setns(File::open(path)?, CloneFlags::CLONE_NEWNET)?;
            Ok(UdpSocket::bind(address)?)
        });
        made.join().map_err(|_| anyhow::anyhow!("the thread in the namespace panicked"))?
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in (0..=self.clients()).map(|node| self.namespace(node)).chain([self.switch()]) {
            if PathBuf::from("/run/netns").join(&name).exists() {
                let _ = Command::new("ip").args(["netns", "del", &name]).status();
            }
        }
    }
}

fn ip(words: &[&str]) -> Result<()> {
    call(Command::new("ip").args(words)).map(drop)
}

/// Runs a command that is to succeed and gives what it printed.
///
/// # Errors
/// With the command's own words.
pub fn call(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}
