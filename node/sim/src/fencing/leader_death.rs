//! What a leader's death costs.
