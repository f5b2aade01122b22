//! Leaders are killed and come back at once: no read, through whatever node, is older than a write that was
//! acknowledged before it began.

use holm_jepsen::run::Test;

use crate::rounds;

#[tokio::test(flavor = "multi_thread")]
async fn no_read_is_older_than_an_acknowledged_write() {
    rounds::run(Test::StaleRead, 4).await;
}
