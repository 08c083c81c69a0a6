//! The text that Prometheus reads, and the table of metrics, which the page *Metrics* prints.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Result, Write};

use super::stats::{Distribution, KindStats, Stats};

/// A name, what it says, and its values.
struct Metric(&'static str, &'static str, Values);

/// Where the values of a metric are.
enum Values {
    /// Counters by kind, class and a label of this name.
    Labelled(&'static str, fn(&KindStats) -> &BTreeMap<&'static str, u64>),
    Gauge(fn(&KindStats) -> Option<u64>),
    Histogram(fn(&KindStats) -> &Distribution),
    /// Without labels.
    OneHistogram(fn(&Stats) -> &Distribution),
    OfClient(fn(&Stats) -> u64),
    /// A gauge of the client.
    Now(fn(&Stats) -> u64),
    /// Counters by a label of this name.
    Outcomes(&'static str, fn(&Stats) -> &BTreeMap<&'static str, u64>),
    Requests,
    RequestTimes,
    Servers,
    Version,
}
use Values::*;

/// A name and where its values are, and what it says.
macro_rules! metrics {
    ($($name:ident = $values:expr, $help:literal;)+) => {
        const METRICS: &[Metric] = &[$(Metric(stringify!($name), $help, $values)),+];
    };
}

metrics! {
    leaselock_acquires_total = Labelled("outcome", |kind| &kind.acquires),
        "Acquisitions that have ended.";
    leaselock_acquire_wait_seconds = Histogram(|kind| &kind.waits),
        "How long granted acquisitions took.";
    leaselock_hold_seconds = Histogram(|kind| &kind.holds),
        "How long leases were held that have ended.";
    leaselock_leases_held = Gauge(|kind| Some(kind.held)),
        "Leases that are held.";
    leaselock_permits_in_use = Gauge(|kind| (kind.kind == "permits").then_some(kind.permits)),
        "Permits that leases hold.";
    leaselock_tasks_waiting = Gauge(|kind| Some(kind.waiting)),
        "Acquisitions that have not ended.";
    leaselock_losses_total = Labelled("reason", |kind| &kind.losses),
        "Leases that ended against their holder's will.";
    leaselock_releases_total = Labelled("outcome", |kind| &kind.releases),
        "Releases that a caller awaited.";
    leaselock_renewals_total = Labelled("outcome", |kind| &kind.renewals),
        "Renewals.";
    leaselock_renewal_headroom_ratio = Histogram(|kind| &kind.headroom),
        "The share of the granted time that was left when a renewal was confirmed.";
    leaselock_once_total = Outcomes("outcome", |stats| &stats.runs),
        "What callers of work that runs once were told.";
    leaselock_ticks_total = Outcomes("outcome", |stats| &stats.ticks),
        "What became of the ticks that this client claimed.";
    leaselock_tick_delay_seconds = OneHistogram(|stats| &stats.tick_delays),
        "How long after their time ticks were begun.";
    leaselock_limiter_permits_total = Outcomes("outcome", |stats| &stats.limiter_permits),
        "Permits that callers asked of limiters.";
    leaselock_counter_changes_total = Outcomes("outcome", |stats| &stats.counter_changes),
        "Changes of counters whose callers awaited the reply.";
    leaselock_arrivals_total = Outcomes("kind", |stats| &stats.arrivals),
        "Arrivals at latches and barriers.";
    leaselock_barrier_generations_total = OfClient(|stats| stats.barrier_generations),
        "Generations of barriers that have passed.";
    leaselock_requests_total = Requests,
        "Requests to the store that have ended.";
    leaselock_request_seconds = RequestTimes,
        "How long requests to the store took.";
    leaselock_connected = Servers,
        "1 if the latest attempt to connect worked, else 0.";
    leaselock_clock_jumps_total = OfClient(|stats| stats.clock_jumps),
        "Jumps of the store's clock against that of this machine.";
    leaselock_quarantines_total = OfClient(|stats| stats.quarantines),
        "Quarantines of strict mode that this client met.";
    leaselock_cleanups_pending = Now(|stats| stats.cleanups_pending),
        "What the client still has to undo at the store.";
    leaselock_build_info = Version,
        "1, with the version of the library.";
}

