//! What the image store promises: whole or not at all, verified, resumable, nothing left behind.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use holm_vmm::image_store::{Error, ImageStore, Stored};

/// SHA-256 of `hello world`.
const HELLO: &str = "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9";
const OTHER: &str = "0000000000000000000000000000000000000000000000000000000000000000";

type Part = Result<Bytes, String>;

fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .expect("list")
        .map(|entry| entry.expect("entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

async fn upload(store: &ImageStore, parts: &[&'static str], sha256: Option<&str>) -> Result<Stored, Error> {
    let mut upload = store.begin().await?;
    for part in parts {
        upload.write(Bytes::from_static(part.as_bytes())).await?;
    }
    upload.finish(sha256).await
}

#[tokio::test]
async fn an_upload_is_named_by_its_digest_and_cannot_be_written_to() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("temporary directory");
    let store = ImageStore::open(dir.path().to_owned()).expect("store");
    let stored = upload(&store, &["hello", " world"], Some(HELLO)).await.expect("stored");
    assert_eq!(stored, Stored { sha256: HELLO.to_owned(), size_bytes: 11 });
    let path = store.path(HELLO).expect("there");
    assert_eq!(std::fs::read(&path).expect("bytes"), b"hello world");
    assert_eq!(std::fs::metadata(&path).expect("metadata").permissions().mode() & 0o777, 0o444);
    assert_eq!(files(dir.path()), [HELLO]);
    assert_eq!(store.used_bytes(), 11);
    assert_eq!(store.list().into_iter().map(|held| held.sha256).collect::<Vec<_>>(), [HELLO]);

    upload(&store, &["hello world"], None).await.expect("the same again is no error");
    store.remove(HELLO).expect("removed");
    store.remove(HELLO).expect("removed again");
    assert!(!store.contains(HELLO));
    assert_eq!(files(dir.path()), [""; 0]);
}

#[tokio::test]
async fn a_wrong_checksum_an_empty_image_and_a_dropped_upload_leave_nothing() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let store = ImageStore::open(dir.path().to_owned()).expect("store");
    let wrong = upload(&store, &["hello world"], Some(OTHER)).await;
    assert!(matches!(&wrong, Err(Error::WrongChecksum { got, .. }) if got == HELLO), "{wrong:?}");
    let cut = upload(&store, &["hello wor"], Some(HELLO)).await;
    assert!(matches!(cut, Err(Error::WrongChecksum { .. })), "{cut:?}");
    assert!(matches!(upload(&store, &[], None).await, Err(Error::Empty)));
    let mut dropped = store.begin().await.expect("upload");
    dropped.write(Bytes::from_static(b"hello")).await.expect("written");
    drop(dropped);
    let removed = async {
        while !files(dir.path()).is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), removed).await.expect("nothing is left");
}

#[tokio::test]
async fn what_a_crash_left_of_uploads_goes_at_the_next_open_and_partial_pulls_stay() {
    let dir = tempfile::tempdir().expect("temporary directory");
    std::fs::write(dir.path().join("upload-0.tmp"), b"hel").expect("written");
    std::fs::write(dir.path().join(format!("{HELLO}.partial")), b"hel").expect("written");
    ImageStore::open(dir.path().to_owned()).expect("store");
    assert_eq!(files(dir.path()), [format!("{HELLO}.partial")]);
}

#[tokio::test]
async fn a_pull_that_broke_goes_on_where_it_stopped() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let store = ImageStore::open(dir.path().to_owned()).expect("store");
    let broken = store
        .pull(
            HELLO,
            11,
            |_| async {
                let parts: [Part; 2] = [Ok(Bytes::from_static(b"hello")), Err("connection reset".to_owned())];
                Ok(stream::iter(parts))
            },
            |_| {},
        )
        .await;
    assert!(matches!(broken, Err(Error::Transfer { at_bytes: 5, .. })), "{broken:?}");
    assert!(!store.contains(HELLO));

    let mut asked = Vec::new();
    let mut heard = Vec::new();
    let stored = store
        .pull(
            HELLO,
            11,
            |offset| {
                asked.push(offset);
                async { Ok::<_, String>(stream::iter([Part::Ok(Bytes::from_static(b" world"))])) }
            },
            |bytes| heard.push(bytes),
        )
        .await
        .expect("pulled");
    assert_eq!((asked, heard), (vec![5], vec![5, 11]));
    assert_eq!(stored.sha256, HELLO);
    assert_eq!(files(dir.path()), [HELLO]);
}

