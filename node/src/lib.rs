//! The Holm daemon: REST, the leader's driver, the agent, and everything wired together.

pub mod agent;
pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod event_log;
pub mod guests;
pub mod health;
pub mod http;
pub mod leader;
pub mod lease;
pub mod lifecycle;
pub mod listen;
pub mod peer;
pub mod program;
pub mod systemd;
pub mod wiring;
