//! What the scheduler may want to know of this host beside amounts: facts for `ComputeCapabilities`, CPU
//! traits in Placement's words, and the load. Read from `/proc`; what cannot be read is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use holm_model::node::{HypervisorFacts, HypervisorKind};

use crate::health::Watchdog;

/// CPU flags of `/proc/cpuinfo` and their traits in `os-traits`: what Nova maps (`nova/virt/libvirt/utils.py`,
/// `CPU_TRAITS_MAPPING`), and those of `os_traits/hw/cpu/x86` that the kernel shows by a flag of its own. One flag may
/// have an older trait beside its own.
const CPU_TRAITS: &[(&str, &str)] = &[
    ("3dnow", "HW_CPU_X86_3DNOW"),
    ("abm", "HW_CPU_X86_ABM"),
    ("aes", "HW_CPU_X86_AESNI"),
    ("avx", "HW_CPU_X86_AVX"),
    ("avx2", "HW_CPU_X86_AVX2"),
    ("avx512_bitalg", "HW_CPU_X86_AVX512BITALG"),
    ("avx512_vbmi2", "HW_CPU_X86_AVX512VBMI2"),
    ("avx512_vnni", "HW_CPU_X86_AVX512VNNI"),
    ("avx512_vpopcntdq", "HW_CPU_X86_AVX512VPOPCNTDQ"),
    ("avx512bw", "HW_CPU_X86_AVX512BW"),
    ("avx512cd", "HW_CPU_X86_AVX512CD"),
    ("avx512dq", "HW_CPU_X86_AVX512DQ"),
    ("avx512er", "HW_CPU_X86_AVX512ER"),
    ("avx512f", "HW_CPU_X86_AVX512F"),
    ("avx512ifma", "HW_CPU_X86_AVX512IFMA"),
    ("avx512pf", "HW_CPU_X86_AVX512PF"),
    ("avx512vbmi", "HW_CPU_X86_AVX512VBMI"),
    ("avx512vl", "HW_CPU_X86_AVX512VL"),
    ("bmi1", "HW_CPU_X86_BMI"),
    ("bmi2", "HW_CPU_X86_BMI2"),
    ("f16c", "HW_CPU_X86_F16C"),
    ("fma", "HW_CPU_X86_FMA3"),
    ("fma4", "HW_CPU_X86_FMA4"),
    ("gfni", "HW_CPU_X86_AVX512GFNI"),
    ("hle", "HW_CPU_X86_TSX"),
    ("md_clear", "HW_CPU_X86_INTEL_MD_CLEAR"),
    ("mmx", "HW_CPU_X86_MMX"),
    ("mpx", "HW_CPU_X86_MPX"),
    ("pcid", "HW_CPU_X86_INTEL_PCID"),
    ("pclmulqdq", "HW_CPU_X86_CLMUL"),
    ("pdpe1gb", "HW_CPU_X86_PDPE1GB"),
    ("pni", "HW_CPU_X86_SSE3"),
    ("rtm", "HW_CPU_X86_TSX"),
    ("sev", "HW_CPU_X86_AMD_SEV"),
    ("sev_es", "HW_CPU_X86_AMD_SEV_ES"),
    ("sgx", "HW_CPU_X86_SGX"),
    ("sha_ni", "HW_CPU_X86_SHA"),
    ("sse", "HW_CPU_X86_SSE"),
    ("sse2", "HW_CPU_X86_SSE2"),
    ("sse4_1", "HW_CPU_X86_SSE41"),
    ("sse4_2", "HW_CPU_X86_SSE42"),
    ("sse4a", "HW_CPU_X86_SSE4A"),
    ("ssse3", "HW_CPU_X86_SSSE3"),
    ("stibp", "HW_CPU_X86_STIBP"),
    ("svm", "HW_CPU_X86_AMD_SVM"),
    ("svm", "HW_CPU_X86_SVM"),
    ("tbm", "HW_CPU_X86_TBM"),
    ("vaes", "HW_CPU_X86_AVX512VAES"),
    ("virt_ssbd", "HW_CPU_X86_AMD_VIRT_SSBD"),
    ("vmx", "HW_CPU_X86_INTEL_VMX"),
    ("vmx", "HW_CPU_X86_VMX"),
    ("vpclmulqdq", "HW_CPU_X86_AVX512VPCLMULQDQ"),
    ("xop", "HW_CPU_X86_XOP"),
];

/// Reported by a host that is reset when a VM outlives its lease there: how soon.
const WATCHDOG: &str = "watchdog";

/// Steps the reported load moves in, in thousandths: a report a period would tell nobody anything.
const LOAD_STEP: u64 = 250;

/// Model, vendor and traits of the CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    pub model: Option<String>,
    pub vendor: Option<String>,
    pub traits: BTreeSet<String>,
}

impl Cpu {
    /// This host's; nothing where it cannot be read.
    pub fn read() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    /// The first CPU of a `/proc/cpuinfo`.
    fn parse(cpuinfo: &str) -> Self {
        let first = cpuinfo.split("\n\n").next().unwrap_or_default();
        let of = |key: &str| {
            let mut fields = first.lines().filter_map(|line| line.split_once(':'));
            fields.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
        };
        let flags = of("flags").unwrap_or_default();
        let flags: BTreeSet<&str> = flags.split_whitespace().collect();
        let traits = CPU_TRAITS.iter().filter(|(flag, _)| flags.contains(flag));
        Self {
            model: of("model name"),
            vendor: of("vendor_id"),
            traits: traits.map(|(_, name)| (*name).to_owned()).collect(),
        }
    }
}