#[tokio::test]
async fn a_pull_of_other_bytes_is_thrown_away() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let store = ImageStore::open(dir.path().to_owned()).expect("store");
    let cases: [(&'static [u8], u64); 3] =
        [(b"hello warld", 11), (b"hello world and more", 11), (b"hello", 5)];
    for (bytes, size) in cases {
        let fetch = |_| async move { Ok::<_, String>(stream::iter([Part::Ok(Bytes::from_static(bytes))])) };
        let refused = store.pull(HELLO, size, fetch, |_| {}).await;
        assert!(matches!(refused, Err(Error::WrongChecksum { .. } | Error::WrongSize { .. })), "{refused:?}");
        assert_eq!(files(dir.path()), [""; 0]);
    }
}

#[tokio::test]
async fn a_pull_of_less_than_announced_keeps_what_came() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let store = ImageStore::open(dir.path().to_owned()).expect("store");
    let fetch = |_| async { Ok::<_, String>(stream::iter([Part::Ok(Bytes::from_static(b"hello"))])) };
    let short = store.pull(HELLO, 11, fetch, |_| {}).await;
    assert!(matches!(short, Err(Error::Transfer { at_bytes: 5, .. })), "{short:?}");
    let unreachable =
        store.pull(HELLO, 11, |_| async { Err::<stream::Empty<Part>, _>("no route".to_owned()) }, |_| {});
    let error = unreachable.await.expect_err("unreachable");
    assert_eq!(error.to_string(), "the transfer broke after 5 bytes: no route");
}

#[tokio::test]
async fn a_name_that_is_no_digest_never_reaches_the_file_system() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let store = ImageStore::open(dir.path().join("images")).expect("store");
    for name in ["", "../../etc/passwd", "ABCD", &HELLO.to_uppercase(), &HELLO[1..]] {
        assert_eq!(store.path(name), None);
        assert!(matches!(store.remove(name), Err(Error::NotSha256(_))));
        assert!(matches!(upload(&store, &["x"], Some(name)).await, Err(Error::NotSha256(_))));
    }
}

#[tokio::test]
async fn a_full_disk_is_a_clear_error_and_leaves_nothing() {
    // A file system of one MiB needs root.
    let dir = tempfile::tempdir().expect("temporary directory");
    let mounted = nix::mount::mount(
        Some("none"),
        dir.path(),
        Some("tmpfs"),
        nix::mount::MsFlags::empty(),
        Some("size=1m"),
    );
    if let Err(e) = mounted {
        // Past libtest's capture, which hides what passing tests print.
        drop(std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("SKIPPED: a full disk is a clear error: cannot mount a small tmpfs: {e}\n"),
        ));
        return;
    }
    struct Unmount<'a>(&'a Path);
    impl Drop for Unmount<'_> {
        fn drop(&mut self) {
            let _ = nix::mount::umount2(self.0, nix::mount::MntFlags::MNT_DETACH);
        }
    }
    let _unmount = Unmount(dir.path());
    let store = ImageStore::open(dir.path().join("images")).expect("store");
    let mut upload = store.begin().await.expect("upload");
    let full = upload.write(Bytes::from(vec![7; 2 << 20])).await;
    assert!(matches!(full, Err(Error::NoSpace(_))), "{full:?}");
    let after = upload.finish(None).await;
    assert!(after.is_err(), "{after:?}");
    assert_eq!(store.used_bytes(), 0);

    // A tenth is never taken: it is the log's.
    let mut upload = store.begin().await.expect("upload");
    upload.write(Bytes::from(vec![7; 900 << 10])).await.expect("fits");
    let last = upload.write(Bytes::from(vec![7; 32 << 10])).await;
    assert!(matches!(&last, Err(Error::NoSpace(short)) if short.floor_bytes == 104_857), "{last:?}");
    drop(upload);

    // A pull that cannot end does not begin, and gives back what an earlier one brought.
    std::fs::write(dir.path().join(format!("images/{HELLO}.partial")), b"hello").expect("partial");
    let fetch = |_| async { Err::<stream::Empty<Part>, _>("asked a holder".to_owned()) };
    let large = store.pull(HELLO, 950 << 10, fetch, |_| {}).await;
    assert!(matches!(large, Err(Error::NoSpace(_))), "{large:?}");
    assert_eq!(store.used_bytes(), 0);
}
