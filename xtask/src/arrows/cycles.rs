//! Circles in a directed graph.

use std::collections::{BTreeSet, VecDeque};

/// The sets of nodes that reach each other (Tarjan 1972), those of more than one node.
pub(super) fn circles(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut search = Search {
        edges,
        index: vec![None; edges.len()],
        low: vec![0; edges.len()],
        stack: Vec::new(),
        count: 0,
        found: Vec::new(),
    };
    for node in 0..edges.len() {
        if search.index[node].is_none() {
            search.visit(node);
        }
    }
    search.found
}

struct Search<'a> {
    edges: &'a [Vec<usize>],
    index: Vec<Option<usize>>,
    low: Vec<usize>,
    stack: Vec<usize>,
    count: usize,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn visit(&mut self, node: usize) {
        self.index[node] = Some(self.count);
        self.low[node] = self.count;
        self.count += 1;
        self.stack.push(node);
        for &next in &self.edges[node] {
            match self.index[next] {
                None => {
                    self.visit(next);
                    self.low[node] = self.low[node].min(self.low[next]);
                }
                Some(index) if self.stack.contains(&next) => {
                    self.low[node] = self.low[node].min(index);
                }
                Some(_) => {}
            }
        }
        if self.index[node] != Some(self.low[node]) {
            return;
        }
        let from = self.stack.iter().position(|on| *on == node);
        let mut circle = self.stack.split_off(from.unwrap_or_default());
        if circle.len() > 1 {
            circle.sort_unstable();
            self.found.push(circle);
        }
    }
}

/// The shortest way from a node of the circle back to itself, beginning and ending with it.
pub(super) fn shortest_loop(edges: &[Vec<usize>], circle: &[usize]) -> Vec<usize> {
    let inside: BTreeSet<usize> = circle.iter().copied().collect();
    let loops = circle.iter().map(|start| loop_from(edges, &inside, *start));
    loops.min_by_key(Vec::len).unwrap_or_default()
}

fn loop_from(edges: &[Vec<usize>], inside: &BTreeSet<usize>, start: usize) -> Vec<usize> {
    let mut before = vec![None; edges.len()];
    let mut next = VecDeque::from([start]);
    while let Some(node) = next.pop_front() {
        for &to in edges[node].iter().filter(|to| inside.contains(to)) {
            if to == start {
                let mut way = vec![start, node];
                let mut at = node;
                while let Some(previous) = before[at] {
                    way.push(previous);
                    at = previous;
                }
                way.reverse();
                return way;
            }
            if before[to].is_none() {
                before[to] = Some(node);
                next.push_back(to);
            }
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_and_chains_are_not() {
        let edges = [vec![1], vec![2, 4], vec![0, 3], vec![], vec![5], vec![4]];
        let mut found = circles(&edges);
        found.sort();
        assert_eq!(found, [vec![0, 1, 2], vec![4, 5]]);
        assert_eq!(shortest_loop(&edges, &[4, 5]), [4, 5, 4]);
        assert_eq!(shortest_loop(&edges, &[0, 1, 2]).len(), 4);
    }

    #[test]
    fn the_shortest_loop_of_a_large_circle_is_the_one_that_is_shown() {
        let edges = [vec![1], vec![2], vec![3, 1], vec![0]];
        assert_eq!(circles(&edges), [vec![0, 1, 2, 3]]);
        assert_eq!(shortest_loop(&edges, &[0, 1, 2, 3]), [1, 2, 1]);
    }
}