impl Metric {
    fn kind(&self) -> &'static str {
        match self.2 {
            Labelled(..) | OfClient(_) | Outcomes(..) | Requests => "counter",
            Gauge(_) | Now(_) | Servers | Version => "gauge",
            Histogram(_) | OneHistogram(_) | RequestTimes => "histogram",
        }
    }

    fn write(&self, stats: &Stats, out: &mut String) -> Result {
        let Metric(name, help, values) = self;
        writeln!(out, "# HELP {name} {help}")?;
        writeln!(out, "# TYPE {name} {}", self.kind())?;
        match values {
            OfClient(value) | Now(value) => writeln!(out, "{name} {}", value(stats))?,
            Version => writeln!(out, "{name}{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"))?,
            Outcomes(label, of) => {
                for (value, count) in of(stats) {
                    writeln!(out, "{name}{{{label}=\"{value}\"}} {count}")?;
                }
            }
            Labelled(label, of) => {
                for kind in &stats.kinds {
                    let by = labels(kind);
                    for (value, count) in of(kind) {
                        writeln!(out, "{name}{{{by},{label}=\"{value}\"}} {count}")?;
                    }
                }
            }
            Gauge(of) => {
                for kind in &stats.kinds {
                    if let Some(value) = of(kind) {
                        writeln!(out, "{name}{{{}}} {value}", labels(kind))?;
                    }
                }
            }
            Servers => {
                for (server, is_connected) in &stats.connected {
                    let (server, value) = (escaped(server), u8::from(*is_connected));
                    writeln!(out, "{name}{{server=\"{server}\"}} {value}")?;
                }
            }
            Requests => {
                for (op, ends) in &stats.requests {
                    for (value, count) in ends {
                        writeln!(out, "{name}{{op=\"{op}\",outcome=\"{value}\"}} {count}")?;
                    }
                }
            }
            Histogram(of) => {
                for kind in &stats.kinds {
                    of(kind).write(name, &format!("{},", labels(kind)), out)?;
                }
            }
            RequestTimes => {
                for (op, times) in &stats.request_times {
                    times.write(name, &format!("op=\"{op}\","), out)?;
                }
            }
            OneHistogram(of) => of(stats).write(name, "", out)?,
        }
        Ok(())
    }
}

impl Distribution {
    /// `by`: its labels, and the comma behind each.
    fn write(&self, name: &str, by: &str, out: &mut String) -> Result {
        for (le, count) in &self.buckets {
            let le = Millionths(*le);
            writeln!(out, "{name}_bucket{{{by}le=\"{le}\"}} {count}")?;
        }
        let (sum, count) = (Millionths(self.sum), self.count);
        writeln!(out, "{name}_bucket{{{by}le=\"+Inf\"}} {count}")?;
        let all = by
            .strip_suffix(',')
            .map_or_else(String::new, |by| format!("{{{by}}}"));
        writeln!(out, "{name}_sum{all} {sum}\n{name}_count{all} {count}")
    }
}

impl Stats {
    /// Writes them in the text format of Prometheus, version 0.0.4, behind what `out` has.
    ///
    /// A text may name each metric once: with several clients, add their statistics first.
    ///
    /// # Examples
    /// ```
    /// # let client = leaselock::Client::open("mem:")?;
    /// let mut text = String::new();
    /// client.stats().prometheus(&mut text); // for `text/plain; version=0.0.4`
    /// assert!(text.contains("leaselock_clock_jumps_total 0"));
    /// # Ok::<_, leaselock::error::InvalidInput>(())
    /// ```
    pub fn prometheus(&self, out: &mut String) {
        for metric in METRICS {
            metric.write(self, out).ok(); // a string takes whatever is written
        }
    }
}

/// Returns the labels that every metric of locks has.
fn labels(kind: &KindStats) -> String {
    let class = escaped(&kind.class);
    format!("kind=\"{}\",class=\"{class}\"", kind.kind)
}

fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

/// A number of millionths, as a decimal fraction without zeros at its end.
struct Millionths(u64);

impl Display for Millionths {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (whole, rest) = (self.0 / 1_000_000, self.0 % 1_000_000);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{rest:06}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/metrics.md");

    /// The metrics that the layer of fence checks writes, each with its type, labels and help.
    fn of_layer() -> Vec<[String; 4]> {
        let layer = leaselock_tower::FenceLayer::new(|_: &http::request::Parts| None);
        let mut text = String::new();
        layer.stats().prometheus(&mut text);
        let of_metric = |metric: &str| {
            let (name, rest) = metric.split_once(' ')?;
            let (help, rest) = rest.split_once('\n')?;
            let (kind, rest) = rest
                .strip_prefix(&format!("# TYPE {name} "))?
                .split_once('\n')?;
            let labels = rest.strip_prefix(&format!("{name}{{"))?.split_once('=')?.0;
            Some([name, kind, &format!("`{labels}`"), help].map(str::to_owned))
        };
        let metrics = text.split("# HELP ").skip(1);
        metrics
            .map(|metric| of_metric(metric).expect(metric))
            .collect()
    }

    fn is_written(name: &str) -> bool {
        METRICS.iter().any(|metric| metric.0 == name)
            || of_layer().iter().any(|[of_layer, ..]| of_layer == name)
    }

