//! Where a VM goes, and why not there: filters, weighers, selection and the leader's controllers, all pure.
