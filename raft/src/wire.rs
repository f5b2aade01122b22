//! What peers talk over: TCP, or what a simulation puts in its place.

#[cfg(feature = "simulation")]
pub(crate) use crate::simulated::net::{Listener, Stream, tcp};
#[cfg(not(feature = "simulation"))]
pub(crate) use tokio::net::{TcpListener as Listener, TcpStream as Stream};

/// The socket of a connection; none in a simulation.
#[cfg(not(feature = "simulation"))]
pub(crate) const fn tcp(stream: &Stream) -> Option<&Stream> {
    Some(stream)
}
