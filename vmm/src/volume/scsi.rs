//! Persistent reservations of a SCSI disk (SPC-3, sections 5.6, 6.11 and 6.12), through the kernel's pass-through
//! (`SG_IO`). The block layer has ioctls of its own for this (`linux/pr.h`), but those that read came with Linux
//! 6.19, and none tells a device that does not know reservations from one that is broken.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::reservation::{Error, Key, Outcome, Reservation, Unit};

/// `scsi/sg.h`.
const SG_IO: libc::c_ulong = 0x2285;
const SG_DXFER_TO_DEV: i32 = -2;
const SG_DXFER_FROM_DEV: i32 = -3;
/// For one command. Storage that fails over takes longer: then the whole is tried again.
const TIMEOUT_MS: u32 = 5_000;
/// A device reports once to everybody what befell it (a reset, a preemption) instead of doing what was asked, and
/// may be busy for a moment.
const TRIES: u32 = 10;

const PERSISTENT_RESERVE_IN: u8 = 0x5e;
const PERSISTENT_RESERVE_OUT: u8 = 0x5f;
const READ_KEYS: u8 = 0;
const READ_RESERVATION: u8 = 1;
const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const PREEMPT_AND_ABORT: u8 = 5;
const REGISTER_AND_IGNORE_EXISTING_KEY: u8 = 6;
/// Write Exclusive, of the whole logical unit.
const TYPE: u8 = 1;
/// Activate persist through power loss.
const APTPL: u8 = 1;
/// More keys than nodes a cluster has, paths included.
const ANSWER_BYTES: usize = 8 + 8 * 1024;

/// A SCSI disk that is open.
pub struct Disk<'a> {
    file: &'a File,
    /// No command begins later.
    until: Instant,
}

/// What a command gave.
enum Status {
    Good,
    Conflict,
    /// Sense key, additional sense code and its qualifier.
    Check(u8, u8, u8),
}

impl<'a> Disk<'a> {
    pub fn new(file: &'a File, until: Instant) -> Self {
        Self { file, until }
    }

    fn read_in(&self, what: u8) -> Result<Vec<u8>, Error> {
        let mut answer = vec![0; ANSWER_BYTES];
        let length = u16::try_from(ANSWER_BYTES).expect("it was chosen to fit").to_be_bytes();
        let command = [PERSISTENT_RESERVE_IN, what, 0, 0, 0, 0, 0, length[0], length[1], 0];
        match self.command(&command, SG_DXFER_FROM_DEV, &mut answer)? {
            Status::Good => Ok(answer),
            Status::Conflict => Err(Error::Answer("it refuses to be read".to_owned())),
            Status::Check(key, asc, ascq) => Err(refusal(key, asc, ascq)),
        }
    }

    /// `key` is the one this path is registered under, `other` the one the action is about.
    fn change(&self, action: u8, key: u64, other: u64) -> Result<Outcome, Error> {
        let registers = matches!(action, REGISTER | REGISTER_AND_IGNORE_EXISTING_KEY);
        let kind = if registers { 0 } else { TYPE };
        let mut parameters = [0; 24];
        parameters[..8].copy_from_slice(&key.to_be_bytes());
        parameters[8..16].copy_from_slice(&other.to_be_bytes());
        parameters[20] = if registers { APTPL } else { 0 };
        let command = [PERSISTENT_RESERVE_OUT, action, kind, 0, 0, 0, 0, 0, 24, 0];
        match self.command(&command, SG_DXFER_TO_DEV, &mut parameters)? {
            Status::Good => Ok(Outcome::Done),
            Status::Conflict => Ok(Outcome::Conflict),
            // Invalid field in the parameters: of all of them, the one that not every device takes.
            Status::Check(5, 0x26, _) if registers => Err(Error::NotKept),
            Status::Check(key, asc, ascq) => Err(refusal(key, asc, ascq)),
        }
    }

