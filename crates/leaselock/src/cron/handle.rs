//! The handle of a schedule's ticks.

use std::time::Duration;

use super::calls::{AskedTick, CRON, CronTerms, InspectTicks};
use super::error::CronError;
use super::state::{CronState, Overlap};
use crate::base::{Clock, InvalidInput, span};
use crate::client::{Client, named::Named};
use crate::engine::services::ids::Serving;
use crate::engine::shared_state::noun::name_and_validate;
use crate::engine::shared_state::recorded_run::{OnCrash, run_setters};
use crate::engine::values::kind::Resource;
use crate::engine::ways::begin_run::RunTerms;

/// How long after its time a tick may begin by default.
const LATE: Duration = Duration::from_secs(60);
/// The shortest lateness of a schedule, which asks for each tick after its time.
const LATE_MIN: Duration = Duration::from_secs(1);
/// The longest lateness.
pub const LATE_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The ticks of a schedule, which several hosts share: each tick is run by one of them.
///
/// A tick is known by its instant and by nothing else. It belongs to the first host that [claims](Cron::claim) it when it
/// is due by the store's clock, so clocks of hosts do not matter. The run holds the [`Mutex`](crate::Mutex) of that name,
/// which is renewed; the record of the ticks lies beside it.
///
/// The store remembers the latest tick that has begun, for 400 days: even a yearly schedule is known from one tick to the
/// next. An older tick is over, also when the store's clock goes back. The store ignores a record that is more than 24
/// hours ahead of its clock, because the clock was wrong then.
///
/// Not on a majority of servers, which vote on a holder and not on a record.
///
/// # Examples
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use leaselock::cron::Claim;
///
/// # async fn write_report() {}
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leaselock::Client::open("mem:")?;
/// let hourly = client.cron("report").start_within(Duration::from_secs(3600));
/// let hours = SystemTime::UNIX_EPOCH.elapsed()?.as_secs() / 3600;
/// let tick = SystemTime::UNIX_EPOCH + Duration::from_secs(hours * 3600);
/// if let Claim::Run(run) = hourly.claim(tick).await? {
///     write_report().await;
///     run.finish().await?;
/// }
/// assert!(matches!(hourly.claim(tick).await?, Claim::Over)); // for every host
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a schedule does nothing until a tick is claimed"]
pub struct Cron {
    pub(crate) named: Named,
    /// Without the channel.
    terms: CronTerms,
}

impl Client {
    /// Returns the ticks of this name, with the client's default options. The first operation reports a bad name.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let nightly = client.cron("nightly");
    /// assert!(nightly.state().await?.latest.is_none());
    /// # Ok(()) }
    /// ```
    pub fn cron(&self, name: impl Into<String>) -> Cron {
        Cron {
            named: Named::new(&self.state, &CRON, name.into()),
            terms: CronTerms {
                late: LATE,
                on_crash: OnCrash::Refuse,
                in_order: false,
                overlap: Overlap::default(),
                schedule: None,
                channel: String::new(),
            },
        }
    }
}

impl Cron {
    run_setters!();

    /// Says in the record of this client that it runs the schedule of this name, until the result is dropped. Refuses what no
    /// claim can have.
    #[doc(hidden)]
    pub fn serve(&self) -> Result<Serving, InvalidInput> {
        self.terms()?;
        let engine = &self.named.state.engine;
        let serving = engine.ids.record.serve(self.named.name()?);
        // A thread that does not start fails the first claim, which says so.
        if engine.background().is_ok() {
            engine.announce();
        }
        Ok(serving)
    }

    /// Requires that `count` replicas confirm a claim within `timeout`, as [`Mutex::min_replicas`](crate::Mutex::min_replicas).
    ///
    /// Otherwise the claim is taken back, as if the tick had never begun, and the error is
    /// [`TooFewReplicas`](crate::AcquireError::TooFewReplicas). A failover that loses a record may have the latest ticks
    /// run again; this makes it less likely, and does not rule it out.
    pub fn min_replicas(mut self, count: u32, timeout: Duration) -> Self {
        self.named.options = self.named.options.min_replicas(count, timeout);
        self
    }

