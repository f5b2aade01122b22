//! Keeps the image store of this node in step with the image records: every node brings every image to
//! itself, so that an image survives the loss of any minority, and drops what no record names.
//! A VM that needs an image now goes first; two who want the same share one transfer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holm_model::command::{Command, ReportImage};
use holm_model::image::Image;
use holm_model::{ImageId, NodeId, State};
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::sync::CancellationToken;

use super::report::propose;
use crate::app::Shared;
use crate::peer;

/// The store is compared with the records at least this often.
const PERIOD: Duration = Duration::from_secs(30);
/// Bytes that no record names may belong to an import whose record is on its way: they stay this long.
const ORPHAN_AGE: Duration = Duration::from_secs(600);
/// How often a VM that waits for an image tells how far the transfer is.
const TELL: Duration = Duration::from_secs(2);

/// Why an image is not here.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("image `{0}` is held by no node that can be reached")]
    NoHolder(String),
    #[error("image `{name}` could not be brought from {from}")]
    Transfer {
        name: String,
        from: String,
        #[source]
        source: holm_vmm::image_store::Error,
    },
}

impl Error {
    /// Nothing is wrong with this node or with the image: whoever holds it cannot be reached at present.
    pub fn is_passing(&self) -> bool {
        use holm_vmm::image_store::Error as Store;
        matches!(self, Self::NoHolder(_) | Self::Transfer { source: Store::Transfer { .. }, .. })
    }
}

/// Brings images here.
#[derive(Clone)]
pub struct Images {
    app: Shared,
    /// One transfer a digest.
    transfers: Arc<Mutex<HashMap<String, Arc<AsyncMutex<()>>>>>,
    /// Bytes here so far, by digest.
    progress: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Images {
    /// For one node.
    pub fn new(app: Shared) -> Self {
        Self { app, transfers: Arc::default(), progress: Arc::default() }
    }

    /// The verified file of `image`, brought from a holder when it is not here. `tell` hears, now and
    /// then, how far the transfer is.
    ///
    /// # Errors
    /// When no holder could give it.
    pub async fn ensure<F: Future<Output = ()>>(
        &self,
        image: &Image,
        tell: impl Fn(String) -> F,
    ) -> Result<PathBuf, Error> {
        if let Some(path) = self.app.images.path(&image.sha256) {
            return Ok(path);
        }
        let transfer = self.transfer(image);
        tokio::pin!(transfer);
        loop {
            tokio::select! {
                done = &mut transfer => return done,
                () = tokio::time::sleep(TELL) => {
                    let here = lock(&self.progress).get(&image.sha256).copied().unwrap_or(0);
                    tell(format!("fetching image {}: {} %", image.name, here * 100 / image.size_bytes.max(1))).await;
                }
            }
        }
    }

    async fn transfer(&self, image: &Image) -> Result<PathBuf, Error> {
        let gate = lock(&self.transfers).entry(image.sha256.clone()).or_default().clone();
        let _one_at_a_time = gate.lock().await;
        if let Some(path) = self.app.images.path(&image.sha256) {
            return Ok(path);
        }
        let result = self.fetch_from_any_holder(image).await;
        lock(&self.progress).remove(&image.sha256);
        // Only when nobody waits for the gate: with two gates, two would write one file.
        lock(&self.transfers).retain(|_, gate| Arc::strong_count(gate) > 1);
        result
    }

    async fn fetch_from_any_holder(&self, image: &Image) -> Result<PathBuf, Error> {
        let mut last = Error::NoHolder(image.name.clone());
        for (holder, address) in holders(&self.app.raft.state().state, image, self.app.raft.node_id()) {
            match self.fetch_from(image, &address).await {
                Ok(path) => {
                    tracing::info!(image = %image.name, from = %holder, bytes = image.size_bytes, "image fetched");
                    return Ok(path);
                }
                Err(error) => {
                    tracing::warn!(image = %image.name, from = %holder, error = %crate::app::chain(&error), "image not fetched");
                    last = error;
                }
            }
        }
        Err(last)
    }

    async fn fetch_from(&self, image: &Image, address: &str) -> Result<PathBuf, Error> {
        let path = format!("/v1/images/{}/data?consistency=stale", image.id);
        let pulled = self
            .app
            .images
            .pull(
                &image.sha256,
                image.size_bytes,
                |offset| {
                    let (address, path) = (address.to_owned(), path.clone());
                    async move { peer::get_from(&address, &path, offset).await }
                },
                |bytes| {
                    lock(&self.progress).insert(image.sha256.clone(), bytes);
                },
            )
            .await;
        match pulled {
            Ok(_) => {
                let path = self.app.images.path(&image.sha256);
                path.ok_or_else(|| Error::NoHolder(image.name.clone()))
            }
            Err(source) => {
                Err(Error::Transfer { name: image.name.clone(), from: address.to_owned(), source })
            }
        }
    }
}

/// Holders to ask, those that are up first.
fn holders(state: &State, image: &Image, me: NodeId) -> Vec<(NodeId, String)> {
    let mut holders: Vec<_> = image
        .holders
        .iter()
        .filter(|holder| **holder != me)
        .filter_map(|holder| state.nodes.get(holder))
        .collect();
    holders.sort_by_key(|node| !node.up);
    holders.into_iter().map(|node| (node.id, node.api_addr.clone())).collect()
}

/// Compares store and records until cancelled.
pub async fn run(images: Images, stop: CancellationToken) {
    let mut state = images.app.raft.watch();
    let mut seen: BTreeSet<ImageId> = BTreeSet::new();
    let mut period = tokio::time::interval(PERIOD);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = period.tick() => seen.clear(),
            changed = state.changed() => if changed.is_err() { return },
        }
        let current = state.borrow_and_update().clone();
        let ids: BTreeSet<ImageId> = current.state.images.keys().copied().collect();
        if ids == seen {
            continue;
        }
        compare(&images, &current.state, &stop).await;
        // What could not be had is tried again with the period, not with every change of anything.
        seen = ids;
    }
}

async fn compare(images: &Images, state: &State, stop: &CancellationToken) {
    let me = images.app.raft.node_id();
    for image in state.images.values() {
        if stop.is_cancelled() {
            return;
        }
        let here = images.ensure(image, |_| async {}).await.is_ok();
        if here != image.holders.contains(&me) {
            let command = Command::ReportImage(ReportImage { node: me, image: image.id, held: here });
            propose(&images.app.raft, command).await;
        }
    }
    drop_orphans(images);
}

/// Removes bytes that no record names any more. Only with a replica that has caught up: a lagging one
/// does not know the newest images.
fn drop_orphans(images: &Images) {
    if !images.app.caught_up() {
        return;
    }
    for stored in images.app.images.list() {
        // The state as it is now: images may have come while others were brought here.
        let published = images.app.raft.state();
        let named = published.state.images.values().any(|image| image.sha256 == stored.sha256);
        if named || stored.age < ORPHAN_AGE {
            continue;
        }
        match images.app.images.remove(&stored.sha256) {
            Ok(()) => tracing::info!(sha256 = stored.sha256, "image bytes that no record names were removed"),
            Err(error) => tracing::warn!(error = %crate::app::chain(&error), "cannot remove image bytes"),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