    fn command(&self, command: &[u8; 10], direction: i32, data: &mut [u8]) -> Result<Status, Error> {
        for _ in 0..TRIES {
            if Instant::now() >= self.until {
                return Err(Error::Slow);
            }
            let answer = pass_through(self.file, command, direction, data)?;
            match answer.status {
                0x00 => return Ok(Status::Good),
                0x18 => return Ok(Status::Conflict),
                0x02 => match sense(&answer.sense) {
                    // Unit attention.
                    (6, ..) => {}
                    (key, asc, ascq) => return Ok(Status::Check(key, asc, ascq)),
                },
                // Busy, task set full.
                0x08 | 0x28 => std::thread::sleep(Duration::from_millis(100)),
                status => return Err(Error::Answer(format!("status {status:#04x}"))),
            }
        }
        Err(Error::Answer(format!("it is busy, or was reset {TRIES} times")))
    }
}

impl Unit for Disk<'_> {
    fn read(&self) -> Result<Reservation, Error> {
        let holder = holder(&self.read_in(READ_RESERVATION)?)?;
        Ok(Reservation { registered: keys(&self.read_in(READ_KEYS)?)?, holder })
    }

    fn register(&self, key: Key) -> Result<Outcome, Error> {
        self.change(REGISTER_AND_IGNORE_EXISTING_KEY, 0, key.0)
    }

    fn reserve(&self, key: Key) -> Result<Outcome, Error> {
        self.change(RESERVE, key.0, 0)
    }

    fn preempt(&self, old: Key, key: Key) -> Result<Outcome, Error> {
        self.change(PREEMPT_AND_ABORT, key.0, old.0)
    }

    fn unregister(&self, key: Key) -> Result<Outcome, Error> {
        self.change(REGISTER, key.0, 0)
    }
}

fn refusal(key: u8, asc: u8, ascq: u8) -> Error {
    match (key, asc) {
        // Invalid operation code, or one with a field that it does not know.
        (5, 0x20 | 0x24) => Error::Unsupported,
        _ => Error::Answer(format!("sense {key:#03x}/{asc:#04x}/{ascq:#04x}")),
    }
}

/// The list of an answer to PERSISTENT RESERVE IN, after its length at byte 4.
fn list(answer: &[u8]) -> Result<&[u8], Error> {
    let length = answer.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    let list = length.and_then(|length| answer.get(8..8 + length as usize));
    list.ok_or_else(|| Error::Answer("its list of keys is cut short".to_owned()))
}

fn keys(answer: &[u8]) -> Result<Vec<Key>, Error> {
    let keys = list(answer)?.chunks_exact(8);
    Ok(keys.filter_map(|key| key.try_into().ok()).map(|key| Key(u64::from_be_bytes(key))).collect())
}

fn holder(answer: &[u8]) -> Result<Option<Key>, Error> {
    let list = list(answer)?;
    if list.is_empty() {
        return Ok(None);
    }
    let (Some(key), Some(kind)) = (list.first_chunk::<8>(), list.get(13)) else {
        return Err(Error::Answer("its reservation is cut short".to_owned()));
    };
    let key = u64::from_be_bytes(*key);
    // Of another type it is not one of ours, whatever its key says.
    if kind & 0x0f != TYPE {
        return Err(Error::Foreign { key });
    }
    Ok(Some(Key(key)))
}

/// Sense key, code and qualifier, in either format.
fn sense(bytes: &[u8; 64]) -> (u8, u8, u8) {
    match bytes[0] & 0x7f {
        0x72 | 0x73 => (bytes[1] & 0x0f, bytes[2], bytes[3]),
        _ => (bytes[2] & 0x0f, bytes[12], bytes[13]),
    }
}

struct Answer {
    status: u8,
    sense: [u8; 64],
}

