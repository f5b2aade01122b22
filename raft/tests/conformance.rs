//! openraft's own suite of storage tests, over the real store and state machine.

use holm_raft::state_machine::StateMachine;
use holm_raft::store::LogStore;
use holm_raft::types::TypeConfig;
use holm_raft::{Identity, init_cluster, snapshot, store};
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;

struct Builder;

impl StoreBuilder<TypeConfig, LogStore, StateMachine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, StateMachine), StorageError<TypeConfig>> {
        let dir = tempfile::tempdir().unwrap();
        init_cluster(dir.path(), "test", "a", "127.0.0.1:1", "127.0.0.1:2").unwrap();
        let identity = Identity::load(dir.path()).unwrap();
        let log = store::open(dir.path(), &identity).unwrap();
        let file = snapshot::File::open(dir.path()).unwrap();
        let state_machine =
            StateMachine::open(file, identity.cluster, None, std::sync::Arc::default()).unwrap();
        Ok((dir, log, state_machine))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_and_state_machine_do_what_openraft_demands() {
    Suite::test_all(Builder).await.unwrap();
}
