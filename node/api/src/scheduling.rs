//! What a VM says about its host, and what keeps VMs off a node, in the words of Kubernetes and Nova. Each
//! also has a short form in text (`disk in (nvme,ssd)`, `gpu=yes:NoSchedule`), read here and nowhere else.

use std::fmt;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// One demand on a node's labels. Where one is sent, its short form does as well: `gpu`, `!slow`,
/// `disk = nvme`, `disk != hdd`, `disk in (nvme,ssd)`, `disk notin (hdd)`, `cores > 8`, `cores < 64`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Requirement {
    pub key: String,
    pub operator: Operator,
    /// For `In` and `NotIn` at least one, for `Gt` and `Lt` one whole number, otherwise none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub values: Vec<String>,
}

/// How a label is compared. `NotIn` and `DoesNotExist` hold where the label is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
}

/// A [`Requirement`] as it may be sent.
#[derive(ToSchema)]
#[schema(as = NodeSelectorTerm)]
#[serde(untagged)]
#[allow(dead_code)] // Only its description is used; `Requirement` reads both forms.
pub enum Term {
    Text(String),
    Requirement(Requirement),
}

/// What keeps VMs off a node unless they tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Taint {
    pub key: String,
    #[serde(default)]
    pub value: String,
    pub effect: Effect,
}

/// How strongly a taint keeps VMs off. What already runs stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub enum Effect {
    NoSchedule,
    /// Only a preference.
    PreferNoSchedule,
}

/// A taint that a VM puts up with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Toleration {
    /// Without it, every key; then there is no value either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Without it, every value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Without it, every effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
}

/// Everything a VM says about its host, as its record shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Scheduling {
    pub availability_zone: Option<String>,
    pub node_selector: Vec<Requirement>,
    pub tolerations: Vec<Toleration>,
    /// Name of its server group.
    pub group: Option<String>,
    /// Names of VMs it must not share a host with.
    pub different_host: Vec<String>,
    /// Names of VMs, one of which must be on its host.
    pub same_host: Vec<String>,
    /// A network that its host's API address must lie in.
    pub near: Option<String>,
    /// Greater goes first.
    pub priority: i32,
    /// Whether it may be evicted, its disks lost, for a VM of greater priority.
    #[serde(default)]
    pub preemptible: bool,
}

impl<'de> Deserialize<'de> for Requirement {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Requirement;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "an object with `key`, `operator` and `values`, or text such as `disk in (nvme,ssd)`",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Requirement, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Requirement, A::Error> {
                let Long { key, operator, values } = Long::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Requirement { key, operator, values })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Long {
    key: String,
    operator: Operator,
    #[serde(default)]
    values: Vec<String>,
}

/// A short form that cannot be read, and the forms there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    text: String,
    message: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.text, self.message)
    }
}

impl std::error::Error for Unreadable {}

fn unreadable(text: &str, message: &str) -> Unreadable {
    Unreadable { text: text.to_owned(), message: message.to_owned() }
}

const SELECTORS: &str = "is no selector; write `gpu`, `!slow`, `disk = nvme`, `disk != hdd`, \
    `disk in (nvme,ssd)`, `disk notin (hdd)`, `cores > 8` or `cores < 64`";

/// The key that `text` begins with, and the rest.
fn leading_key(text: &str) -> (&str, &str) {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
    let end = text.find(|c| !allowed(c)).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

impl FromStr for Requirement {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        let wrong = || unreadable(text, SELECTORS);
        let whole = text.trim();
        let (negated, whole) = match whole.strip_prefix('!') {
            Some(rest) => (true, rest.trim_start()),
            None => (false, whole),
        };
        let (key, rest) = leading_key(whole);
        if key.is_empty() || (negated && !rest.is_empty()) {
            return Err(wrong());
        }
        let one = |operator, value: &str| {
            let value = value.trim();
            let plain = !value.is_empty() && !value.contains(['=', '<', '>', '!', '(', ')', ',']);
            plain.then(|| (operator, vec![value.to_owned()])).ok_or_else(wrong)
        };
        let (operator, values) = if rest.is_empty() {
            (if negated { Operator::DoesNotExist } else { Operator::Exists }, Vec::new())
        } else if let Some(value) = rest.strip_prefix("!=") {
            one(Operator::NotIn, value)?
        } else if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
            one(Operator::In, value)?
        } else if let Some(value) = rest.strip_prefix('>') {
            one(Operator::Gt, value)?
        } else if let Some(value) = rest.strip_prefix('<') {
            one(Operator::Lt, value)?
        } else if let Some(values) = rest.strip_prefix("notin") {
            (Operator::NotIn, list(values).ok_or_else(wrong)?)
        } else if let Some(values) = rest.strip_prefix("in") {
            (Operator::In, list(values).ok_or_else(wrong)?)
        } else {
            return Err(wrong());
        };
        Ok(Self { key: key.to_owned(), operator, values })
    }
}

