//! Real daemons on loopback, asked through REST. One program for all of it: most tests wait for the daemons' clocks, and
//! wait side by side here.

mod conditions;
mod daemon;
mod disk;
mod disk_full;
mod disk_hung;
mod drain;
mod host_health;
mod http_bad_input;
mod http_placement;
mod http_projects;
mod http_requests;
mod identity_cloned;
mod keep_running;
mod lease;
mod orphans;
mod placement_cluster;
mod placement_crowd;
mod steering;
mod watchdog;
