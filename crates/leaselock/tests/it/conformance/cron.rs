//! Ticks of a schedule, each of which one of several hosts runs.

use std::time::{Duration, SystemTime};

use leaselock::cron::{Claim, Cron, CronError, CronRun, CronState, Overlap, TickState};
use leaselock::inspect::BreakOptions;
use leaselock::options::OnCrash;
use leaselock::{AcquireError, Client, Lease};

use crate::engine::Engine;
use crate::support::{LONG, by_message, eventually, millis, soon, until_queued, waiter};

const NAME: &str = "nightly";
/// The time between two ticks of these tests, all of which are past.
const STEP: Duration = Duration::from_secs(1);

fn cron(client: &Client) -> Cron {
    client.cron(NAME).ttl(LONG).start_within(LONG * 60)
}

async fn pair(engine: &Engine) -> [Client; 2] {
    [
        engine.client_of_one_store().await,
        engine.client_of_one_store().await,
    ]
}

async fn state(client: &Client) -> CronState {
    cron(client).state().await.unwrap()
}

/// A tick of a while ago, by the store's clock, to the microsecond.
async fn past(client: &Client) -> SystemTime {
    state(client).await.now - LONG
}

async fn claim(cron: &Cron, tick: SystemTime) -> Claim {
    soon(cron.claim(tick)).await.unwrap()
}

async fn run(cron: &Cron, tick: SystemTime) -> Lease<CronRun> {
    match claim(cron, tick).await {
        Claim::Run(run) => run,
        other => panic!("{other:?}"),
    }
}

async fn broken(client: &Client) {
    client
        .break_lease(NAME, BreakOptions::default().now())
        .await
        .unwrap();
}

async fn until_crashed(client: &Client) {
    eventually("it has crashed", async || {
        state(client).await.state == Some(TickState::Crashed)
    })
    .await;
}

macro_rules! told {
    ($cron:expr, $tick:expr, $($pattern:tt)+) => {
        let told = claim(&$cron, $tick).await;
        assert!(matches!(told, $($pattern)+), "{told:?}");
    };
}