    /// Sets how long after its time a tick may begin, by the store's clock: 60 s by default, at most 366 days.
    ///
    /// The runs of a schedule need at least 1 s, because they claim each tick a moment after its time.
    /// A host that catches up with ticks of the past claims them with a longer time, and with [`Overlap::Wait`]: the run
    /// of one must not leave out the next.
    pub fn start_within(mut self, late: Duration) -> Self {
        self.terms.late = late;
        self
    }

    /// Sets whether another host runs a tick whose run did not finish: [`OnCrash::Refuse`] by default.
    ///
    /// A tick is run at most once then. With [`OnCrash::Again`] a run follows one that crashed, as long as the tick may
    /// still [start](Cron::start_within) and no later tick has begun. The hosts of a schedule begin no later tick before that run. Another
    /// caller learns of the crash when it claims the tick again, after the `rest` of
    /// [`Claim::Running`](crate::cron::Claim::Running).
    pub fn on_crash(mut self, then: OnCrash) -> Self {
        self.terms.on_crash = then;
        self
    }

    /// Sets what becomes of a tick that is due while the name is held: [`Overlap::Skip`] by default.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.terms.overlap = overlap;
        self
    }

    name_and_validate!(named, terms, "name", ": the name or an option.");

    /// Refuses what no claim can have, and a schedule of which no tick would ever run. Returns what every claim says of it.
    pub(super) fn terms(&self) -> Result<(Resource, CronTerms), InvalidInput> {
        let (late, shown) = (self.terms.late, span(self.terms.late));
        let wrong = if late > LATE_MAX {
            format!("a tick may begin at most 366 days late, and not {shown}")
        } else if self.terms.schedule.is_some() && late < LATE_MIN {
            format!(
                "a run begins a moment after its time, so a start within {shown} would leave out each tick of the schedule: at \
                 least 1 s"
            )
        } else {
            let (resource, channel) = self.named.of_run(AskedTick::NOUN)?;
            let terms = self.terms.clone();
            return Ok((resource, CronTerms { channel, ..terms }));
        };
        Err(InvalidInput::new(wrong))
    }

    /// Returns what the store knows of the ticks: what a service that starts needs to catch up, and a monitor to report. One
    /// request of two seconds at most.
    ///
    /// # Errors
    /// [`CronError::Acquire`] for a bad name or option, [`CronError::Store`] when the store did not reply.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let state = client.cron("nightly").state().await?;
    /// match state.known_until() {
    ///     Some(tick) => println!("catch up with ticks after {tick:?}"),
    ///     None => println!("first start: nothing of the past"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn state(&self) -> Result<CronState, CronError> {
        let (resource, _) = &self.terms()?;
        self.named.request(&InspectTicks { resource }).await
    }
}

/// For the schedules of `leaselock-cron`.
#[doc(hidden)]
impl Cron {
    /// Returns how long after its time a tick may begin.
    pub fn lateness(&self) -> Duration {
        self.terms.late
    }

    /// Sets what operators are shown of the schedule: its zone and expression, and the lateness that is set by now.
    pub fn described(mut self, schedule: &str) -> Self {
        let text = format!("{} {schedule}", self.terms.late.as_micros());
        self.terms.schedule = Some(text.into());
        self
    }

    /// Returns whether a tick whose run did not finish is run by another host.
    pub fn runs_again(&self) -> bool {
        self.terms.on_crash == OnCrash::Again
    }

    /// Sets whether such a tick comes before those after it, or when it is claimed.
    pub fn in_order(mut self, in_order: bool) -> Self {
        self.terms.in_order = in_order;
        self
    }

    /// Returns how long a claim may wait for replicas.
    pub fn wait_for_replicas(&self) -> Duration {
        let copies = self.named.options.copies;
        copies.map(|copies| copies.within).unwrap_or_default()
    }

    pub fn clock(&self) -> &Clock {
        &self.named.state.engine.clock
    }
}
