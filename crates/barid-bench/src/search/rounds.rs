//! The rounds: building, the check of all answers, queries, deliveries. Sides take turns.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use barid_testkit::usage::Sampling;

use super::material::Material;
use super::query::{Query, draw};
use super::results::{Recall, Results, Run};
use super::step::{Side, Step};
use super::system::System;
use super::truth::{Difference, Truth};
use crate::lab::{Figures, Progress, settle, stoppable};
use crate::limits::DELIVERY_PAIRS;

/// The programs and how to run them.
pub(crate) struct Rounds<'a> {
    pub(crate) systems: Vec<Box<dyn System>>,
    /// The folder for all files.
    pub(crate) folder: PathBuf,
    /// Number of queries, and how many of each class in each field every side is asked.
    pub(crate) queries: (usize, usize),
    pub(crate) times: u32,
    pub(crate) builds: u32,
    /// Number of messages that are many.
    pub(crate) deliveries: u64,
    /// Time between a change of files and the next step that opens them again.
    pub(crate) rest: Duration,
    /// Queries that a peer does not accept.
    pub(crate) refused: Vec<(Side, usize)>,
    pub(crate) stop: &'a AtomicBool,
}

impl Rounds<'_> {
    /// Number of progress lines that [`Rounds::run`] prints, at most.
    pub(crate) fn steps(&self) -> usize {
        let sides = |step: Step| self.systems.iter().filter(|one| step.is_of(one.side())).count();
        let others = Step::OTHERS.into_iter().filter(|step| *step != Step::Build);
        let each_round = others.map(sides).sum::<usize>() + Step::queries().count();
        let builds = sides(Step::Build) * self.builds as usize;
        builds + self.systems.len() + each_round * self.times as usize
    }

    /// Runs all rounds and adds each run to `results`, which keeps the runs made before an error.
    /// `after` is called after each part.
    pub(crate) fn run(
        &mut self,
        material: &mut Material,
        results: &mut Results,
        progress: &mut Progress<'_>,
        after: &mut dyn FnMut(&Results) -> Result<()>,
    ) -> Result<()> {
        (results.messages, results.mail_bytes) = (material.count, material.bytes);
        self.build(results, progress)?;
        after(results)?;
        self.check(material, results, progress)?;
        after(results)?;
        for round in 1..=self.times {
            // In every other round in reverse order.
            if round > 1 {
                self.systems.reverse();
            }
            self.ask(round, results, progress)?;
            after(results)?;
        }
        for round in 1..=self.times {
            self.deliver(round, material, results, progress)?;
            after(results)?;
        }
        Ok(())
    }

    /// Builds all indexes from nothing.
    fn build(&mut self, results: &mut Results, progress: &mut Progress<'_>) -> Result<()> {
        for round in 1..=self.builds {
            for system in &mut self.systems {
                let side = system.side();
                let at = || format!("{side} at {}", Step::Build);
                system.forget().with_context(at)?;
                if Step::Build.is_of(side) {
                    settle(&self.folder)?;
                    step(round, Step::Build, &mut **system, results, progress, self.stop)?;
                }
            }
        }
        for system in self.systems.iter_mut().filter(|system| Step::Build.is_of(system.side())) {
            results.sizes.extend(stoppable(self.stop, system.sizes())?);
        }
        Ok(())
    }

    /// Draws the queries, finds out what they must find, and compares the answers of all sides
    /// with it. barid may neither miss nor add a message, with its index and without.
    fn check(
        &mut self,
        material: &Material,
        results: &mut Results,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        progress.screen.status("drawing queries, and reading all messages for them");
        let (count, for_all) = self.queries;
        results.queries = draw(count, for_all, material.count, &mut |number| {
            stoppable(self.stop, material.texts(number))
        })?;
        let truth = Truth::of(material, &results.queries, self.stop)?;
        results.judged = truth.judged();
        let matches = |at| truth.matches(at).len() as u64;
        results.matches = (0..results.queries.len()).map(matches).collect();
        let queries = results.queries.clone();
        // What barid finds, of all messages.
        let mut expected: Vec<Option<Vec<u32>>> = vec![None; queries.len()];
        for system in &mut self.systems {
            let side = system.side();
            progress.say(&format!(" 0 - {:25} - {side}", "checking"))?;
            for (at, query) in queries.iter().enumerate() {
                if side == Side::Dovecot && !query.is_for_all {
                    continue;
                }
                let about = || format!("{side}: {:?} in {}", query.needle, query.field.name());
                let recall = recall_of(&mut results.recalls, side, query);
                if !system.can_ask(query) {
                    recall.not_asked += 1;
                    continue;
                }
                let found = stoppable(self.stop, Ok(system.found(query)))?.with_context(about);
                let found = match found {
                    Ok(found) => found,
                    Err(error) if side.is_exact() => return Err(error),
                    Err(error) => {
                        progress.screen.line(&format!("note: {error:#}"))?;
                        self.refused.push((side, at));
                        recall.not_asked += 1;
                        continue;
                    }
                };
                let candidates = stoppable(self.stop, system.candidates(query))?;
                results.candidates.extend(candidates.map(|candidates| (at, candidates)));
                let difference = truth.compare(at, &found);
                recall.asked += 1;
                recall.matches += truth.matches(at).len() as u64;
                recall.missed += difference.missed.len() as u64;
                recall.added += difference.added.len() as u64;
                if side.is_exact() {
                    ensure_exact(&difference, material).with_context(about)?;
                    let expected = expected[at].get_or_insert_with(|| found.clone());
                    ensure_same(&found, expected, material).with_context(about)?;
                }
            }
        }
        Ok(())
    }

    /// Puts the queries to all sides, each to one after the other.
    fn ask(
        &mut self,
        round: u32,
        results: &mut Results,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let queries = results.queries.clone();
        for step in Step::queries() {
            let is_of = |query: &Query| step == Step::Query(query.field, query.class);
            if !queries.iter().any(is_of) {
                continue;
            }
            progress.say(&format!("{round:2} - {step:25} - all"))?;
            for (at, query) in queries.iter().enumerate().filter(|(_, query)| is_of(query)) {
                for system in &mut self.systems {
                    let side = system.side();
                    let is_asked = query.is_for_all || side == Side::Barid;
                    if !is_asked || !system.can_ask(query) || self.refused.contains(&(side, at)) {
                        continue;
                    }
                    let about = || format!("{side}: {:?} in {}", query.needle, query.field.name());
                    let figures = stoppable(self.stop, system.ask(query)).with_context(about)?;
                    results.asked.push((results.runs.len(), at));
                    results.runs.push(Run { round, side, step, figures });
                }
            }
        }
        Ok(())
    }

    /// Delivers messages, indexes them, and searches for them.
    fn deliver(
        &mut self,
        round: u32,
        material: &mut Material,
        results: &mut Results,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let works = [
            (1, Step::IndexOne, Step::SearchOne),
            (self.deliveries, Step::IndexMany, Step::SearchMany),
        ];
        for (messages, index, search) in works {
            material.deliver(messages)?;
            settle(&self.folder)?;
            for system in &mut self.systems {
                if index.is_of(system.side()) {
                    step(round, index, &mut **system, results, progress, self.stop)?;
                }
                step(round, search, &mut **system, results, progress, self.stop)?;
                let found = stoppable(self.stop, system.found(&Query::delivered()))?;
                ensure_all(system.side(), &found, material)?;
            }
        }
        for system in &mut self.systems {
            if Step::Delivered.is_of(system.side()) {
                for _ in 0..DELIVERY_PAIRS {
                    std::thread::sleep(self.rest);
                    // What a run leaves undone while files are new is done by this one.
                    stoppable(self.stop, system.found(&Query::delivered()))?;
                    step(round, Step::Unchanged, &mut **system, results, progress, self.stop)?;
                    material.deliver(1)?;
                    step(round, Step::Delivered, &mut **system, results, progress, self.stop)?;
                    let found = stoppable(self.stop, system.found(&Query::delivered()))?;
                    ensure_all(system.side(), &found, material)?;
                }
            }
        }
        Ok(())
    }
}

