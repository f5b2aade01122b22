//! The daemon's side of `shim.sock`. Each call has its own connection and a time-out; a shim that does
//! not answer in time is *unknown*, never *dead*.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;

use super::protocol::{Op, Request, Status, VERSION};

/// A shim answers at once, and a status within its probe's patience.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to a shim.
pub struct Connection {
    lines: Lines<BufReader<UnixStream>>,
}

impl Connection {
    /// Connects and sends `op`.
    pub async fn open(socket: &Path, op: Op) -> io::Result<Self> {
        let connect = async {
            let mut stream = UnixStream::connect(socket).await?;
            let mut line = serde_json::to_vec(&Request { v: VERSION, op }).map_err(io::Error::other)?;
            line.push(b'\n');
            stream.write_all(&line).await?;
            Ok(Self { lines: BufReader::new(stream).lines() })
        };
        in_time(TIMEOUT, connect).await
    }

    /// The next status; `None` when the shim is gone.
    pub async fn next(&mut self) -> io::Result<Option<Status>> {
        let Some(line) = self.lines.next_line().await? else { return Ok(None) };
        serde_json::from_str(&line).map(Some).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
    }

    /// Waits until the shim is gone.
    pub async fn gone(&mut self) {
        let mut rest = Vec::new();
        // An error ends it too.
        let _ = self.lines.get_mut().read_to_end(&mut rest).await;
    }
}

/// Sends `op` and returns the answer.
pub async fn call(socket: &Path, op: Op, timeout: Duration) -> io::Result<Status> {
    let exchange = async {
        let mut connection = Connection::open(socket, op).await?;
        connection.next().await?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    };
    in_time(timeout, exchange).await
}

async fn in_time<T>(timeout: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(timeout, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
