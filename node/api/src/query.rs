//! Query parameters. The node reads them, the CLI writes them; an unknown one is refused, so that a typing
//! error is never a filter that silently does nothing.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::image::ImageKind;
use crate::vm::VmStatus;

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Consistency {
    /// At least as new as every write acknowledged before the request.
    #[default]
    Linearizable,
    /// What this node has applied; answers without a leader.
    Stale,
}

/// Of a read of one record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ReadQuery {
    /// `linearizable` (default) or `stale`.
    #[param(inline)]
    pub consistency: Consistency,
}

/// Of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// 1 to 1000, 100 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
    /// `linearizable` (default) or `stale`.
    #[param(inline)]
    pub consistency: Consistency,
}

/// Of a list of what belongs to projects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ProjectListQuery {
    /// 1 to 1000, 100 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
    /// `linearizable` (default) or `stale`.
    #[param(inline)]
    pub consistency: Consistency,
    /// Of every project, not only that of `Holm-Project`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all_projects: bool,
}

/// Of the list of VMs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct VmListQuery {
    /// 1 to 1000, 100 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
    /// `linearizable` (default) or `stale`.
    #[param(inline)]
    pub consistency: Consistency,
    /// Only VMs on this node (name or id).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Only VMs in this status.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    pub status: Option<VmStatus>,
    /// Only the VM of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Of every project, not only that of `Holm-Project`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all_projects: bool,
}

/// Of a VM's console log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    /// At most this many bytes of its end; 65536 if not given, at most 16777216.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 16_777_216)]
    pub bytes: Option<u64>,
    /// Go on with what the guest prints from now on.
    pub follow: bool,
}

/// Of an image upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CreateImageQuery {
    pub name: String,
    #[param(inline)]
    pub kind: ImageKind,
}

/// Of the creation of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct CreateVmQuery {
    /// Create nothing; explain the request on every node instead.
    pub dry_run: bool,
}

/// Of the drain of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct DrainQuery {
    /// Change nothing; say what would become of each VM there instead.
    pub dry_run: bool,
}

/// Of the allocation candidates; `required` and `member_of`, which may be repeated, come beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CandidatesQuery {
    /// Name or id; this or `resources`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavor: Option<String>,
    /// What a VM would ask for, by resource class, as in Placement: `VCPU:2,MEMORY_MB:1024,CUSTOM_GPU:1`. The VMM's
    /// own memory comes on top, as it does for flavors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<String>,
    /// At most so many candidates, and so many refusals in words; 1 to 1000, 100 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `linearizable` (default) or `stale`.
    #[serde(default)]
    #[param(inline)]
    pub consistency: Consistency,
}

/// Of the events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Events after this revision; without it a stream begins with what happens next, and a list with the
    /// oldest event kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// `true` (default): a stream of server-sent events. `false`: a JSON list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow: Option<bool>,
    /// Of a JSON list: 1 to 1000, 100 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

/// Of the removal of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct RemoveNodeQuery {
    /// You state that the machine is off and stays off: its VMs' claims end.
    pub confirm_node_off: bool,
}
