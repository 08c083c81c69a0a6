//! Circles within a folder. Here a room is a child of a folder: a file, or a folder with all that lies in it.

use std::collections::{BTreeMap, BTreeSet};

use super::cycles;
use super::tree::{Arrow, Tree};
use crate::complaint::Complaint;

/// The shortest loop of each circle within a folder. A circle of files is refused as such already.
pub(super) fn in_circles(tree: &Tree, arrows: &[Arrow]) -> Vec<Complaint> {
    let places = tree.modules.iter().flat_map(|module| {
        let levels = 0..module.path.len();
        levels.map(|level| &module.path[..level])
    });
    let places: BTreeSet<&[String]> = places.collect();
    places
        .iter()
        .flat_map(|place| circles_of(tree, arrows, place))
        .collect()
}

fn circles_of(tree: &Tree, arrows: &[Arrow], place: &[String]) -> Vec<Complaint> {
    let room_of = |at: usize| {
        let rest = tree.modules[at].path.strip_prefix(place)?;
        rest.first().map(String::as_str)
    };
    let all: BTreeSet<&str> = (0..tree.modules.len()).filter_map(room_of).collect();
    let rooms: Vec<&str> = all.into_iter().collect();
    let number: BTreeMap<&str, usize> = rooms.iter().copied().zip(0..).collect();
    let mut edges = vec![Vec::new(); rooms.len()];
    let mut by_rooms = BTreeMap::new();
    for arrow in arrows {
        let (Some(from), Some(to)) = (room_of(arrow.from), room_of(arrow.to)) else {
            continue;
        };
        let pair = (number[from], number[to]);
        if from != to && !by_rooms.contains_key(&pair) {
            edges[pair.0].push(pair.1);
            by_rooms.insert(pair, arrow);
        }
    }
    let complaint = |circle: &Vec<usize>| {
        let way = cycles::shortest_loop(&edges, circle);
        let names: Vec<&str> = way.iter().map(|at| rooms[*at]).collect();
        let steps = way.windows(2);
        let steps: Vec<&Arrow> = steps.map(|step| by_rooms[&(step[0], step[1])]).collect();
        let is_of_files = steps.windows(2).all(|pair| pair[0].to == pair[1].from);
        if is_of_files && steps.first()?.from == steps.last()?.to {
            return None;
        }
        let wrong = format!(
            "one of {} rooms of `{}/` in a circle: {}",
            circle.len(),
            place.join("/"),
            names.join(" -> ")
        );
        let first = steps.first()?;
        let right = "move what both need to a room below them";
        Some(Complaint::new(
            &tree.modules[first.from].file,
            first.line,
            wrong,
            right,
        ))
    };
    cycles::circles(&edges)
        .iter()
        .filter_map(complaint)
        .collect()
}
