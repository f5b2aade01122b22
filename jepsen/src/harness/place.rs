//! Where a node's processes run: in its own network namespace, with only its own disk mounted, and with a
//! boot id that is the node's, so that a power cut looks like one to the daemon.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use uuid::Uuid;

/// Runs in a mount namespace of its own. Disks of other nodes must not be kept busy there: their power is cut
/// and they are unmounted while this node goes on.
const ENTER: &str = r#"
own=$1; boot=$2; shift 2
for at in $(sed -n 's|^/dev/loop[0-9]* \([^ ]*\) .*|\1|p' /proc/self/mounts); do
    [ "$at" = "$own" ] || umount "$at" 2>/dev/null || umount --lazy "$at" 2>/dev/null
done
mount --bind "$boot" /proc/sys/kernel/random/boot_id && exec "$@"
"#;

/// One node's place.
#[derive(Clone, Debug)]
pub struct Place {
    namespace: String,
    /// Mount point of its disk.
    disk: PathBuf,
    boot_id: PathBuf,
}

impl Place {
    /// In the network namespace `namespace`, with the disk at `disk`; `dir` holds the boot id.
    ///
    /// # Errors
    /// When the boot id cannot be written.
    pub fn new(namespace: String, disk: PathBuf, dir: &Path) -> Result<Self> {
        let place = Self { namespace, disk, boot_id: dir.join("boot-id") };
        place.boot()?;
        Ok(place)
    }

    /// The node boots anew: what it starts from now on sees another boot id.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn boot(&self) -> Result<()> {
        std::fs::write(&self.boot_id, format!("{}\n", Uuid::new_v4())).context("cannot write a boot id")
    }

    /// `program`, to be started here under the pid of the command; arguments may be added.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{}", self.namespace))
            .args(["--", "unshare", "--mount", "--propagation", "private", "--", "sh", "-c", ENTER, "sh"])
            .arg(&self.disk)
            .arg(&self.boot_id)
            .arg(program);
        command
    }
}
