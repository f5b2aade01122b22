//! REST types of Holm, version 1, shared by the node and the CLI.
