//! A bounded queue before something that may not keep up: a console reader, the pipe to the log. What does
//! not fit is counted, left out and told of; nobody ever waits.

use std::io::{self, Write};

/// Where bytes go, and those that wait for it.
pub struct Outlet<W> {
    to: W,
    queue: Vec<u8>,
    limit_bytes: usize,
    /// Bytes left out since the queue was full.
    missed: u64,
    /// Who was too slow, for the note about them.
    who: &'static str,
}

impl<W: Write> Outlet<W> {
    /// `to` must not block.
    pub fn new(to: W, limit_bytes: usize, who: &'static str) -> Self {
        Self { to, queue: Vec::new(), limit_bytes, missed: 0, who }
    }

    /// Queues `bytes` as far as there is room, and sends what goes out at once.
    pub fn offer(&mut self, bytes: &[u8]) {
        if self.missed > 0 || self.queue.len() + bytes.len() > self.limit_bytes {
            self.missed += bytes.len() as u64;
        } else {
            self.queue.extend_from_slice(bytes);
        }
        self.flush();
    }

    /// Sends what it takes; false when it is gone.
    pub fn flush(&mut self) -> bool {
        while !self.queue.is_empty() {
            match self.to.write(&self.queue) {
                Ok(n) => drop(self.queue.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
            if self.queue.is_empty() && self.missed > 0 {
                let note =
                    format!("\r\n[holm: {} bytes left out, {} was too slow]\r\n", self.missed, self.who);
                self.missed = 0;
                self.queue.extend_from_slice(note.as_bytes());
            }
        }
        true
    }

    /// Whether something waits to be sent.
    pub fn waits(&self) -> bool {
        !self.queue.is_empty()
    }

    /// What it sends to.
    pub fn get(&self) -> &W {
        &self.to
    }

    /// As [`get`](Self::get), to read from it.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `room` bytes.
    struct Slow {
        room: usize,
        taken: Vec<u8>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(self.room);
            if n == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.room -= n;
            self.taken.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_told_of_once_there_is_room() {
        let mut outlet = Outlet::new(Slow { room: 3, taken: Vec::new() }, 4, "the disk");
        outlet.offer(b"abc");
        outlet.offer(b"defg");
        outlet.offer(b"h");
        outlet.offer(b"ij");
        assert!(outlet.waits());
        outlet.get_mut().room = 1000;
        assert!(outlet.flush());
        outlet.offer(b"k");
        let said = String::from_utf8_lossy(&outlet.get().taken).into_owned();
        assert_eq!(said, "abcdefg\r\n[holm: 3 bytes left out, the disk was too slow]\r\nk");
        assert!(!outlet.waits());
    }
}