/// Facts for `ComputeCapabilities` and `ImageProperties`.
pub fn capabilities(
    cpu: &Cpu,
    hypervisor: &HypervisorFacts,
    firmware: Option<&Path>,
    watchdog: Option<Watchdog>,
) -> BTreeMap<String, String> {
    let kind = match hypervisor.kind {
        HypervisorKind::CloudHypervisor => "cloud-hypervisor",
        HypervisorKind::Simulated => "simulated",
    };
    // The simulated one boots whatever it is given.
    let boots_disks = hypervisor.kind == HypervisorKind::Simulated || firmware.is_some_and(Path::is_file);
    let fit = watchdog.filter(|watchdog| watchdog.resets && watchdog.is_in_time());
    let watchdog = fit.map(|watchdog| format!("{} s", watchdog.timeout_s));
    let facts = [
        ("arch", Some(std::env::consts::ARCH)),
        ("cpu_model", cpu.model.as_deref()),
        ("cpu_vendor", cpu.vendor.as_deref()),
        ("hypervisor_type", Some(kind)),
        ("hypervisor_version", Some(hypervisor.version.trim_start_matches('v'))),
        ("vm_mode", Some("hvm")),
        ("firmware", Some(if boots_disks { "uefi" } else { "none" })),
        (WATCHDOG, watchdog.as_deref()),
    ];
    let known = facts.into_iter().filter_map(|(key, value)| Some((key, value.filter(|v| !v.is_empty())?)));
    known.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// One-minute load average per CPU in thousandths; `reported` stays until it is a whole step off.
pub fn load_thousandths(cpus: u64, reported: u64) -> u64 {
    let loadavg = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = loadavg.split(' ').next().and_then(|first| first.parse::<f64>().ok()).unwrap_or(0.0);
    coarse((load * 1000.0) as u64 / cpus.max(1), reported)
}

fn coarse(load: u64, reported: u64) -> u64 {
    if load.abs_diff(reported) < LOAD_STEP {
        reported
    } else {
        (load + LOAD_STEP / 2) / LOAD_STEP * LOAD_STEP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_flags_become_placements_traits() {
        let cpu = Cpu::parse(
            "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon (R): fast\n\
             flags\t\t: fpu sse sse4_2 aes avx avx2 avx512f hypervisor\n\nprocessor\t: 1\nflags\t\t: vmx\n",
        );
        assert_eq!(cpu.model.as_deref(), Some("Xeon (R): fast"));
        assert_eq!(cpu.vendor.as_deref(), Some("GenuineIntel"));
        let traits: Vec<_> = cpu.traits.iter().map(String::as_str).collect();
        assert_eq!(
            traits,
            [
                "HW_CPU_X86_AESNI",
                "HW_CPU_X86_AVX",
                "HW_CPU_X86_AVX2",
                "HW_CPU_X86_AVX512F",
                "HW_CPU_X86_SSE",
                "HW_CPU_X86_SSE42"
            ]
        );
        assert_eq!(Cpu::parse(""), Cpu::default());
    }

    /// Nova's `CPU_TRAITS_MAPPING` has two traits for each of these, and other names of flags than the kernel.
    #[test]
    fn a_flag_keeps_its_older_trait_and_the_kernels_names_are_known() {
        let cases: &[(&str, &[&str])] = &[
            ("vmx", &["HW_CPU_X86_INTEL_VMX", "HW_CPU_X86_VMX"]),
            ("svm", &["HW_CPU_X86_AMD_SVM", "HW_CPU_X86_SVM"]),
            ("hle rtm", &["HW_CPU_X86_TSX"]),
            ("avx512_vpopcntdq", &["HW_CPU_X86_AVX512VPOPCNTDQ"]),
            ("sha_ni", &["HW_CPU_X86_SHA"]),
            ("pni", &["HW_CPU_X86_SSE3"]),
            ("fpu lm", &[]),
        ];
        for (flags, expected) in cases {
            let cpu = Cpu::parse(&format!("processor\t: 0\nflags\t\t: {flags}\n"));
            let traits: Vec<_> = cpu.traits.iter().map(String::as_str).collect();
            assert_eq!(traits, *expected, "{flags}");
        }
    }

    #[test]
    fn the_load_is_reported_only_when_it_moved_a_whole_step() {
        for (load, reported, expected) in
            [(0, 0, 0), (249, 0, 0), (260, 0, 250), (1600, 250, 1500), (1700, 1500, 1500), (90, 250, 250)]
        {
            assert_eq!(coarse(load, reported), expected, "{load} after {reported}");
        }
    }

    #[test]
    fn capabilities_name_the_hypervisor_and_whether_disks_boot() {
        let hypervisor = HypervisorFacts {
            kind: HypervisorKind::CloudHypervisor,
            version: "v53.0".to_owned(),
            reason: String::new(),
        };
        let facts = capabilities(&Cpu::default(), &hypervisor, Some(Path::new("/nonexistent")), None);
        let of = |key: &str| facts.get(key).map(String::as_str);
        assert_eq!(of("hypervisor_type"), Some("cloud-hypervisor"));
        assert_eq!(of("hypervisor_version"), Some("53.0"));
        assert_eq!((of("firmware"), of("cpu_model")), (Some("none"), None));

        let simulated = HypervisorFacts { kind: HypervisorKind::Simulated, ..hypervisor };
        let facts = capabilities(&Cpu::default(), &simulated, None, None);
        assert_eq!(facts.get("firmware").map(String::as_str), Some("uefi"));
    }
}
