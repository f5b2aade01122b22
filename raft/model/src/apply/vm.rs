//! What users ask of VMs: create, power, delete.

use super::{Cx, check_expected, invalid, not_found, wrong_state};
use crate::command::{CreateVm, DeleteVm, SetVmPower};
use crate::id::Revision;
use crate::image::ImageKind;
use crate::limits;
use crate::quota::usage_of;
use crate::reply::{Kind, Outcome, Reason};
use crate::vm::{
    Availability, DEFAULT_STOP_TIMEOUT_S, Power, Recovery, StopMode, TaskState, Vm, VmSpec, VmStatus,
    WantPower,
};

impl Cx<'_> {
    pub(super) fn create_vm(&mut self, c: &CreateVm) -> Result<Outcome, Reason> {
        limits::name("name", &c.name)?;
        self.check_project(&self.actor.project)?;
        let spec = self.vm_spec(c)?;
        let usage = usage_of(&spec);
        let name = (self.actor.project.clone(), c.name.clone());
        if self.state.vm_names.contains_key(&name) {
            return Err(Reason::NameTaken { kind: Kind::Vm, name: c.name.clone() });
        }
        if self.state.vms.contains_key(&c.id) {
            return Err(invalid("id", "is taken"));
        }
        if self.state.vms.len() >= limits::VMS_MAX {
            return Err(Reason::Limit { message: format!("at most {} VMs", limits::VMS_MAX) });
        }
        self.check_quota(&usage)?;
        self.admit(c.availability, c.admitted)?;
        self.use_quota(&self.actor.project, &usage);
        let stop = StopMode::Graceful { timeout_s: DEFAULT_STOP_TIMEOUT_S };
        let vm = Vm {
            id: c.id,
            project: self.actor.project.clone(),
            name: c.name.clone(),
            spec,
            power: Power { want: WantPower::On, run: 1, stop },
            status: VmStatus::Build,
            task_state: Some(TaskState::Scheduling),
            fault: None,
            claim: None,
            observed: None,
            excluded: Vec::new(),
            refusals: Vec::new(),
            batch: None,
            reserved: None,
            decision: None,
            waiting_since: Some(self.at),
            recovery: Recovery::default(),
            created_at: self.at,
            updated_at: self.at,
            revision: self.revision,
        };
        self.state.vm_names.insert(name, c.id);
        self.state.waiting.insert(c.id);
        self.join_group(&vm);
        self.event(Kind::Vm, c.id, &c.name, "created", "");
        self.put_vm(vm);
        Ok(Outcome::Vm(c.id))
    }

    fn vm_spec(&self, c: &CreateVm) -> Result<VmSpec, Reason> {
        let flavor = self.state.flavors.get(&c.flavor).ok_or_else(|| not_found(Kind::Flavor, c.flavor))?;
        let image = self.image(c.image)?;
        if let Some(kernel) = c.kernel {
            if image.kind == ImageKind::Kernel {
                return Err(invalid("kernel", "the image is itself a kernel; leave `kernel` out"));
            }
            let kernel = self.image(kernel)?;
            if kernel.kind != ImageKind::Kernel {
                return Err(invalid("kernel", format!("image `{}` is not a kernel", kernel.name)));
            }
        }
        if image.kind != ImageKind::Kernel && image.size_bytes > flavor.size.disk_gib << 30 {
            return Err(invalid(
                "flavor",
                format!(
                    "its disk of {} GiB is smaller than image `{}` ({} bytes)",
                    flavor.size.disk_gib, image.name, image.size_bytes
                ),
            ));
        }
        if let Some(cmdline) = &c.cmdline {
            limits::text("cmdline", cmdline, limits::CMDLINE_MAX)?;
            if image.kind != ImageKind::Kernel && c.kernel.is_none() {
                return Err(invalid("cmdline", "goes with a kernel; this VM boots by firmware"));
            }
        }
        if let Some(node) = c.node {
            self.state.nodes.get(&node).ok_or_else(|| not_found(Kind::Node, node))?;
        }
        self.check_scheduling(&c.scheduling)?;
        self.check_volumes(&c.volumes)?;
        let spec = VmSpec {
            flavor: flavor.id,
            flavor_name: flavor.name.clone(),
            size: flavor.size,
            image: c.image,
            kernel: c.kernel,
            cmdline: c.cmdline.clone(),
            node: c.node,
            availability: c.availability,
            policies: c.policies,
            on_no_host: c.on_no_host,
            scheduling: c.scheduling.clone(),
            extra_specs: flavor.extra_specs.clone(),
            image_properties: image.properties.clone(),
            volumes: c.volumes.clone(),
        };
        self.check_policies(&spec)?;
        Ok(spec)
    }

    fn image(&self, id: crate::id::ImageId) -> Result<&crate::image::Image, Reason> {
        self.state
            .images
            .get(&id)
            .filter(|image| image.is_usable_by(&self.actor.project))
            .ok_or_else(|| not_found(Kind::Image, id))
    }

    /// A VM by its id, whatever its project: names are a project's, ids the cluster's.
    pub(super) fn vm(&self, id: crate::id::VmId) -> Result<Vm, Reason> {
        self.state.vms.get(&id).cloned().ok_or_else(|| not_found(Kind::Vm, id))
    }

    pub(super) fn set_vm_power(&mut self, c: &SetVmPower) -> Result<Outcome, Reason> {
        let mut vm = self.vm(c.vm)?;
        check_expected(c.expected, vm.revision)?;
        if let StopMode::Graceful { timeout_s } = c.stop
            && timeout_s > limits::STOP_TIMEOUT_S_MAX
        {
            return Err(invalid(
                "timeout_s",
                format!("is {timeout_s}, must be at most {}", limits::STOP_TIMEOUT_S_MAX),
            ));
        }
        if vm.status == VmStatus::Deleting {
            return Err(wrong_state(format!("VM `{}` is being deleted", vm.name)));
        }
        let what = match (c.want, c.reboot) {
            (WantPower::On, false) => self.power_on(&mut vm, c.admitted)?,
            (WantPower::On, true) => power_cycle(&mut vm, c.stop)?,
            (WantPower::Off, false) => power_off(&mut vm, c.stop)?,
            (WantPower::Off, true) => return Err(invalid("reboot", "goes with `want: on` only")),
        };
        self.event(Kind::Vm, vm.id, &vm.name, what, "");
        self.put_vm(vm);
        Ok(Outcome::Vm(c.vm))
    }

    fn power_on(&mut self, vm: &mut Vm, judged: Option<Revision>) -> Result<&'static str, Reason> {
        if vm.recovery.vacate.is_some() {
            return Err(wrong_state(format!("VM `{}` is leaving its node; start it when it has", vm.name)));
        }
        if !self.knows(1) {
            return self.power_on_before(vm);
        }
        if vm.claim.is_none() && vm.status == VmStatus::Build {
            return self.try_again(vm);
        }
        if vm.claim.is_some() && vm.power.want == WantPower::On {
            return Err(wrong_state(format!("VM `{}` is on, or being started, already", vm.name)));
        }
        // A pinned one takes no more room than it has while it is off.
        if vm.spec.availability == Availability::Failover || vm.claim.is_none() {
            self.admit(vm.spec.availability, judged)?;
        }
        // Off on a fenced node it is lost, even if it was being built there.
        self.take_from_fenced(vm);
        vm.recovery.stopped_for = None;
        if vm.claim.is_none() {
            // Where it was moved to while it was off still holds.
            (vm.recovery.failing_over, vm.recovery.lost_host) = (false, None);
        }
        Ok(self.switch_on(vm))
    }

    /// One that never got a host, or lost it, is scheduled afresh.
    fn switch_on(&mut self, vm: &mut Vm) -> &'static str {
        vm.power.want = WantPower::On;
        vm.power.run += 1;
        vm.fault = None;
        if vm.claim.is_none() {
            self.reschedule(vm);
            return "rescheduling";
        }
        vm.task_state = Some(TaskState::PoweringOn);
        "starting"
    }

    /// Without the rules of number 1: nothing is judged, what waits is refused, and where it was moved to is forgotten.
    fn power_on_before(&mut self, vm: &mut Vm) -> Result<&'static str, Reason> {
        // Off on a fenced node it is lost, even if it was being built there: nothing refuses it from here on.
        let lost = vm.claim.is_some() && vm.power.want == WantPower::Off && self.is_lost(vm);
        if lost {
            self.take_from_fenced(vm);
        }
        vm.recovery.stopped_for = None;
        if vm.claim.is_none() {
            if vm.status == VmStatus::Build && !lost {
                return Err(wrong_state(format!("VM `{}` is being built already", vm.name)));
            }
            (vm.recovery.failing_over, vm.recovery.lost_host) = (false, None);
            vm.recovery.move_to = None;
        } else if vm.power.want == WantPower::On {
            return Err(wrong_state(format!("VM `{}` is on, or being started, already", vm.name)));
        }
        Ok(self.switch_on(vm))
    }

    /// Of one that waits for a host, the nodes where it failed to build are tried again.
    fn try_again(&mut self, vm: &mut Vm) -> Result<&'static str, Reason> {
        if vm.excluded.is_empty() {
            return Err(wrong_state(format!("VM `{}` is being built already", vm.name)));
        }
        vm.forget_failed_builds();
        vm.waiting_since = Some(self.at);
        Ok("rescheduling")
    }

    pub(super) fn delete_vm(&mut self, c: &DeleteVm) -> Result<Outcome, Reason> {
        let mut vm = self.vm(c.vm)?;
        check_expected(c.expected, vm.revision)?;
        if vm.status == VmStatus::Deleting {
            return Ok(Outcome::Vm(c.vm));
        }
        vm.status = VmStatus::Deleting;
        vm.task_state = Some(TaskState::Deleting);
        vm.power.want = WantPower::Off;
        vm.power.stop = StopMode::Force;
        vm.waiting_since = None;
        vm.recovery.next_restart_at = None;
        self.state.waiting.remove(&vm.id);
        self.take_from_fenced(&mut vm);
        if vm.claim.is_none() {
            self.forget_vm(&vm);
        } else {
            self.event(Kind::Vm, vm.id, &vm.name, "deleting", "");
            self.put_vm(vm);
        }
        Ok(Outcome::Vm(c.vm))
    }
}

