//! What tells a reboot from a process that is shown another boot id, or none.

use std::process::Command;

use super::crashes::{folder, lock_file, newest, of_another_boot};
use super::*;
use crate::base::error::ErrorKind;
use crate::store::embedded::time::Meta;

/// Containers may be shown another boot id, or none, while one kernel runs them all.
#[tokio::test]
async fn another_boot_id_is_no_reboot_while_a_session_is_held() {
    let scratch = Scratch::new();
    let clock = Clock::boot();
    let holder = Peer::on(&scratch, &clock, true);
    holder.take(&holder.token(), 60_000).await.unwrap();
    let path = folder(&scratch).join("meta");
    let meta = std::fs::read_to_string(&path).unwrap();
    let other = Meta {
        boot: [3; 16],
        ..Meta::parse(&meta).unwrap()
    };
    std::fs::write(&path, other.text()).unwrap();
    let two = Peer::on(&scratch, &clock, true);
    let refused = two.run(&inspect("job")).await.expect_err("one kernel");
    assert_eq!(refused.kind(), ErrorKind::UnsupportedFilesystem);
    assert!(refused.to_string().contains("boot_id"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), other.text());

    std::fs::write(&path, &meta).unwrap();
    let file = lock_file(&scratch);
    let slot = newest(&file).slot;
    of_another_boot(&file, slot * newest(&file).slot_size);
    let refused = two.run(&acquire("job", &two.token(), 60_000)).await;
    assert_eq!(
        refused.expect_err("it is held").kind(),
        ErrorKind::UnsupportedFilesystem
    );
    drop(holder);
    assert!(two.take(&two.token(), 60_000).await.is_some());
}

/// Runs itself once more where `/proc/sys` is hidden, as in a unit of systemd with `ProcSubset=pid`.
#[tokio::test]
async fn a_process_that_cannot_read_the_boot_id_is_refused() {
    const HIDDEN: &str = "LEASELOCK_TEST_HIDDEN_BOOT_ID";
    if std::env::var_os(HIDDEN).is_some() {
        let peer = Peer::on(&Scratch::new(), &Clock::boot(), true);
        let refused = peer.run(&inspect("job")).await.expect_err("no boot id");
        assert_eq!(refused.kind(), ErrorKind::UnsupportedFilesystem);
        assert!(refused.to_string().contains("boot_id"), "{refused}");
        return;
    }
    const UNABLE: i32 = 99;
    let script = format!("mount -t tmpfs tmpfs /proc/sys || exit {UNABLE}; exec \"$@\"");
    let name = "store::embedded::tests::boots::a_process_that_cannot_read_the_boot_id_is_refused";
    let ended = Command::new("unshare")
        .args(["-m", "sh", "-c", &script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(HIDDEN, "1")
        .output();
    match ended {
        Ok(ended) if ended.status.success() => {
            let said = String::from_utf8_lossy(&ended.stdout).into_owned();
            assert!(said.contains("1 passed"), "{said}");
        }
        Ok(ended) if ![Some(1), Some(UNABLE)].contains(&ended.status.code()) => {
            panic!("{ended:?}")
        }
        _ => eprintln!("skipped: hiding a folder needs root"),
    }
}
