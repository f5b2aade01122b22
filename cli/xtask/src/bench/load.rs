//! A closed loop of clients, each with its own connection, each writing again as soon as it was answered.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::report::{Measurement, Sample};
use crate::interrupt;

/// One client.
pub trait Writer: Send {
    /// One replicated write, acknowledged.
    ///
    /// # Errors
    /// When it was not acknowledged.
    fn write(&mut self) -> anyhow::Result<()>;
}

/// How long the clients write before it counts.
const WARM_UP: Duration = Duration::from_secs(1);

/// Lets `writers` write for `duration` and reports writes a second and their latency in milliseconds.
///
/// # Errors
/// On the first write that fails: a rate with failures in it says nothing.
pub fn run(name: &str, writers: Vec<Box<dyn Writer>>, duration: Duration) -> anyhow::Result<Measurement> {
    let clients = writers.len();
    let (begin, end) = (Barrier::new(clients + 1), AtomicBool::new(false));
    let latencies = thread::scope(|scope| {
        let clients: Vec<_> =
            writers.into_iter().map(|writer| scope.spawn(|| client(writer, &begin, &end))).collect();
        begin.wait();
        let start = Instant::now();
        while start.elapsed() < WARM_UP + duration && interrupt::check().is_ok() {
            thread::sleep(Duration::from_millis(10));
        }
        end.store(true, Ordering::Relaxed);
        let all = clients
            .into_iter()
            .map(|client| client.join().map_err(|_| anyhow::anyhow!("a client panicked"))?);
        all.collect::<anyhow::Result<Vec<_>>>()
    })
    .with_context(|| name.to_owned())?;
    interrupt::check()?;
    let latencies: Vec<f64> = latencies.concat();
    let rate = latencies.len() as f64 / duration.as_secs_f64();
    let Some(sample) = Sample::new(latencies) else { bail!("{name}: no write was acknowledged") };
    let latency = Measurement::spread(name, "writes/s", &sample, "percentiles: ms");
    Ok(Measurement { value: rate, ..latency })
}

/// Latencies of the writes begun after the warm-up and before the end, in milliseconds.
fn client(mut writer: Box<dyn Writer>, begin: &Barrier, end: &AtomicBool) -> anyhow::Result<Vec<f64>> {
    begin.wait();
    let start = Instant::now();
    let mut latencies = Vec::new();
    while !end.load(Ordering::Relaxed) {
        let sent = Instant::now();
        if let Err(error) = writer.write() {
            end.store(true, Ordering::Relaxed);
            return Err(error);
        }
        if sent - start >= WARM_UP {
            latencies.push(sent.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(latencies)
}
