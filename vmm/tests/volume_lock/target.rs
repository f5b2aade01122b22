//! The machine that has the disk: Linux' SCSI target, with a file for the disk, offered by iSCSI to two initiators.
//!
//! Looped back in one machine it would be simpler, but there the target works off a queue, and an abort that came by
//! the queue waits for it to be empty, itself included: for ever.

use std::fs::{self, File};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use super::guest::{mount, say, write};

/// What the machine is, and its modules: target, backing file, iSCSI, checksums, network.
pub const ROLE: (&str, &[&str]) = (
    "target",
    &["configfs", "target_core_mod", "target_core_file", "crc32c_generic", "iscsi_target_mod", "e1000"],
);
/// What it says when it is ready.
pub const READY: &str = "the target is ready";
/// Its name, and those of its initiators.
pub const NAME: &str = "iqn.2026-11.example.holm:disk";
pub const INITIATORS: [&str; 2] = ["iqn.2026-11.example.holm:a", "iqn.2026-11.example.holm:b"];
/// The port of iSCSI.
pub const PORT: u16 = 3260;
/// What QEMU's network has for a guest.
const ADDRESS: [u8; 4] = [10, 0, 2, 15];

const TARGET: &str = "/sys/kernel/config/target";

/// Never returns.
pub fn serve() {
    set_address("eth0", ADDRESS);
    mount("configfs", "/sys/kernel/config");
    // Where the target keeps what must outlive its loss of power.
    fs::create_dir_all("/var/target/pr").expect("directory");
    File::create("/disk").and_then(|file| file.set_len(16 << 20)).expect("backing file");
    let disk = Path::new(TARGET).join("core/fileio_0/disk");
    fs::create_dir_all(&disk).expect("backstore");
    write(&disk.join("control"), "fd_dev_name=/disk,fd_dev_size=16777216");
    write(&disk.join("wwn/vpd_unit_serial"), "holm");
    write(&disk.join("enable"), "1");
    fs::create_dir(Path::new(TARGET).join("iscsi")).expect("iSCSI");
    let group = Path::new(TARGET).join("iscsi").join(NAME).join("tpgt_1");
    fs::create_dir_all(group.join("lun/lun_0")).expect("portal group");
    symlink(&disk, group.join("lun/lun_0/disk")).expect("logical unit");
    write(&group.join("attrib/authentication"), "0");
    for initiator in INITIATORS {
        let unit = group.join("acls").join(initiator).join("lun_0");
        fs::create_dir_all(&unit).expect("initiator");
        symlink(group.join("lun/lun_0"), unit.join("disk")).expect("its view of the unit");
    }
    fs::create_dir(group.join("np").join(format!("0.0.0.0:{PORT}"))).expect("portal");
    write(&group.join("enable"), "1");
    say(READY);
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// Gives a network interface its address, of a network of 24 bits, and brings it up.
fn set_address(interface: &str, address: [u8; 4]) {
    // Any socket does for these calls.
    let socket = UdpSocket::bind("0.0.0.0:0").expect("socket");
    let call = |request, fill: &dyn Fn(&mut [u8])| {
        // `struct ifreq`: the name, then what the request is about.
        let mut bytes = [0u8; 40];
        bytes[..interface.len()].copy_from_slice(interface.as_bytes());
        fill(&mut bytes[16..]);
        // SAFETY: the buffer is as long as the structure, and lives until the call returns.
        let done = unsafe { libc::ioctl(socket.as_raw_fd(), request, bytes.as_mut_ptr()) };
        assert_eq!(done, 0, "{interface}: {}", io::Error::last_os_error());
    };
    // `struct sockaddr_in`: family, port, address.
    let internet = |address: [u8; 4]| {
        move |to: &mut [u8]| {
            to[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            to[4..8].copy_from_slice(&address);
        }
    };
    call(libc::SIOCSIFADDR, &internet(address));
    call(libc::SIOCSIFNETMASK, &internet([255, 255, 255, 0]));
    call(libc::SIOCSIFFLAGS, &|to| to[..2].copy_from_slice(&(libc::IFF_UP as u16).to_ne_bytes()));
}