/// Runs one step of a side.
fn step(
    round: u32,
    step: Step,
    system: &mut dyn System,
    results: &mut Results,
    progress: &mut Progress<'_>,
    stop: &AtomicBool,
) -> Result<()> {
    let side = system.side();
    progress.say(&format!("{round:2} - {step:25} - {side}"))?;
    let figures: Result<Figures> = match step {
        Step::Build | Step::IndexOne | Step::IndexMany => system.index(Sampling::Off),
        _ => system.ask(&Query::delivered()),
    };
    let figures = stoppable(stop, figures).with_context(|| format!("{side} at {step}"))?;
    results.runs.push(Run { round, side, step, figures });
    Ok(())
}

/// Checks that no message is missed or added.
fn ensure_exact(difference: &Difference, material: &Material) -> Result<()> {
    let first = |doing: &str, numbers: &[u32]| {
        numbers.first().map(|number| format!("{doing} message {}", material.source(*number)))
    };
    let wrong = [first("misses", &difference.missed), first("adds", &difference.added)];
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    ensure!(wrong.is_empty(), "it {}", wrong.join(" and "));
    Ok(())
}

/// Checks that the messages which one side of barid finds are those that the other has found.
fn ensure_same(found: &[u32], expected: &[u32], material: &Material) -> Result<()> {
    let same = found.iter().zip(expected).take_while(|(one, other)| one == other).count();
    // Both ascend, so the smaller number is in one of them only.
    let first = found.get(same).into_iter().chain(expected.get(same)).min();
    let Some(number) = first else { return Ok(()) };
    let (message, is_found) = (material.source(*number), found.get(same) == Some(number));
    ensure!(!is_found, "it finds message {message}, which it does not find otherwise");
    bail!("it does not find message {message}, which it finds otherwise")
}

/// Checks that all delivered messages are found.
fn ensure_all(side: Side, found: &[u32], material: &Material) -> Result<()> {
    let (count, expected) = (found.len() as u64, material.delivered);
    ensure!(count == expected, "{side}: finds {count} of {expected} delivered messages");
    Ok(())
}

/// Returns the differences of a side for the class of a query.
fn recall_of<'r>(recalls: &'r mut Vec<Recall>, side: Side, query: &Query) -> &'r mut Recall {
    let (field, class) = (query.field, query.class);
    let is_own = |known: &Recall| (known.side, known.field, known.class) == (side, field, class);
    let at = recalls.iter().position(is_own).unwrap_or_else(|| {
        let (asked, not_asked, matches, missed, added) = (0, 0, 0, 0, 0);
        recalls.push(Recall { side, field, class, asked, not_asked, matches, missed, added });
        recalls.len() - 1
    });
    &mut recalls[at]
}
