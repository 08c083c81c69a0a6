//! W14: a free lock without a script. What plain commands in place of the acquire script could gain, alone and in batches.

use std::time::Duration;

use crate::contender::Kind;
use crate::contender::scriptless::Form;
use crate::report::{Report, Show, column};
use crate::servers::Servers;
use crate::workload::free::{Entrant, Workers, many_tasks_columns};
use crate::workload::{Effort, say};

/// What a reply takes longer than over loopback.
const DISTANCE: Duration = Duration::from_millis(1);

pub fn run(effort: &Effort, report: &mut Report) -> Result<(), String> {
    for tasks in [1, 16, 64, 256, 2048] {
        case(Servers::start()?, tasks, "", effort, report)?;
    }
    for tasks in [1, 16, 64, 256] {
        let servers = Servers::at_distance(DISTANCE)?;
        case(servers, tasks, ", replies 1 ms later", effort, report)?;
    }
    Ok(())
}

fn case(
    mut servers: Servers,
    tasks: usize,
    distance: &str,
    effort: &Effort,
    report: &mut Report,
) -> Result<(), String> {
    let (rounds, ms) = if effort.quick { (5, 100) } else { (11, 300) };
    let has_delifeq = servers.has_command("DELIFEQ")?;
    let mut kinds = vec![Kind::Raw];
    for fenced in [true, false] {
        kinds.push(form(fenced, 1, false).leaselock());
        kinds.extend([1, 16, 64].map(|at_once| Kind::Scriptless(form(fenced, at_once, false))));
        if has_delifeq {
            kinds.extend([1, 16].map(|at_once| Kind::Scriptless(form(fenced, at_once, true))));
        }
    }
    let entrants: Vec<Entrant> = kinds.into_iter().map(Entrant::plain).collect();
    let mut columns = many_tasks_columns();
    for (heading, to) in [
        ("÷ leaselock", Kind::Leaselock),
        ("÷ leaselock, unfenced", Kind::LeaselockUnfenced),
    ] {
        columns.push(column(heading, "pairs_per_s", Show::RatioTo(to.name())));
    }
    let title = format!("{tasks} tasks, each with a free name of its own{distance}");
    say(&format!("W14: {title}"));
    let mut workers = Workers::start(&servers, &entrants);
    let rounds = effort.rounds(rounds);
    let case = workers.case(&mut servers, "W14", title, columns, tasks, rounds, ms);
    report.cases.push(case);
    Ok(())
}

fn form(fenced: bool, at_once: usize, delifeq: bool) -> Form {
    Form {
        fenced,
        at_once,
        delifeq,
    }
}
