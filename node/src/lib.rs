//! The Holm daemon: REST, the leader's driver, the agent, and everything wired together.
