//! The calls every test makes: import a guest, make a flavor, create a VM, wait for what it becomes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use holm_api::vm::{Availability, OnNoHost};
use holm_api::{Code, CreateFlavor, CreateVm, Deleted, Flavor, Image, List, Vm, VmStatus};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::client::{Call, Client};
use super::wait::wait_for;

/// Name of the smallest flavor a guest boots with.
pub const TINY: &str = "tiny";

impl Client {
    /// GET.
    ///
    /// # Errors
    /// When it does not succeed.
    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T> {
        Ok(self.call(Call::get(path)).await.with_context(|| format!("GET {path}"))?.body)
    }

    /// POST of a JSON body.
    ///
    /// # Errors
    /// When it does not succeed.
    pub async fn post<T: DeserializeOwned>(&mut self, path: &str, body: Value) -> Result<T> {
        Ok(self.call(Call::post(path, &body)).await.with_context(|| format!("POST {path}"))?.body)
    }

    /// Imports a kernel.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn import_kernel(&mut self, name: &str, bytes: Vec<u8>) -> Result<Image> {
        let call = Call::new(hyper::Method::POST, format!("/v1/images?name={name}&kind=kernel")).bytes(bytes);
        Ok(self.call(call).await.with_context(|| format!("importing {name}"))?.body)
    }

    /// One vCPU, 64 MiB, no disk.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn create_tiny_flavor(&mut self) -> Result<Flavor> {
        let flavor = CreateFlavor {
            name: TINY.to_owned(),
            vcpus: 1,
            memory_mib: 64,
            disk_gib: 0,
            extra_specs: Default::default(),
        };
        Ok(self.call(Call::post("/v1/flavors", &flavor)).await.context("creating the flavor")?.body)
    }

    /// A VM of the tiny flavor.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn create_vm(&mut self, name: &str, image: &str) -> Result<Vm> {
        let call = Call::post("/v1/vms", &tiny_vm(name, image));
        Ok(self.call(call).await.with_context(|| format!("creating {name}"))?.body)
    }

    /// Every VM there is.
    ///
    /// # Errors
    /// When a page cannot be read.
    pub async fn all_vms(&mut self) -> Result<Vec<Vm>> {
        let mut all: Vec<Vm> = Vec::new();
        let mut marker: Option<String> = None;
        loop {
            let from = marker.map(|marker| format!("&marker={marker}")).unwrap_or_default();
            let page: List<Vm> = self.get(&format!("/v1/vms?limit=1000{from}")).await?;
            all.extend(page.items);
            match page.next {
                Some(next) => marker = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// Waits until the VM has this status and nothing is under way.
    ///
    /// # Errors
    /// When it goes to ERROR instead, or not in time; with the record.
    pub async fn wait_status(&mut self, vm: &str, status: VmStatus, limit: Duration) -> Result<Vm> {
        let path = format!("/v1/vms/{vm}");
        let began = Instant::now();
        loop {
            let record: Vm = self.get(&path).await?;
            let settled = record.task_state.is_none();
            if settled && record.status == status {
                return Ok(record);
            }
            let failed = settled && record.status == VmStatus::Error;
            if failed || began.elapsed() > limit {
                bail!("{vm} is not {status} after {} s: {record:#?}", began.elapsed().as_secs_f32());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Deletes the VM and waits until it is gone.
    ///
    /// # Errors
    /// When it does not go in time.
    pub async fn delete_vm(&mut self, vm: &str, limit: Duration) -> Result<()> {
        let path = format!("/v1/vms/{vm}");
        self.call::<Deleted>(Call::delete(&path)).await.with_context(|| format!("deleting {vm}"))?;
        let address = self.address();
        wait_for(&format!("{vm} to be gone"), limit, || async {
            match Client::new(address).call::<Vm>(Call::get(&path)).await {
                Err(error) if error.code() == Some(Code::NotFound) => Ok(Some(())),
                _ => Ok(None),
            }
        })
        .await
    }
}

impl Client {
    /// Deletes every VM and says which could not be.
    pub async fn delete_all(&mut self, limit: Duration) -> Vec<String> {
        let deadline = Instant::now() + limit;
        let vms = match self.all_vms().await {
            Ok(vms) => vms,
            Err(error) => return vec![format!("{error:#}")],
        };
        let mut left = Vec::new();
        for vm in vms {
            let limit = deadline.saturating_duration_since(Instant::now());
            if let Err(error) = self.delete_vm(&vm.name, limit).await {
                left.push(format!("{error:#}"));
            }
        }
        left
    }
}

/// The request for a VM of the tiny flavor.
pub fn tiny_vm(name: &str, image: &str) -> CreateVm {
    CreateVm {
        name: name.to_owned(),
        flavor: TINY.to_owned(),
        image: image.to_owned(),
        on_no_host: OnNoHost::Queue,
        availability: Availability::Pinned,
        ..CreateVm::default()
    }
}
