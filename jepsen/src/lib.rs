//! Real daemons, real faults, and checkers that do not take the daemon's word.
