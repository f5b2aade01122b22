mod support;
use std::time::{Duration, Instant};
use support::*;
use holm_raft::Timing;
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench() {
    for linger in [0u64, 1] {
        let t = Timing { linger: Duration::from_millis(linger), snapshot_every: 1_000_000, ..Timing::default() };
        let mut c = Cluster::new(3, t).await;
        let l = c.leader().await;
        for via in [l, (l + 1) % 3] {
            let n = c.node(via).clone();
            let mut lat = vec![];
            for i in 0..200 {
                let p = keyed(&n, flavor(&format!("a{via}-{i}"), 0));
                let t0 = Instant::now();
                n.propose(p, PATIENCE).await.unwrap();
                lat.push(t0.elapsed());
            }
            lat.sort();
            println!("linger {linger} via {} lone p50 {:?} p99 {:?}", if via == l {"leader"} else {"follower"}, lat[100], lat[198]);
        }
        for clients in [64usize, 256] {
            let n = c.node(l).clone();
            let t0 = Instant::now();
            let mut js = tokio::task::JoinSet::new();
            for k in 0..clients {
                let n = n.clone();
                js.spawn(async move {
                    let mut lat = vec![];
                    while t0.elapsed() < Duration::from_secs(4) {
                        let id = holm_model::Command::DeleteFlavor(holm_model::command::DeleteFlavor{ id: holm_model::FlavorId(uuid::Uuid::new_v4()), expected: None });
                        let p = keyed(&n, id);
                        let s = Instant::now();
                        n.propose(p, PATIENCE).await.unwrap();
                        lat.push(s.elapsed());
                    }
                    let _ = k;
                    lat
                });
            }
            let mut all = vec![];
            while let Some(r) = js.join_next().await { all.extend(r.unwrap()); }
            let el = t0.elapsed();
            all.sort();
            println!("linger {linger} clients {clients}: {:.0}/s p50 {:?} p99 {:?}", all.len() as f64 / el.as_secs_f64(), all[all.len()/2], all[all.len()*99/100]);
            let t0 = Instant::now();
            let mut js = tokio::task::JoinSet::new();
            for at in 0..3 { for _ in 0..clients/3 { let n = c.node(at).clone(); js.spawn(async move { let mut k=0; while t0.elapsed() < Duration::from_secs(2) { n.read(PATIENCE).await.unwrap(); k+=1; } k }); } }
            let mut reads = 0; while let Some(r) = js.join_next().await { reads += r.unwrap(); }
            println!("  reads through all nodes, {clients} clients: {:.0}/s", reads as f64 / t0.elapsed().as_secs_f64());
        }
        c.stop_all().await;
    }
}
