//! Addresses of PCI devices, as `lspci -D` and sysfs write them: `0000:65:00.1`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Domain, bus, device and function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PciAddress {
    domain: u16,
    bus: u8,
    device: u8,
    function: u8,
}

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no PCI address: write it as 0000:65:00.1 (domain:bus:device.function, in hexadecimal)")]
pub struct ParseError(String);

impl PciAddress {
    /// Its directory in sysfs, which need not be there.
    pub fn sysfs(self) -> PathBuf {
        PathBuf::from(format!("/sys/bus/pci/devices/{self}"))
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{}", self.domain, self.bus, self.device, self.function)
    }
}

impl FromStr for PciAddress {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let parse = || {
            let (slot, function) = text.split_once('.')?;
            let mut numbers = slot.split(':');
            let mut hex = |digits: usize| {
                let part = numbers.next().filter(|part| part.len() == digits)?;
                // `from_str_radix` takes a sign.
                part.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u16::from_str_radix(part, 16).ok())?
            };
            let address = Self {
                domain: hex(4)?,
                bus: u8::try_from(hex(2)?).ok()?,
                device: u8::try_from(hex(2)?).ok()?,
                function: match function.as_bytes() {
                    [digit @ b'0'..=b'7'] => digit - b'0',
                    _ => return None,
                },
            };
            (numbers.next().is_none() && address.device < 32).then_some(address)
        };
        parse().ok_or_else(|| ParseError(text.to_owned()))
    }
}

impl From<PciAddress> for String {
    fn from(address: PciAddress) -> Self {
        address.to_string()
    }
}

impl TryFrom<String> for PciAddress {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_back_as_it_was_written() {
        for text in ["0000:65:00.1", "ffff:ff:1f.7", "0001:00:0a.0"] {
            assert_eq!(text.parse::<PciAddress>().expect(text).to_string(), text);
        }
        let address: PciAddress = serde_json::from_str(r#""0000:65:00.1""#).expect("json");
        assert_eq!(address.sysfs(), PathBuf::from("/sys/bus/pci/devices/0000:65:00.1"));
    }

    #[test]
    fn everything_else_is_refused_with_the_right_form() {
        let bad = ["", "65:00.1", "0000:65:00", "0000:65:00.8", "0000:65:20.0", "0000:065:00.0", "../../etc"];
        for text in
            bad.into_iter().chain(["0000:65:00.1/..", "0000:65:00.1:0", "+000:65:00.1", "0000:65:0g.1"])
        {
            let error = text.parse::<PciAddress>().expect_err(text);
            assert!(error.to_string().contains("0000:65:00.1"), "{error}");
        }
    }
}
