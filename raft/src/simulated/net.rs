//! Connections of peers: TCP, or those of a simulated network.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::poll_fn;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use super::host::{Accept, Io};

pub(crate) enum Stream {
    Real(TcpStream),
    Simulated(Box<dyn Io>),
}

impl Stream {
    pub(crate) async fn connect(addr: &str) -> io::Result<Self> {
        match super::host() {
            None => TcpStream::connect(addr).await.map(Self::Real),
            Some(host) => host.connect(addr).await.map(Self::Simulated),
        }
    }

    fn io(&mut self) -> Pin<&mut dyn Io> {
        match self {
            Self::Real(stream) => Pin::new(stream),
            Self::Simulated(stream) => Pin::new(&mut **stream),
        }
    }
}

/// The socket of a real connection.
pub(crate) const fn tcp(stream: &Stream) -> Option<&TcpStream> {
    match stream {
        Stream::Real(stream) => Some(stream),
        Stream::Simulated(_) => None,
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.io().poll_read(cx, into)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.io().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_shutdown(cx)
    }
}

pub(crate) enum Listener {
    Real(TcpListener),
    Simulated(Box<dyn Accept>),
}

impl Listener {
    pub(crate) async fn bind(addr: SocketAddr) -> io::Result<Self> {
        match super::host() {
            None => TcpListener::bind(addr).await.map(Self::Real),
            Some(host) => host.listen(addr).map(Self::Simulated),
        }
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Real(listener) => listener.local_addr(),
            Self::Simulated(listener) => Ok(listener.local_addr()),
        }
    }

    pub(crate) async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        match self {
            Self::Real(listener) => {
                listener.accept().await.map(|(stream, from)| (Stream::Real(stream), from))
            }
            Self::Simulated(listener) => {
                let stream = poll_fn(|cx| listener.poll_accept(cx)).await?;
                Ok((Stream::Simulated(stream), listener.local_addr()))
            }
        }
    }
}