/// The values of `(a, b)`.
fn list(text: &str) -> Option<Vec<String>> {
    let values = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    let values: Vec<_> = values.split(',').map(|value| value.trim().to_owned()).collect();
    values.iter().all(|value| !value.is_empty() && !value.contains(['(', ')'])).then_some(values)
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator, values } = self;
        let values = values.join(",");
        match operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Gt => write!(f, "{key} > {values}"),
            Operator::Lt => write!(f, "{key} < {values}"),
        }
    }
}

impl Effect {
    fn named(text: &str) -> Option<Self> {
        match text {
            "NoSchedule" => Some(Self::NoSchedule),
            "PreferNoSchedule" => Some(Self::PreferNoSchedule),
            _ => None,
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
        })
    }
}

/// `key`, value and effect of `key=value:effect`; a part that is not written is none.
fn parts(text: &str) -> Option<(&str, Option<&str>, Option<Effect>)> {
    let (rest, effect) = match text.rsplit_once(':') {
        Some((rest, last)) => (rest, Some(Effect::named(last)?)),
        None => (text, None),
    };
    Some(match rest.split_once('=') {
        Some((key, value)) => (key, Some(value), effect),
        None => (rest, None, effect),
    })
}

impl FromStr for Taint {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        match parts(text) {
            Some((key, value, Some(effect))) if !key.is_empty() => {
                Ok(Self { key: key.to_owned(), value: value.unwrap_or_default().to_owned(), effect })
            }
            _ => Err(unreadable(
                text,
                "is no taint; write KEY=VALUE:EFFECT or KEY:EFFECT, the effect `NoSchedule` or `PreferNoSchedule`",
            )),
        }
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gap = if self.value.is_empty() { "" } else { "=" };
        write!(f, "{}{gap}{}:{}", self.key, self.value, self.effect)
    }
}

impl FromStr for Toleration {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        let wrong = || {
            unreadable(
                text,
                "is no toleration; write KEY, KEY=VALUE, KEY=VALUE:EFFECT, KEY:EFFECT, :EFFECT or `*` for every taint",
            )
        };
        let (key, value, effect) = parts(text).ok_or_else(wrong)?;
        let every = key == "*" || (key.is_empty() && effect.is_some());
        if (key.is_empty() && !every) || (every && value.is_some()) {
            return Err(wrong());
        }
        let key = (!every).then(|| key.to_owned());
        Ok(Self { key, value: value.map(str::to_owned), effect })
    }
}

impl fmt::Display for Toleration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key.as_deref().unwrap_or("*"))?;
        self.value.iter().try_for_each(|value| write!(f, "={value}"))?;
        self.effect.iter().try_for_each(|effect| write!(f, ":{effect}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_have_a_short_form() {
        let read =
            |text: &str| text.parse::<Requirement>().map(|read| (read.operator, read.values.join("|")));
        for (text, operator, values) in [
            ("gpu", Operator::Exists, ""),
            (" !slow ", Operator::DoesNotExist, ""),
            ("disk=nvme", Operator::In, "nvme"),
            ("disk == nvme", Operator::In, "nvme"),
            ("disk != hdd", Operator::NotIn, "hdd"),
            ("disk in (nvme, ssd)", Operator::In, "nvme|ssd"),
            ("disk notin(hdd)", Operator::NotIn, "hdd"),
            ("cores > 8", Operator::Gt, "8"),
            ("cores<64", Operator::Lt, "64"),
        ] {
            assert_eq!(read(text), Ok((operator, values.to_owned())), "{text}");
        }
        for text in
            ["", "!", "disk in nvme", "disk in ()", "disk in (a", "= a", "disk =", "a b", "a >= 3", "!a = b"]
        {
            let refusal = read(text).expect_err(text).to_string();
            assert!(refusal.contains("is no selector; write `gpu`"), "{refusal}");
        }
    }

    #[test]
    fn a_selector_is_shown_as_it_may_be_written() {
        for text in ["gpu", "!slow", "disk in (nvme,ssd)", "disk notin (hdd)", "cores > 8", "cores < 64"] {
            assert_eq!(text.parse::<Requirement>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn taints_and_tolerations_have_a_short_form() {
        for text in ["gpu=yes:NoSchedule", "gpu:PreferNoSchedule"] {
            assert_eq!(text.parse::<Taint>().unwrap().to_string(), text);
        }
        for text in ["gpu", "gpu=yes", "gpu:NoExecute", ":NoSchedule", "", "=a:NoSchedule"] {
            assert!(text.parse::<Taint>().is_err(), "{text}");
        }
        for text in ["gpu", "gpu=yes", "gpu=yes:NoSchedule", "gpu:NoSchedule", "*", "*:NoSchedule"] {
            assert_eq!(text.parse::<Toleration>().unwrap().to_string(), text);
        }
        assert_eq!(":NoSchedule".parse::<Toleration>().unwrap().to_string(), "*:NoSchedule");
        for text in ["", "*=a", "gpu:Never", "=a"] {
            assert!(text.parse::<Toleration>().is_err(), "{text}");
        }
    }
}
