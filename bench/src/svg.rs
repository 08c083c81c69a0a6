//! Charts of a run, as hand-written SVG that is readable on a light and on a dark page.
//!
//! They are drawn from the JSON of a run, whether it was measured just now or is kept in a file, so that a chart can be
//! drawn again without measuring and none can differ from its figures.

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use crate::contender::text;
use crate::figures::Spread;

/// One chart: a metric of one case, a bar for each contender.
struct Chart {
    file: &'static str,
    workload: &'static str,
    /// What the case's title is.
    case: &'static str,
    metric: &'static str,
    heading: &'static str,
    /// What the bars mean, and which way is better.
    caption: &'static str,
    digits: usize,
    smaller_is_better: bool,
}

const CHARTS: [Chart; 2] = [
    Chart {
        file: "fairness.svg",
        workload: "W3",
        case: "16 waiters, 4 processes, hold 1 ms, greedy",
        metric: "longest_wait",
        heading: "Fairness: the longest wait ÷ the mean wait",
        caption: "16 waiters in 4 processes want one lock. Shorter is better; 1 means that all wait equally long.",
        digits: 2,
        smaller_is_better: true,
    },
    Chart {
        file: "throughput.svg",
        workload: "W2",
        case: "256 tasks, each with a name of its own, one client",
        metric: "pairs_per_s",
        heading: "Throughput: acquire + release pairs a second",
        caption: "256 tasks, each with a lock of its own, through one client. Longer is better; raw is SET NX PX and EVALSHA.",
        digits: 0,
        smaller_is_better: false,
    },
];

/// Not contenders to compare with: parts of leaselock by hand, a queue that is not safe, another build of leaselock.
const LEFT_OUT: [&str; 4] = ["by hand", "by hand, unfenced", "raw-queue", "before"];

/// Draws every chart into the folder. An error when the run lacks a chart's case.
pub fn draw(run: &Value, folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(text)?;
    for chart in &CHARTS {
        let svg = chart.draw(run)?;
        std::fs::write(folder.join(chart.file), svg).map_err(text)?;
    }
    Ok(())
}

impl Chart {
    fn draw(&self, run: &Value) -> Result<String, String> {
        let bars = self.bars(run)?;
        Ok(picture(self, &bars, &environment(run)))
    }

    /// Names with their medians, the best first.
    fn bars(&self, run: &Value) -> Result<Vec<(String, f64)>, String> {
        let missing = || {
            format!(
                "the run lacks {} · {}, which {} shows",
                self.workload, self.case, self.file
            )
        };
        let cases = run["cases"].as_array().ok_or_else(missing)?;
        let case = cases
            .iter()
            .find(|case| case["workload"] == self.workload && case["title"] == self.case);
        let results = case
            .and_then(|case| case["results"].as_array())
            .ok_or_else(missing)?;
        let mut bars: Vec<(String, f64)> = results
            .iter()
            .filter_map(|result| {
                Some((result["contender"].as_str()?, result["rounds"].as_array()?))
            })
            .filter(|(name, _)| !LEFT_OUT.contains(name))
            .filter_map(|(name, rounds)| {
                let values = rounds
                    .iter()
                    .filter_map(|round| round[self.metric].as_f64());
                Some((name.to_owned(), Spread::of(values)?.median))
            })
            .collect();
        bars.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        if self.smaller_is_better {
            bars.reverse();
        }
        if bars.is_empty() {
            Err(missing())
        } else {
            Ok(bars)
        }
    }
}

/// Where it was measured, in one line.
fn environment(run: &Value) -> String {
    let parts = ["server", "cores", "processor", "Linux"].map(|name| {
        let value = run["environment"][name].as_str().unwrap_or("?");
        match name {
            "cores" => format!("{value} cores"),
            "Linux" => format!("Linux {value}"),
            _ => value.to_owned(),
        }
    });
    parts.join(" · ")
}

const WIDTH: usize = 720;
const BARS_FROM: usize = 170;
const BARS_TO: usize = 620;
const TOP: usize = 66;
const ROW: usize = 26;

