//! Groups of servers, tested.

use super::*;

#[test]
fn a_replica_has_what_its_primary_has_and_a_promoted_one_writes_itself() {
    let primary = Server::builder().password("s3cret").start();
    primary.cli(&["SET", "k", "1"]);
    let replica = Server::builder().replica_of(&primary).start();
    assert_eq!(replica.cli(&["GET", "k"]), Value::from("1"));
    assert!(replica.cli(&["SET", "k", "2"]).is_error());
    assert_eq!(primary.replicas(), 1);
    assert!(primary.is_primary() && !replica.is_primary());

    replica.promote();
    assert!(replica.is_primary());
    replica.cli(&["SET", "k", "2"]);
    primary.replica_of(replica.port());
    assert_eq!(primary.cli(&["GET", "k"]), Value::from("2"));
}

#[test]
fn sentinels_name_another_primary_when_theirs_is_killed_and_take_it_back_as_a_replica() {
    let group = Watched::start();
    let old = group.primary();
    assert_eq!(group.sentinels.agreed_port(), Some(old.port()));

    old.kill();
    let new = group.sentinels.wait_for_switch(old.port());
    assert!(group.on(new).is_primary());
    group.heal();
    // Sentinels may tell it once more whom to follow, and then its link begins anew.
    wait_until(PATIENCE, "the old primary is taken back", || {
        group.tell_whom_to_follow()
    });

    let before = group.primary().port();
    group.sentinels.fail_over();
    let third = group.sentinels.wait_for_switch(before);
    assert_eq!(group.primary().port(), third);
}

#[test]
fn sentinels_with_a_password_watch_servers_with_another() {
    let primary = Server::builder().password("s3cret").start();
    let _replica = Server::builder().replica_of(&primary).start();
    let sentinels = Sentinels::builder(&primary).password("0ther").start();
    assert_eq!(sentinels.primary_port(), primary.port());
    let stranger = crate::resp::Connection::open(sentinels.each()[0].port(), PATIENCE)
        .unwrap()
        .call(&["SENTINEL", "MASTERS"])
        .unwrap();
    assert!(stranger.text().unwrap().starts_with("NOAUTH"));
}
