//! The daemon's settings: `holmd.toml` in the data directory, overridden by environment, overridden by
//! flags. Unknown keys are refused; every value is checked before anything starts.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use holm_model::Reason;
use serde::{Deserialize, Serialize};

/// Name of the file in the data directory.
pub const FILE: &str = "holmd.toml";

/// What `holmd.toml` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of this node, unique in the cluster.
    pub name: String,
    pub peer: Listen,
    pub api: Listen,
    /// Where sockets live; short, on tmpfs.
    #[serde(default = "default_run_dir")]
    pub run_dir: PathBuf,
    /// Listen beyond loopback although nothing is encrypted or authenticated yet.
    #[serde(default)]
    pub insecure: bool,
    #[serde(default)]
    pub hypervisor: HypervisorConfig,
    #[serde(default)]
    pub inventory: InventoryConfig,
    #[serde(default, skip_serializing_if = "CpuConfig::is_empty")]
    pub cpu: CpuConfig,
    /// PCI devices that VMs may have, the first match naming them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pci: Vec<PciConfig>,
    #[serde(default)]
    pub log: LogConfig,
}

/// One service's addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    pub listen: SocketAddr,
    /// `host:port` under which others reach it; the listen address unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,
}

impl Listen {
    /// The address to tell others.
    pub fn advertised(&self) -> String {
        self.advertise.clone().unwrap_or_else(|| self.listen.to_string())
    }
}

/// Which hypervisor, and where its parts are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HypervisorConfig {
    #[serde(default)]
    pub kind: HypervisorChoice,
    /// The VMM's binary; found on PATH unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary: Option<PathBuf>,
    /// Boots disk images that come without a kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<PathBuf>,
}

/// Which driver to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum HypervisorChoice {
    /// Cloud Hypervisor where it can work, else the simulated one, with the reason shown.
    #[default]
    Auto,
    /// Cloud Hypervisor or nothing: where it cannot work, the node says so and takes no VMs.
    CloudHypervisor,
    /// In memory; no guest runs.
    Simulated,
}

/// How many times over VMs may claim what the host has; the names and defaults are Nova's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InventoryConfig {
    pub cpu_allocation_ratio: f64,
    pub ram_allocation_ratio: f64,
    pub disk_allocation_ratio: f64,
}

impl Default for InventoryConfig {
    fn default() -> Self {
        Self { cpu_allocation_ratio: 4.0, ram_allocation_ratio: 1.0, disk_allocation_ratio: 1.0 }
    }
}

impl InventoryConfig {
    /// Each ratio with its name.
    fn ratios(&self) -> [(&'static str, f64); 3] {
        [
            ("inventory.cpu_allocation_ratio", self.cpu_allocation_ratio),
            ("inventory.ram_allocation_ratio", self.ram_allocation_ratio),
            ("inventory.disk_allocation_ratio", self.disk_allocation_ratio),
        ]
    }
}

/// Linux numbers no more CPUs than this.
const CPUS_MAX: u32 = 8192;

/// CPUs of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CpuConfig {
    /// Set apart for VMs with `hw:cpu_policy=dedicated`, such as `4-15,20`; the others share the rest.
    pub dedicated: String,
}

impl CpuConfig {
    fn is_empty(&self) -> bool {
        self.dedicated.is_empty()
    }

    /// Their numbers; none where they cannot be read.
    pub fn dedicated_cpus(&self) -> Option<BTreeSet<u32>> {
        if self.dedicated.is_empty() {
            return Some(BTreeSet::new());
        }
        let small = |number: &str| number.parse::<u32>().is_ok_and(|number| number < CPUS_MAX);
        let readable = self.dedicated.split([',', '-']).all(small);
        readable.then(|| holm_vmm::host::cpu_list(&self.dedicated)).flatten()
    }
}

/// PCI devices under one name. All that is given must match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PciConfig {
    /// What VMs ask for: `pci_passthrough:alias=gpu:1`.
    pub alias: String,
    /// Four hexadecimal digits, as `lspci -n` shows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// As `lspci -D` writes it, or its beginning and a `*`: `0000:65:*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