/// Colours that have enough contrast on their ground; the second set is for dark pages.
const STYLE: &str = "text { font: 13px system-ui, sans-serif; fill: #1f2328 } \
.heading { font-size: 16px; font-weight: 600 } .small { font-size: 12px; fill: #59636e } \
.ours { fill: #0969da } .other { fill: #8c959f } \
@media (prefers-color-scheme: dark) { text { fill: #f0f6fc } .small { fill: #9198a1 } \
.ours { fill: #4493f8 } .other { fill: #656c76 } }";

fn picture(chart: &Chart, bars: &[(String, f64)], environment: &str) -> String {
    let height = TOP + ROW * bars.len() + 34;
    let longest = bars.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\n\
         <style>{STYLE}</style>\n\
         <text class=\"heading\" x=\"16\" y=\"26\">{}</text>\n\
         <text class=\"small\" x=\"16\" y=\"46\">{}</text>\n",
        escaped(chart.heading),
        escaped(chart.heading),
        escaped(chart.caption),
    );
    for (row, (name, value)) in bars.iter().enumerate() {
        let y = TOP + ROW * row;
        let length = (value / longest * (BARS_TO - BARS_FROM) as f64).max(2.0);
        let class = if name.starts_with("leaselock") {
            "ours"
        } else {
            "other"
        };
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{class}\" x=\"{BARS_FROM}\" y=\"{y}\" width=\"{length:.0}\" height=\"18\" rx=\"2\"/>\
             <text x=\"{:.0}\" y=\"{}\">{}</text>",
            BARS_FROM - 10,
            y + 14,
            escaped(name),
            BARS_FROM as f64 + length + 8.0,
            y + 14,
            number(*value, chart.digits),
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"small\" x=\"16\" y=\"{}\">{}</text>\n</svg>",
        height - 12,
        escaped(environment)
    );
    svg
}

/// With narrow spaces between thousands.
fn number(value: f64, digits: usize) -> String {
    let plain = format!("{value:.digits$}");
    let (whole, rest) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped + rest
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run() -> Value {
        let result = |name: &str, values: [f64; 3]| {
            let rounds =
                values.map(|value| json!({ "longest_wait": value, "pairs_per_s": value * 1000.0 }));
            json!({ "contender": name, "rounds": rounds })
        };
        let cases = CHARTS.map(|chart| {
            let results = [
                result("slow & <old>", [90.0, 94.0, 99.0]),
                result("leaselock", [1.0, 1.06, 1.1]),
                result("raw-queue", [1.0, 1.0, 1.0]),
            ];
            json!({ "workload": chart.workload, "title": chart.case, "results": results })
        });
        json!({ "environment": { "server": "Redis 7", "cores": "2" }, "cases": cases })
    }

    #[test]
    fn the_best_comes_first_and_the_median_is_shown() {
        let bars = CHARTS[0].bars(&run()).unwrap();
        assert_eq!(
            bars,
            [
                ("leaselock".to_owned(), 1.06),
                ("slow & <old>".to_owned(), 94.0)
            ]
        );
        let bars = CHARTS[1].bars(&run()).unwrap();
        assert_eq!(bars[0], ("slow & <old>".to_owned(), 94_000.0));
    }

    #[test]
    fn a_picture_names_contenders_figures_and_the_machine() {
        let svg = CHARTS[1].draw(&run()).unwrap();
        for part in [
            "slow &amp; &lt;old>",
            "94\u{202f}000",
            "1\u{202f}060",
            "Redis 7 · 2 cores",
            "prefers-color-scheme",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(!svg.contains("raw-queue"));
    }

    #[test]
    fn a_run_without_the_case_of_a_chart_is_refused_by_name() {
        let why = CHARTS[0].draw(&json!({ "cases": [] })).unwrap_err();
        assert!(
            why.contains("W3 · 16 waiters") && why.contains("fairness.svg"),
            "{why}"
        );
    }

    #[test]
    fn the_charts_in_docs_are_those_of_the_run_in_docs() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/img");
        let kept = std::fs::read_to_string(folder.join("run.json")).unwrap();
        let run = serde_json::from_str(&kept).unwrap();
        for chart in &CHARTS {
            let drawn = std::fs::read_to_string(folder.join(chart.file)).unwrap();
            assert_eq!(drawn, chart.draw(&run).unwrap(), "{}", chart.file);
        }
    }
}
