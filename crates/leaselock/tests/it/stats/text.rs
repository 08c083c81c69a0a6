//! The text format of Prometheus, read with every rule of it.

use std::collections::BTreeMap;

/// promtool warns of names that repeat a type. Here the noun is what is counted.
const OF_COUNTERS: &str =
    "leaselock_counter_changes_total metric name should not include type 'counter'";

/// Samples by their whole series, after every rule of the format was checked, also by Prometheus where it is there.
pub(super) fn parsed(text: &str) -> BTreeMap<String, String> {
    let (mut samples, mut types) = (BTreeMap::new(), BTreeMap::new());
    let mut helped = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let name = rest.split(' ').next().unwrap().to_owned();
            assert!(!helped.contains(&name), "{name} has HELP twice");
            helped.push(name);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(helped.last().map(String::as_str), Some(name));
            assert_eq!(types.insert(name.to_owned(), kind.to_owned()), None);
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().unwrap();
            let name = series.split('{').next().unwrap();
            let current = helped.last().unwrap();
            let of_histogram = types[current] == "histogram";
            let base = if of_histogram {
                let ends = ["_bucket", "_sum", "_count"];
                ends.iter().find_map(|end| name.strip_suffix(end)).unwrap()
            } else {
                name
            };
            assert_eq!(base, current, "a sample stands below its own TYPE");
            labels(series);
            let before = samples.insert(series.to_owned(), value.to_owned());
            assert_eq!(before, None, "{series} occurs twice");
        }
    }
    assert!(text.ends_with('\n'));
    testkit::promtool::accepts(text, &[OF_COUNTERS]);
    let mut last: Option<(String, u64)> = None;
    for line in text.lines().filter(|line| line.contains("_bucket{")) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (by, bound) = series.rsplit_once("le=\"").unwrap(); // a histogram may have no other label
        let count = value.parse().unwrap();
        match &last {
            Some((before, least)) if before == by => assert!(count >= *least, "{line}"),
            _ => {}
        }
        if bound == "+Inf\"}" {
            let all = match by.strip_suffix("_bucket{") {
                Some(name) => format!("{name}_count"),
                None => format!(
                    "{}}}",
                    by.trim_end_matches(',').replacen("_bucket{", "_count{", 1)
                ),
            };
            assert_eq!(samples[&all], value, "+Inf counts all");
        }
        last = Some((by.to_owned(), count));
    }
    samples
}

/// Reads the labels of a series as Prometheus does.
pub(super) fn labels(series: &str) -> BTreeMap<String, String> {
    let mut read = BTreeMap::new();
    let Some((_, rest)) = series.split_once('{') else {
        return read;
    };
    let mut rest = rest;
    loop {
        let (name, value) = rest.split_once("=\"").unwrap();
        let mut chars = value.char_indices();
        let mut text = String::new();
        let end = loop {
            match chars.next().unwrap() {
                (at, '"') => break at,
                (_, '\\') => text.push(match chars.next().unwrap().1 {
                    'n' => '\n',
                    same @ ('\\' | '"') => same,
                    other => panic!("\\{other} is no escape"),
                }),
                (_, other) => text.push(other),
            }
        };
        assert_eq!(read.insert(name.to_owned(), text), None);
        match &value[end + 1..] {
            "}" => return read,
            more => rest = more.strip_prefix(',').unwrap(),
        }
    }
}