impl PciConfig {
    /// Whether it means this device.
    pub fn matches(&self, address: &str, vendor: &str, product: &str) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(found))
        };
        let address = self.address.as_ref().is_none_or(|wanted| match wanted.strip_suffix('*') {
            Some(beginning) => {
                address.get(..beginning.len()).is_some_and(|found| found.eq_ignore_ascii_case(beginning))
            }
            None => wanted.eq_ignore_ascii_case(address),
        });
        address && is(&self.vendor, vendor) && is(&self.product, product)
    }

    fn check(&self) -> Result<(), String> {
        let hex = |text: &Option<String>| {
            text.as_ref().is_none_or(|text| text.len() == 4 && text.bytes().all(|b| b.is_ascii_hexdigit()))
        };
        if self.alias.is_empty() || self.alias.contains([',', ':', ' ']) {
            return Err(format!("alias {:?}: use letters, digits, `-` and `_`", self.alias));
        }
        if !hex(&self.vendor) || !hex(&self.product) {
            return Err(format!(
                "{}: vendor and product are four hexadecimal digits, such as 10de",
                self.alias
            ));
        }
        if self.vendor.is_none() && self.product.is_none() && self.address.is_none() {
            return Err(format!(
                "{}: give a vendor, a product or an address, or it would mean every device",
                self.alias
            ));
        }
        Ok(())
    }
}

impl fmt::Display for PciConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = [("vendor", &self.vendor), ("product", &self.product), ("address", &self.address)];
        let given: Vec<String> =
            given.iter().filter_map(|(name, value)| Some(format!("{name} {}", value.as_ref()?))).collect();
        write!(f, "`[[pci]] alias = {:?}` ({})", self.alias, given.join(", "))
    }
}

/// What is logged, and how. Goes to stderr.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// A `tracing` filter: `info`, `holm_node=debug,info` …
    pub level: String,
    #[serde(default)]
    pub format: LogFormat,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Text }
    }
}

/// One line of text, or one JSON object, an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

