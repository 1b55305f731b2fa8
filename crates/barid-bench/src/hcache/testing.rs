//! Sample results for tests.

use super::key::{Key, System, Work};
use super::method::Method;
use super::plan::{Cell, Plan};
use super::results::{Results, Run};
use crate::lab::Figures;

/// Returns lmdb without compression and with zstd in two rounds, NeoMutt ten times as slow.
pub(crate) fn plan_and_results() -> (Plan, Results) {
    let mut plan = Plan { has_methods: true, ..Plan::default() };
    let mut results = Results { messages: 200, ..Results::default() };
    for (method, seconds) in [("none", 0.4), ("zstd", 0.6)] {
        let key = |system| Key {
            system,
            store: "lmdb".into(),
            builtin: None,
            method: Method::parse(method).expect("because it is a method"),
        };
        let (ours, theirs) = (key(System::Barid), key(System::NeoMutt));
        for round in 1..=2 {
            let ours_s = seconds * f64::from(round);
            let theirs_s = seconds * if round == 1 { 20.0 } else { 10.0 };
            for work in [Work::Populate, Work::Reload, Work::Page] {
                let page = if work == Work::Page { 0.1 } else { 1.0 };
                results.runs.push(run(round, work, &ours, ours_s * page, 1));
                if work != Work::Page {
                    results.runs.push(run(round, work, &theirs, theirs_s, 2));
                }
            }
        }
        let (neomutt, compared_with) = (Some(theirs.clone()), vec![theirs]);
        plan.cells.push(Cell { key: ours, neomutt, compared_with });
    }
    (plan, results)
}

fn run(round: u32, work: Work, key: &Key, real_s: f64, times: u64) -> Run {
    let figures = Figures {
        real_s,
        user_s: real_s / 2.0,
        sys_s: real_s / 4.0,
        maxrss_bytes: 2_048_000 * if times == 1 { 1 } else { 3 },
        minor_faults: 10,
        major_faults: 1,
        fs_outputs: 7,
        index_bytes: 102_400 * times,
        ..Figures::default()
    };
    Run { round, side: key.clone(), step: work, figures }
}