/// `struct sg_io_hdr` of `scsi/sg.h`.
#[repr(C)]
struct Header {
    interface_id: libc::c_int,
    direction: libc::c_int,
    command_len: u8,
    sense_len_max: u8,
    iovec_count: u16,
    data_len: u32,
    data: *mut libc::c_void,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: libc::c_int,
    user: *mut libc::c_void,
    status: u8,
    masked_status: u8,
    msg_status: u8,
    sense_len: u8,
    host_status: u16,
    driver_status: u16,
    residual: libc::c_int,
    duration: u32,
    info: u32,
}

fn pass_through(file: &File, command: &[u8; 10], direction: i32, data: &mut [u8]) -> io::Result<Answer> {
    let mut sense = [0; 64];
    let mut header = Header {
        interface_id: libc::c_int::from(b'S'),
        direction,
        command_len: 10,
        sense_len_max: 64,
        iovec_count: 0,
        data_len: u32::try_from(data.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        data: data.as_mut_ptr().cast(),
        command: command.as_ptr(),
        sense: sense.as_mut_ptr(),
        timeout_ms: TIMEOUT_MS,
        flags: 0,
        pack_id: 0,
        user: std::ptr::null_mut(),
        status: 0,
        masked_status: 0,
        msg_status: 0,
        sense_len: 0,
        host_status: 0,
        driver_status: 0,
        residual: 0,
        duration: 0,
        info: 0,
    };
    // SAFETY: the header has the kernel's layout, and what it points to lives and stays where it is until the call
    // returns, which is when the kernel has finished with it.
    if unsafe { libc::ioctl(file.as_raw_fd(), SG_IO, &mut header) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // A status is the device's word; without one, an error of host or transport is all there is.
    if header.status == 0 && header.host_status != 0 {
        return Err(io::Error::other(format!("transport error {:#x}", header.host_status)));
    }
    Ok(Answer { status: header.status, sense })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_the_standard_lays_them_out() {
        let mut answer = vec![0, 0, 0, 7, 0, 0, 0, 16];
        answer.extend([0x48, 0xab, 0xcd, 0, 0, 0, 0, 5, 0x48, 0xab, 0xcd, 0, 0, 0, 0, 9]);
        answer.resize(64, 0xff);
        assert_eq!(keys(&answer).expect("keys"), [Key(0x48ab_cd00_0000_0005), Key(0x48ab_cd00_0000_0009)]);
        assert_eq!(keys(&[0; 8]).expect("none"), []);
        assert!(matches!(keys(&[0, 0, 0, 7, 0, 0, 1, 0]), Err(Error::Answer(_))), "a list beyond its end");

        let reservation = |kind| {
            let mut answer =
                vec![0, 0, 0, 7, 0, 0, 0, 16, 0x48, 0xab, 0xcd, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, kind, 0, 0];
            answer.resize(64, 0);
            holder(&answer)
        };
        assert_eq!(reservation(1).expect("held"), Some(Key(0x48ab_cd00_0000_0009)));
        assert!(matches!(reservation(5), Err(Error::Foreign { .. })), "registrants only is not ours");
        assert_eq!(holder(&[0; 64]).expect("free"), None);
    }

    #[test]
    fn sense_is_read_in_both_formats() {
        let mut fixed = [0; 64];
        (fixed[0], fixed[2], fixed[12], fixed[13]) = (0x70, 5, 0x20, 0);
        assert!(matches!(sense(&fixed), (5, 0x20, 0)));
        let mut descriptor = [0; 64];
        descriptor[..4].copy_from_slice(&[0x72, 6, 0x2a, 3]);
        assert_eq!(sense(&descriptor), (6, 0x2a, 3));
        assert!(matches!(refusal(5, 0x20, 0), Error::Unsupported));
    }

    #[test]
    fn what_is_no_scsi_device_is_an_error_of_the_call() {
        let file = tempfile::tempfile().expect("file");
        let soon = Instant::now() + Duration::from_secs(60);
        assert!(matches!(Disk::new(&file, soon).read(), Err(Error::Io(_))));
        assert!(matches!(Disk::new(&file, Instant::now()).read(), Err(Error::Slow)), "no time is left");
    }
}