fn default_run_dir() -> PathBuf {
    PathBuf::from("/run/holm")
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}: run `holmd init` (first node) or `holmd join` first", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{} is not a valid configuration", path.display())]
    Parse {
        path: PathBuf,
        #[source]
        source: Box<toml::de::Error>,
    },
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "{field} listens on {address}, beyond loopback, and nothing is encrypted or authenticated yet: \
         anyone who reaches it controls the cluster. Use a loopback address, or give --insecure on a \
         network you trust"
    )]
    Insecure { field: &'static str, address: SocketAddr },
    #[error(
        "{field} would be told to other nodes as {address}, which they cannot reach: give --{field}-advertise, or set {field}.advertise in holmd.toml"
    )]
    Unreachable { field: &'static str, address: String },
    #[error("{field}: {message}")]
    Invalid { field: &'static str, message: String },
}

impl Config {
    /// Reads `<data_dir>/holmd.toml`.
    ///
    /// # Errors
    /// When it is missing or malformed.
    pub fn read(data_dir: &Path) -> Result<Self, Error> {
        let path = data_dir.join(FILE);
        let text =
            std::fs::read_to_string(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
        toml::from_str(&text).map_err(|source| Error::Parse { path, source: Box::new(source) })
    }

    /// Writes `<data_dir>/holmd.toml`, durably: a node that lost it to a power cut would not start again.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, data_dir: &Path) -> Result<(), Error> {
        let path = data_dir.join(FILE);
        let text = toml::to_string_pretty(self)
            .map_err(|e| Error::Invalid { field: "holmd.toml", message: e.to_string() })?;
        replace(&path, text.as_bytes()).map_err(|source| Error::Write { path, source })
    }

    /// Checks what can be checked without starting anything.
    ///
    /// # Errors
    /// Names the field and the fix.
    pub fn check(&self) -> Result<(), Error> {
        holm_model::limits::name("name", &self.name).map_err(|reason| match reason {
            Reason::Invalid { message, .. } => Error::Invalid { field: "name", message },
            other => Error::Invalid { field: "name", message: other.to_string() },
        })?;
        for (field, service) in [("peer", &self.peer), ("api", &self.api)] {
            if !service.listen.ip().is_loopback() && !self.insecure {
                return Err(Error::Insecure { field, address: service.listen });
            }
            let advertised = service.advertised();
            match advertised.to_socket_addrs() {
                Ok(mut addresses) => {
                    if addresses.any(|a| a.ip().is_unspecified() || a.port() == 0) {
                        return Err(Error::Unreachable { field, address: advertised });
                    }
                }
                Err(e) => {
                    let message = format!("{advertised:?} must be HOST:PORT and resolve ({e})");
                    return Err(Error::Invalid { field: "advertise", message });
                }
            }
        }
        for (field, ratio) in self.inventory.ratios() {
            if !(0.001..=1000.0).contains(&ratio) {
                let message = format!("is {ratio}, must be 0.001 to 1000");
                return Err(Error::Invalid { field, message });
            }
        }
        if self.cpu.dedicated_cpus().is_none() {
            let message = format!("is {:?}, write it as 4-15,20", self.cpu.dedicated);
            return Err(Error::Invalid { field: "cpu.dedicated", message });
        }
        for pci in &self.pci {
            pci.check().map_err(|message| Error::Invalid { field: "pci", message })?;
        }
        if self.peer.listen == self.api.listen {
            let message =
                format!("is {}, the address of the peer service too: give each its own", self.api.listen);
            return Err(Error::Invalid { field: "api.listen", message });
        }
        if let Some(firmware) = self.hypervisor.firmware.as_ref().filter(|firmware| !firmware.is_file()) {
            let message = format!("there is no file {}", firmware.display());
            return Err(Error::Invalid { field: "hypervisor.firmware", message });
        }
        // sockaddr_un holds 108 bytes; a VM's sockets need room below.
        if self.run_dir.as_os_str().len() > 60 {
            let message = "is too long for Unix sockets below it, use at most 60 bytes".to_owned();
            return Err(Error::Invalid { field: "run_dir", message });
        }
        Ok(())
    }
}

/// The old content or the new, whatever moment the power fails.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(listen: &str) -> Config {
        let listen =
            |port: u16| Listen { listen: format!("{listen}:{port}").parse().unwrap(), advertise: None };
        Config {
            name: "node1".into(),
            peer: listen(7461),
            api: listen(7460),
            run_dir: default_run_dir(),
            insecure: false,
            hypervisor: HypervisorConfig::default(),
            inventory: InventoryConfig::default(),
            cpu: CpuConfig::default(),
            pci: Vec::new(),
            log: LogConfig::default(),
        }
    }

    #[test]
    fn loopback_needs_no_permission_and_anything_else_does() {
        assert!(config("127.0.0.1").check().is_ok());
        assert!(config("[::1]").check().is_ok());
        assert!(matches!(config("10.0.0.1").check(), Err(Error::Insecure { field: "peer", .. })));
        let insecure = Config { insecure: true, ..config("10.0.0.1") };
        assert!(insecure.check().is_ok());
    }

    #[test]
    fn an_address_nobody_can_reach_is_not_advertised() {
        let any = Config { insecure: true, ..config("0.0.0.0") };
        assert!(matches!(any.check(), Err(Error::Unreachable { field: "peer", .. })));
    }

    #[test]
    fn a_ratio_that_makes_no_sense_is_refused_by_its_name() {
        for ratio in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut bad = config("127.0.0.1");
            bad.inventory.ram_allocation_ratio = ratio;
            let field = "inventory.ram_allocation_ratio";
            assert!(matches!(bad.check(), Err(Error::Invalid { field: named, .. }) if named == field));
        }
    }

    #[test]
    fn parts_are_named_and_mean_something() {
        let pci =
            PciConfig { alias: "gpu".into(), vendor: Some("10de".into()), product: None, address: None };
        let with = |pci: PciConfig, dedicated: &str| {
            let cpu = CpuConfig { dedicated: dedicated.into() };
            Config { pci: vec![pci], cpu, ..config("127.0.0.1") }.check()
        };
        assert!(with(pci.clone(), "0-3,7").is_ok());
        for (bad, dedicated, named) in [
            (PciConfig { alias: "g:1".into(), ..pci.clone() }, "", "pci"),
            (PciConfig { vendor: Some("0x10de".into()), ..pci.clone() }, "", "pci"),
            (PciConfig { vendor: None, ..pci.clone() }, "", "pci"),
            (pci, "four", "cpu.dedicated"),
        ] {
            assert!(matches!(with(bad, dedicated), Err(Error::Invalid { field, .. }) if field == named));
        }
    }

    #[test]
    fn what_is_written_reads_back_and_unknown_keys_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let written = config("127.0.0.1");
        written.write(dir.path()).unwrap();
        assert_eq!(Config::read(dir.path()).unwrap(), written);
        let path = dir.path().join(FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("colour = 1\n{text}")).unwrap();
        assert!(matches!(Config::read(dir.path()), Err(Error::Parse { .. })));
    }
}
