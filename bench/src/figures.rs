//! Medians, spreads, fairness: arithmetic on lists of numbers.

/// The value at a share of a sorted list, 0 of an empty one.
pub fn quantile(sorted: &[u64], share: f64) -> u64 {
    let last = sorted.len().saturating_sub(1) as f64;
    sorted
        .get((last * share).round() as usize)
        .copied()
        .unwrap_or(0)
}

pub fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

/// 1 when all waiters got the same, 1/n when one got everything.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 {
        0.0
    } else {
        sum * sum / (shares.len() as f64 * squares)
    }
}

/// A median and what lies around it.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Spread {
    pub median: f64,
    /// A quarter of the rounds lie below,
    pub lower: f64,
    /// and a quarter above.
    pub upper: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// `None` of nothing.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = values
            .into_iter()
            .filter(|value| value.is_finite())
            .collect();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let position = (sorted.len() - 1) as f64 * share;
            let (below, above) = (position.floor() as usize, position.ceil() as usize);
            sorted[below] + (sorted[above] - sorted[below]) * position.fract()
        };
        (!sorted.is_empty()).then(|| Spread {
            median: at(0.5),
            lower: at(0.25),
            upper: at(0.75),
            min: at(0.0),
            max: at(1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_first_and_the_last() {
        assert_eq!(quantile(&[], 0.5), 0);
        assert_eq!(quantile(&[1, 2, 9], 0.5), 2);
        assert_eq!(
            (quantile(&[1, 2, 9], 0.0), quantile(&[1, 2, 9], 1.0)),
            (1, 9)
        );
        let spread = Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!((spread.median, spread.min, spread.max), (2.5, 1.0, 4.0));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn jain_is_one_for_equals_and_small_for_a_greedy_one() {
        assert!((jain(&[3.0, 3.0]) - 1.0).abs() < 1e-9);
        assert!((jain(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-9);
    }
}
