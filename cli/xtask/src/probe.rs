//! How long writes are refused or hang: many small writes on a fixed beat, each from its own client with
//! its own patience, so that one that hangs hides nothing from the others.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use serde_json::json;

use crate::client::Client;
use crate::interrupt;

/// A write begins this often.
const BEAT: Duration = Duration::from_millis(10);
/// Clients; so many writes may hang at once.
const CLIENTS: u32 = 32;
/// How long a write may hang. Others go on meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long writes may stay away altogether.
const LIMIT: Duration = Duration::from_secs(60);

/// Writes through `endpoints` all the time, runs `break_it`, and measures from the moment that it returned
/// until a write that was begun later is acknowledged. `name` keeps the flavors that are written apart
/// from others.
///
/// # Errors
/// When writes do not work before, `break_it` fails, or writes do not come back.
pub fn unavailability(
    name: &str,
    endpoints: &[String],
    break_it: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Duration> {
    let probe = Probe::default();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let probe = &probe;
            scope.spawn(move || probe.write_on_the_beat(name, endpoints, client));
        }
        let result = probe.measure(break_it);
        probe.end.store(true, Ordering::Relaxed);
        result
    })
}

#[derive(Default)]
struct Probe {
    end: AtomicBool,
    acknowledged: AtomicU64,
    /// When the first acknowledged write that was begun after this moment was acknowledged.
    broken: Mutex<Option<Instant>>,
    back: Mutex<Option<Instant>>,
    last_error: Mutex<String>,
}

impl Probe {
    fn measure(&self, break_it: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Duration> {
        let answer = interrupt::wait_for("a first write", LIMIT, || {
            Ok((self.acknowledged.load(Ordering::Relaxed) >= u64::from(CLIENTS)).then_some(()))
        });
        self.explain(answer)?;
        break_it()?;
        let broken = Instant::now();
        *lock(&self.broken) = Some(broken);
        let answer = interrupt::wait_for("writes to come back", LIMIT, || Ok(*lock(&self.back)));
        Ok(self.explain(answer)?.saturating_duration_since(broken))
    }

    fn explain<T>(&self, answer: anyhow::Result<T>) -> anyhow::Result<T> {
        let last = lock(&self.last_error).clone();
        match answer {
            Err(error) if !last.is_empty() => bail!("{error}; the last write failed with: {last}"),
            answer => answer,
        }
    }

    fn write_on_the_beat(&self, name: &str, endpoints: &[String], client: u32) {
        let clients: Vec<Client> = endpoints.iter().map(|endpoint| Client::new(endpoint, PATIENCE)).collect();
        let start = Instant::now();
        let mut turn = 0u32;
        while !self.end.load(Ordering::Relaxed) && interrupt::check().is_ok() {
            let due = start + BEAT * client + BEAT * CLIENTS * turn;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let through = &clients[(client + turn) as usize % clients.len()];
            self.write(through, &format!("{name}-{client}-{turn}"));
            turn += 1;
        }
    }

    fn write(&self, through: &Client, flavor: &str) {
        let begun = Instant::now();
        match through.post("/v1/flavors", &json!({ "name": flavor, "vcpus": 1, "memory_mib": 16 })) {
            Ok(_) => {
                let now = Instant::now();
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
                if lock(&self.broken).is_some_and(|broken| begun >= broken) {
                    lock(&self.back).get_or_insert(now);
                }
                // A probe's flavors are of no further use; one that stays because this fails does no harm.
                let _ = through.delete(&format!("/v1/flavors/{flavor}"));
            }
            Err(error) => *lock(&self.last_error) = format!("{error:#}"),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use super::*;

    /// Answers every request with 201 while `up`, and hangs up on the others.
    fn serve(up: Arc<AtomicBool>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let up = up.clone();
                thread::spawn(move || answer(stream, &up));
            }
        });
        endpoint
    }

    fn answer(stream: TcpStream, up: &AtomicBool) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        if up.load(Ordering::Relaxed) {
            (&stream)
                .write_all(b"HTTP/1.1 201 Created\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}")
                .ok()?;
        }
        Some(())
    }

    #[test]
    fn the_gap_ends_with_a_write_that_was_begun_after_the_break() {
        let up = Arc::new(AtomicBool::new(true));
        let endpoint = serve(up.clone());
        let gap = Duration::from_millis(300);
        let measured = unavailability("test", &[endpoint], || {
            up.store(false, Ordering::Relaxed);
            thread::spawn(move || {
                thread::sleep(gap);
                up.store(true, Ordering::Relaxed);
            });
            Ok(())
        })
        .expect("writes come back");
        assert!(measured >= gap - Duration::from_millis(20), "{measured:?}");
        assert!(measured < gap + Duration::from_secs(2), "{measured:?}");
    }
}
