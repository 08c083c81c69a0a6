//! The results, for people and for programs.

use serde_json::json;

/// Which of the workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Free { tasks: u16 },
    HandOver { waiters: u16 },
}

/// The figures of one workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Figures {
    what: What,
    count: u64,
    per_second: u64,
    p50_us: u64,
    p99_us: u64,
}

impl Figures {
    /// From how long each operation took, and all of them together, in nanoseconds.
    pub(super) fn new(what: What, mut took: Vec<u64>, elapsed: u64) -> Figures {
        took.sort_unstable();
        let count = u64::try_from(took.len()).unwrap_or(u64::MAX);
        Figures {
            what,
            count,
            per_second: count.saturating_mul(1_000_000_000) / elapsed.max(1),
            p50_us: percentile(&took, 50) / 1000,
            p99_us: percentile(&took, 99) / 1000,
        }
    }

    fn label(&self) -> String {
        match self.what {
            What::Free { tasks: 1 } => "free lock, 1 task".to_owned(),
            What::Free { tasks } => format!("free locks, {tasks} tasks"),
            What::HandOver { waiters } => format!("hand-over, {waiters} waiters"),
        }
    }

    fn object(&self) -> String {
        let (what, at_once) = match self.what {
            What::Free { tasks } => ("free", tasks),
            What::HandOver { waiters } => ("hand-over", waiters),
        };
        let (p50_us, p99_us) = (self.p50_us, self.p99_us);
        json!({
            "measured": what,
            "at_once": at_once,
            "count": self.count,
            "per_second": self.per_second,
            "p50_us": p50_us,
            "p99_us": p99_us,
        })
        .to_string()
    }
}

/// All of it: a table, or one object a line.
pub(super) fn text(all: &[Figures], as_json: bool) -> String {
    if as_json {
        return all
            .iter()
            .map(|figures| format!("{}\n", figures.object()))
            .collect();
    }
    let row = |a: &str, b: &str, c: &str, d: &str| format!("{a:24}{b:>10}{c:>10}{d:>10}\n");
    let mut text = row("", "a second", "p50 µs", "p99 µs");
    for one in all {
        text += &row(
            &one.label(),
            &one.per_second.to_string(),
            &one.p50_us.to_string(),
            &one.p99_us.to_string(),
        );
    }
    text += "free: to take a lock and give it back; hand-over: from one holder to the next\n";
    text
}

/// The value that `percent` of all do not exceed; 0 if there is none.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let index = sorted.len().saturating_sub(1) * percent / 100;
    sorted.get(index).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_per_second_and_in_microseconds() {
        let took = (1..=101).map(|ms| ms * 1_000_000).collect();
        let figures = Figures::new(What::Free { tasks: 1 }, took, 2_000_000_000);
        assert_eq!((figures.count, figures.per_second), (101, 50));
        assert_eq!((figures.p50_us, figures.p99_us), (51_000, 100_000));
    }

    #[test]
    fn a_store_that_did_nothing_is_no_error_of_arithmetic() {
        let figures = Figures::new(What::HandOver { waiters: 2 }, Vec::new(), 0);
        assert_eq!((figures.per_second, figures.p99_us), (0, 0));
    }

    #[test]
    fn the_columns_of_the_table_stand_below_each_other() {
        let figures = Figures::new(What::Free { tasks: 256 }, vec![5_000_000], 1_000_000_000);
        let table = text(&[figures], false);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].ends_with("    p99 µs") && lines[1].ends_with("      5000"));
        assert_eq!(lines[0].chars().count(), lines[1].chars().count());
    }
}
