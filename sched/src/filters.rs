//! The filters there are, one a file. The replicated policy names those in use, in order.

mod aggregate_extra_specs;
mod aggregate_image_properties_isolation;
mod aggregate_multi_tenancy_isolation;
mod availability_zone;
mod capacity;
mod compute_capabilities;
mod compute_status;
mod dedicated_cpu;
mod different_host;
mod excluded;
mod image_properties;
mod io_ops;
mod isolated_hosts;
mod node_selector;
mod num_instances;
mod pci_devices;
mod requested_node;
mod reserved;
mod same_host;
mod server_group;
mod simple_cidr_affinity;
pub(crate) mod taints;
mod traits;

use holm_model::policy::SchedulerPolicy;

pub use self::aggregate_extra_specs::AggregateExtraSpecs;
pub use self::aggregate_image_properties_isolation::AggregateImagePropertiesIsolation;
pub use self::aggregate_multi_tenancy_isolation::AggregateMultiTenancyIsolation;
pub use self::availability_zone::AvailabilityZone;
pub use self::capacity::Capacity;
pub use self::compute_capabilities::ComputeCapabilities;
pub use self::compute_status::ComputeStatus;
pub use self::dedicated_cpu::DedicatedCpu;
pub use self::different_host::DifferentHost;
pub use self::excluded::Excluded;
pub use self::image_properties::ImageProperties;
pub use self::io_ops::IoOps;
pub use self::isolated_hosts::IsolatedHosts;
pub use self::node_selector::NodeSelector;
pub use self::num_instances::NumInstances;
pub use self::pci_devices::PciDevices;
pub use self::requested_node::RequestedNode;
pub use self::reserved::Reserved;
pub use self::same_host::SameHost;
pub use self::server_group::ServerGroup;
pub use self::simple_cidr_affinity::SimpleCidrAffinity;
pub use self::taints::Taints;
pub use self::traits::Traits;
use crate::filter::Filter;

/// The filter of this name, as `policy` sets it up.
pub fn by_name(name: &str, policy: &SchedulerPolicy) -> Option<Box<dyn Filter>> {
    Some(match name {
        "ComputeStatus" => Box::new(ComputeStatus),
        "RequestedNode" => Box::new(RequestedNode),
        "Excluded" => Box::new(Excluded),
        "AvailabilityZone" => Box::new(AvailabilityZone),
        "NodeSelector" => Box::new(NodeSelector),
        "Taints" => Box::new(Taints),
        "ComputeCapabilities" => Box::new(ComputeCapabilities),
        "Traits" => Box::new(Traits),
        "ImageProperties" => Box::new(ImageProperties),
        "ServerGroup" => Box::new(ServerGroup),
        "SameHost" => Box::new(SameHost),
        "DifferentHost" => Box::new(DifferentHost),
        "Capacity" => Box::new(Capacity),
        "AggregateExtraSpecs" => Box::new(AggregateExtraSpecs),
        "AggregateImagePropertiesIsolation" => Box::new(AggregateImagePropertiesIsolation),
        "AggregateMultiTenancyIsolation" => Box::new(AggregateMultiTenancyIsolation),
        "IsolatedHosts" => Box::new(IsolatedHosts::new(policy)),
        "NumInstances" => Box::new(NumInstances::new(policy)),
        "IoOps" => Box::new(IoOps::new(policy)),
        "SimpleCidrAffinity" => Box::new(SimpleCidrAffinity),
        _ => return None,
    })
}