/// A name with a tag of its own has other keys beside it.
pub(super) async fn names_of_which_ticks_are_known_are_listed_with_their_schedule(engine: &Engine) {
    let [one, two] = pair(engine).await;
    if !engine.lists {
        assert!(two.list_cron("*").await.is_err());
        return;
    }
    assert_eq!(two.list_cron("*").await.unwrap(), []);
    let is_tagged = one.cron("{jobs}:bare").validate().is_ok(); // or the prefix is, and then no name may be
    let bare_name = ["bare", "{jobs}:bare"][usize::from(is_tagged)];
    let tick = past(&one).await;
    let described = cron(&one).described("Europe/Berlin 30 2 * * *");
    run(&described, tick).await.finish().await.unwrap();
    let bare = one.cron(bare_name).ttl(LONG).start_within(LONG * 60);
    run(&bare, tick).await.finish().await.unwrap();
    drop(one.mutex("no schedule").acquire().await.unwrap());
    let listed = async |pattern: &str| {
        let mut names = two.list_cron(pattern).await.unwrap();
        names.sort();
        names
            .iter()
            .map(|name| name.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    let mut both = [NAME, bare_name];
    both.sort_unstable();
    assert_eq!(listed("*").await, both);
    assert_eq!(listed("night*").await, [NAME]);
    let told = state(&two).await.schedule;
    assert_eq!(
        told,
        Some((LONG * 60, "Europe/Berlin 30 2 * * *".to_owned()))
    );
    assert_eq!(two.cron(bare_name).state().await.unwrap().schedule, None);
    // A claim without a schedule leaves what a service has said.
    run(&cron(&two), tick + STEP).await.finish().await.unwrap();
    assert_eq!(state(&one).await.schedule, told);
}

pub(super) async fn a_tick_is_run_by_one_caller_and_over_for_all_others(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let first = state(&two).await;
    assert_eq!((first.latest, first.skipped), (None, None));
    assert_eq!(first.known_until(), None);
    let tick = past(&one).await;
    let runs = run(&cron(&one), tick + Duration::from_nanos(999)).await;
    assert_eq!((runs.tick(), runs.attempt()), (tick, 1));
    assert_eq!(runs.name().as_str(), NAME);
    let known = state(&two).await;
    assert_eq!(
        (known.latest, known.state),
        (Some(tick), Some(TickState::Running))
    );
    told!(cron(&two), tick, Claim::Running { rest } if rest <= LONG && !rest.is_zero());
    let fence = runs.fence();
    runs.finish().await.unwrap();
    for client in [&one, &two] {
        told!(cron(client).on_crash(OnCrash::Again), tick, Claim::Over);
        told!(cron(client), tick - STEP, Claim::Over);
    }
    let shown = state(&two).await;
    assert_eq!((shown.state, shown.attempt), (Some(TickState::Done), 1));
    assert_eq!(shown.known_until(), Some(tick));
    // The name is free all the while, and the record is no lock.
    let lease = two.mutex(NAME).try_acquire().await.unwrap().unwrap();
    assert!(lease.fence() > Some(fence));
    lease.release().await.unwrap();
    if engine.lists {
        assert_eq!(one.list("*").await.unwrap().len(), 0);
    }
    let next = run(&cron(&two), tick + STEP).await;
    assert!(next.fence() > fence && next.attempt() == 1);
    next.finish().await.unwrap();
}

pub(super) async fn a_tick_that_is_not_due_is_early_by_the_clock_of_the_store(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let now = state(&one).await.now;
    let told = claim(&cron(&one), now + LONG).await;
    let Claim::Early { wait } = told else {
        panic!("{told:?}")
    };
    assert!(wait <= LONG && wait > LONG / 2, "{wait:?}");
    // It was not claimed, and soon it is due.
    let soon_due = now + millis(300);
    let runs = loop {
        match claim(&cron(&two), soon_due).await {
            Claim::Run(run) => break run,
            Claim::Early { wait } => tokio::time::sleep(wait).await, // as a scheduler does
            other => panic!("{other:?}"),
        }
    };
    assert!(state(&one).await.now >= soon_due);
    runs.finish().await.unwrap();
}

pub(super) async fn a_tick_that_is_too_late_is_missed_and_may_be_caught_up_with(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let tick = past(&one).await;
    let prompt = cron(&one).start_within(LONG / 2);
    told!(prompt, tick, Claim::Missed { late } if late >= LONG);
    // It was due at once, and at once is over.
    told!(
        cron(&two).start_within(Duration::ZERO),
        tick,
        Claim::Missed { .. }
    );
    run(&cron(&two), tick).await.finish().await.unwrap();
    told!(prompt, tick, Claim::Over);
    // A run that has begun in time is no less running when its tick is late.
    let runs = run(&cron(&two), tick + STEP).await;
    told!(prompt, tick + STEP, Claim::Running { .. });
    runs.finish().await.unwrap();
}

pub(super) async fn a_tick_is_left_out_for_all_while_the_name_is_held(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let tick = past(&one).await;
    let runs = run(&cron(&one), tick).await;
    told!(cron(&two), tick + STEP, Claim::Overlap { rest } if rest <= LONG && !rest.is_zero());
    let shown = state(&one).await;
    assert_eq!(shown.skipped, Some(tick + STEP));
    assert_eq!(shown.known_until(), Some(tick + STEP));
    // It is of no use to be slow, or to wait.
    told!(cron(&one).overlap(Overlap::Wait), tick + STEP, Claim::Over);
    runs.finish().await.unwrap();
    told!(
        cron(&one).on_crash(OnCrash::Again),
        tick + STEP,
        Claim::Over
    );
    // Another lock of the name leaves a tick out as well.
    let lease = two.mutex(NAME).ttl(LONG).try_acquire().await.unwrap();
    told!(cron(&one), tick + 2 * STEP, Claim::Overlap { .. });
    lease.unwrap().release().await.unwrap();
    told!(cron(&two), tick + 2 * STEP, Claim::Over);
    run(&cron(&two), tick + 3 * STEP)
        .await
        .finish()
        .await
        .unwrap();
}

pub(super) async fn a_claim_that_waits_runs_when_the_name_is_free(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let mut tick = past(&one).await;
    for ends in ["finished", "dropped", "released"] {
        let runs = run(&cron(&one), tick).await;
        tick += STEP;
        let waits = {
            let cron = cron(&two).overlap(Overlap::Wait);
            tokio::spawn(async move { cron.claim(tick).await })
        };
        // It may ask only after the end.
        tokio::time::sleep(millis(50)).await; // so that in most cases it waits
        assert!(!waits.is_finished());
        match ends {
            "finished" => runs.finish().await.unwrap(),
            "dropped" => drop(runs),
            _ => runs.cancel().await.unwrap(),
        }
        let told = match engine.wakes() {
            true => by_message(waits).await,
            false => soon(waits).await,
        };
        match told.unwrap().unwrap() {
            Claim::Run(run) => run.finish().await.unwrap(),
            other => panic!("{ends}: {other:?}"),
        }
        assert_eq!(state(&one).await.skipped, None);
        tick += STEP;
    }
    // No message says that another lock of the name is released.
    let lease = one.mutex(NAME).ttl(LONG).acquire().await.unwrap();
    let waits = {
        let cron = cron(&two).overlap(Overlap::Wait);
        tokio::spawn(async move { cron.claim(tick).await })
    };
    lease.release().await.unwrap();
    let told = soon(waits).await.unwrap().unwrap();
    assert!(matches!(told, Claim::Run(_)), "{told:?}");
}

pub(super) async fn a_claim_that_waits_misses_its_tick_when_that_is_too_late(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let tick = past(&one).await;
    let runs = run(&cron(&one), tick).await;
    let now = state(&one).await.now;
    let waits = cron(&two).overlap(Overlap::Wait).start_within(millis(200));
    let late = match claim(&waits, now).await {
        Claim::Missed { late } => late,
        other => panic!("{other:?}"),
    };
    assert!(late > millis(200), "{late:?}");
    // It was not left out: a claim that allows more runs it.
    runs.finish().await.unwrap();
    run(&cron(&two), now).await.finish().await.unwrap();
}

pub(super) async fn only_if_that_was_asked_for_a_run_follows_one_that_crashed(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let tick = past(&one).await;
    let crashed = run(&cron(&one), tick).await;
    let fence = crashed.fence();
    drop(crashed);
    until_crashed(&two).await;
    told!(cron(&two), tick, Claim::Over);
    told!(
        cron(&two).on_crash(OnCrash::Again).start_within(millis(1)),
        tick,
        Claim::Missed { .. }
    );
    // While another lock of the name is held, the tick is not left out: it has begun.
    let lease = two.mutex(NAME).ttl(LONG).try_acquire().await.unwrap();
    told!(
        cron(&two).on_crash(OnCrash::Again),
        tick,
        Claim::Running { .. }
    );
    lease.unwrap().release().await.unwrap();
    let second = run(&cron(&two).on_crash(OnCrash::Again), tick).await;
    assert!(second.attempt() == 2 && second.fence() > fence);
    assert_eq!(state(&one).await.attempt, 2);
    // It is of no use to leave the next tick out: this one may crash once more.
    told!(cron(&one), tick + STEP, Claim::Overlap { .. });
    drop(second);
    until_crashed(&one).await;
    let third = run(&cron(&one).on_crash(OnCrash::Again), tick).await;
    assert_eq!(third.attempt(), 3);
    third.finish().await.unwrap();
    told!(cron(&two).on_crash(OnCrash::Again), tick, Claim::Over);
    // Once a later tick has begun, an earlier one is over.
    drop(run(&cron(&one), tick + 2 * STEP).await);
    until_crashed(&one).await;
    run(&cron(&two), tick + 3 * STEP)
        .await
        .finish()
        .await
        .unwrap();
    told!(
        cron(&one).on_crash(OnCrash::Again),
        tick + 2 * STEP,
        Claim::Over
    );
}

pub(super) async fn a_tick_whose_run_never_began_is_for_others(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let tick = past(&one).await;
    run(&cron(&one), tick).await.cancel().await.unwrap();
    assert_eq!(state(&two).await.latest, None);
    let second = run(&cron(&two), tick).await;
    assert_eq!(second.attempt(), 1);
    second.finish().await.unwrap();
    run(&cron(&one), tick + STEP).await.cancel().await.unwrap();
    let known = state(&two).await;
    assert_eq!(
        (known.latest, known.state),
        (Some(tick), Some(TickState::Done))
    );
}

pub(super) async fn the_run_of_a_tick_and_a_mutex_of_that_name_exclude_each_other(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let runs = run(&cron(&one), past(&one).await).await;
    assert!(two.mutex(NAME).try_acquire().await.unwrap().is_none());
    // The end is recorded, and the next in the queue gets the name, in one step.
    let next = waiter(&two, NAME, LONG);
    until_queued(&one, NAME, 1).await;
    let fence = runs.fence();
    runs.finish().await.unwrap();
    let lease = soon(next).await.unwrap().unwrap();
    assert!(lease.fence() > Some(fence));
    lease.release().await.unwrap();
}

pub(super) async fn a_broken_run_of_a_tick_counts_as_running_and_frees_its_name_when_it_never_began(
    engine: &Engine,
) {
    let [one, two] = pair(engine).await;
    let tick = past(&one).await;
    let never_began = run(&cron(&one), tick).await;
    let refuses_renewals = two.break_lease(NAME, BreakOptions::default()).await;
    assert!(refuses_renewals.unwrap().remaining.is_some());
    assert_eq!(state(&two).await.state, Some(TickState::Running));
    never_began.cancel().await.unwrap();
    let lease = two.mutex(NAME).ttl(LONG).try_acquire().await.unwrap();
    lease.expect("the name is free").release().await.unwrap();
    run(&cron(&two), tick).await.finish().await.unwrap();
}

pub(super) async fn the_run_of_a_tick_learns_that_it_was_broken(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let short = cron(&one).ttl(millis(1_000)); // so that it soon finds out
    let runs = run(&short, past(&one).await).await;
    broken(&two).await;
    soon(runs.lost()).await;
    assert!(runs.check().is_err());
    assert_eq!(state(&two).await.state, Some(TickState::Crashed));
}

pub(super) async fn a_late_end_counts_unless_another_run_has_begun(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let tick = past(&one).await;
    let at_its_end = run(&cron(&one), tick - STEP).await;
    let refuses_renewals = two.break_lease(NAME, BreakOptions::default()).await;
    refuses_renewals.unwrap();
    at_its_end.finish().await.unwrap();
    let late = run(&cron(&one), tick).await;
    broken(&two).await;
    // The work is done, whatever lock of the name has been granted since.
    let lease = two
        .mutex(NAME)
        .ttl(LONG)
        .try_acquire()
        .await
        .unwrap()
        .unwrap();
    late.finish().await.unwrap();
    lease.release().await.unwrap();
    told!(cron(&two).on_crash(OnCrash::Again), tick, Claim::Over);
    let late = run(&cron(&one), tick + STEP).await;
    broken(&two).await;
    let now = run(&cron(&two).on_crash(OnCrash::Again), tick + STEP).await;
    let stale = late.finish().await.unwrap_err();
    assert!(
        matches!(stale, CronError::Stale { latest: Some(latest), .. } if latest == tick + STEP),
        "{stale}"
    );
    assert!(now.check().is_ok());
    now.finish().await.unwrap();
}

pub(super) async fn what_a_cron_cannot_have_is_refused(engine: &Engine) {
    let [client, _] = pair(engine).await;
    let now = state(&client).await.now;
    for (wrong, right) in [
        (cron(&client).start_within(LONG * 60 * 24 * 367), "366 days"),
        (cron(&client).ttl(millis(1)), "10 ms"),
        (client.cron(""), "at least one byte"),
    ] {
        let refused = soon(wrong.claim(now)).await.unwrap_err();
        assert!(
            matches!(refused, CronError::Acquire(AcquireError::Invalid(_))),
            "{refused}"
        );
        assert!(refused.to_string().contains(right), "{refused}");
        assert_eq!(
            wrong.validate().unwrap_err().to_string(),
            refused.to_string()
        );
    }
    let epoch = SystemTime::UNIX_EPOCH;
    let far = Duration::from_secs(10_000_000_000);
    for tick in [epoch, epoch - STEP, epoch + far] {
        let refused = soon(cron(&client).claim(tick)).await.unwrap_err();
        assert!(refused.to_string().contains("from 1970"), "{refused}");
    }
    told!(cron(&client), epoch + STEP, Claim::Missed { .. });
    assert_eq!(state(&client).await.latest, None);
}