    #[test]
    fn the_page_prints_the_table_of_metrics() {
        let row = |metric: &Metric| {
            let labels = match metric.2 {
                Labelled(label, _) => format!("`kind`, `class`, `{label}`"),
                Gauge(_) | Histogram(_) => "`kind`, `class`".to_owned(),
                Now(_) | OfClient(_) | OneHistogram(_) => String::new(),
                Outcomes(label, _) => format!("`{label}`"),
                Requests => "`op`, `outcome`".to_owned(),
                RequestTimes => "`op`".to_owned(),
                Servers => "`server`".to_owned(),
                Version => "`version`".to_owned(),
            };
            [metric.0, metric.kind(), &labels, metric.1].map(str::to_owned)
        };
        let printed = |[name, kind, labels, help]: [String; 4]| {
            let row = format!("| `{name}` | {kind} | {labels} | {help} |");
            row.replace("|  |", "| |")
        };
        let all = METRICS.iter().map(row).chain(of_layer());
        let rows: Vec<String> = all.map(printed).collect();
        let printed = PAGE
            .lines()
            .filter(|line| line.starts_with("| `leaselock_"));
        let printed: Vec<&str> = printed.collect();
        assert_eq!(printed, rows, "the page needs:\n{}", rows.join("\n"));
    }

    #[test]
    fn whole_millionths_are_written_as_fractions() {
        let written = [0, 1, 1_000, 2_500_000, 7_200_000_000].map(|it| Millionths(it).to_string());
        assert_eq!(written, ["0", "0.000001", "0.001", "2.5", "7200"]);
    }

    #[test]
    fn every_alert_has_a_row_and_names_metrics_that_are_written() {
        const RULES: &str = include_str!("../../../../ops/prometheus/leaselock.rules.yml");
        let alert = |line: &str| Some(format!("| `{}` |", line.trim().strip_prefix("- alert: ")?));
        let alerts: Vec<String> = RULES.lines().filter_map(alert).collect();
        let row = |line: &str| {
            alerts
                .iter()
                .find(|alert| line.starts_with(*alert))
                .cloned()
        };
        let rows: Vec<String> = PAGE.lines().filter_map(row).collect();
        assert_eq!(rows, alerts);
        assert!(unknown(RULES).is_empty(), "{:?}", unknown(RULES));
    }

    #[test]
    fn every_alert_has_a_test_in_which_it_fires_and_one_in_which_a_like_series_does_not() {
        const RULES: &str = include_str!("../../../../ops/prometheus/leaselock.rules.yml");
        const TESTS: &str = include_str!("../../../../ops/prometheus/leaselock.test.yml");
        let tests: Vec<(&str, &str)> = TESTS
            .split("\n  - name: \"")
            .filter_map(|test| test.split_once('"'))
            .collect();
        for rule in RULES.split("- alert: ").skip(1) {
            let (alert, rule) = rule.split_once('\n').unwrap();
            let fires = format!("'ALERTS{{alertname=\"{alert}\",alertstate=\"firing\",");
            assert!(
                tests.iter().any(|(_, test)| test.contains(&fires)),
                "{alert} has no test in which it fires"
            );
            let asks = |series: &str| rule.contains(series.split('{').next().unwrap());
            let is_near = |(name, test): &&(&str, &str)| {
                let mut series = test.split("- series: '").skip(1);
                name.starts_with(&format!("no {alert}: "))
                    && test.contains("exp_samples: []")
                    && series.any(asks)
            };
            assert!(
                tests.iter().any(|test| is_near(&test)),
                "{alert} has no test in which it does not fire"
            );
        }
    }

    /// Names of metrics in a text that no client writes, no layer and no textfile.
    fn unknown(text: &str) -> Vec<&str> {
        let names = text.split(|one: char| !one.is_alphanumeric() && one != '_');
        let names = names.filter(|name| name.starts_with("leaselock_"));
        names
            .filter(|name| !name.starts_with("leaselock_run_"))
            .filter(|name| {
                let ends = ["_bucket", "_count", ""].iter();
                let mut bases = ends.filter_map(|end| name.strip_suffix(end));
                !bases.any(is_written)
            })
            .collect()
    }

    #[test]
    fn the_dashboard_shows_every_metric_and_no_other_and_says_what_each_panel_is() {
        const DASHBOARD: &str = include_str!("../../../../ops/grafana/leaselock.json");
        assert!(unknown(DASHBOARD).is_empty(), "{:?}", unknown(DASHBOARD));
        let of_layer = of_layer().into_iter().map(|[name, ..]| name);
        let names = METRICS.iter().map(|metric| metric.0.to_owned());
        for name in names.chain(of_layer) {
            assert!(DASHBOARD.contains(&name), "{name}");
        }
        let count = |text: &str| DASHBOARD.matches(text).count();
        let panels = count("\"type\": \"timeseries\"");
        assert_eq!(count("\"unit\": "), panels);
        assert_eq!(
            count("\"description\": "),
            panels + 1,
            "and the dashboard's own"
        );
        assert_eq!(
            count("\"uid\": \"${datasource}\""),
            panels + 3,
            "no source is fixed"
        );
    }
}