fn power_cycle(vm: &mut Vm, stop: StopMode) -> Result<&'static str, Reason> {
    if vm.power.want != WantPower::On || !matches!(vm.status, VmStatus::Active | VmStatus::Paused) {
        return Err(wrong_state(format!("VM `{}` is not running; start it instead", vm.name)));
    }
    vm.power.run += 1;
    vm.power.stop = stop;
    vm.task_state = Some(TaskState::Rebooting);
    Ok("rebooting")
}

fn power_off(vm: &mut Vm, stop: StopMode) -> Result<&'static str, Reason> {
    if vm.claim.is_none() {
        return Err(wrong_state(format!(
            "VM `{}` is on no node yet; delete it if it is not wanted",
            vm.name
        )));
    }
    let stopping = vm.power.want == WantPower::Off;
    if stopping && vm.task_state != Some(TaskState::PoweringOff) {
        return Err(wrong_state(format!("VM `{}` is off already", vm.name)));
    }
    if stopping && stop == vm.power.stop {
        return Err(wrong_state(format!(
            "VM `{}` is being stopped already; --force ends it at once",
            vm.name
        )));
    }
    vm.power.want = WantPower::Off;
    vm.power.stop = stop;
    vm.task_state = Some(TaskState::PoweringOff);
    Ok("stopping")
}
