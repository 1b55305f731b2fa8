//! `cargo xtask spam-eval --programs`: errors of the installed programs on dev-spam.
//!
//! It runs programs, not libraries: for each fold, the program under test trains a word list with
//! all other folds and classifies the messages of the fold. Tuned parameters are chosen by
//! `barid spam tune` from the training messages only, so that no tested message influences them.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use barid_bayes::{Parameters, Profile};
use barid_testkit::Scratch;

use super::mail::{self, Message, Split};
use super::report::{self, Answer, Run};
use super::systems::{Barid, Bogo, System, Tuning};
use crate::args::Args;
use crate::shell::cargo;

/// Evaluates, and prints tables.
pub(super) fn run(mut args: Args) -> Result<()> {
    let folds: usize = args.option("--folds")?.unwrap_or(10);
    let seed: u64 = args.option("--seed")?.unwrap_or(1);
    let given: Option<PathBuf> = args.option("--barid")?;
    let is_by_date_only = args.switch("--halves");
    let tunes = !args.switch("--no-tune");
    args.finish()?;
    ensure!(folds >= 2, "two folds at least");
    let program = match given {
        Some(program) => program,
        None => {
            cargo(&["build", "--release", "-p", "barid-cli"], &[])?;
            barid_testkit::corpora::repository().join("target/release/barid")
        }
    };
    let messages = mail::messages()?.context("the corpus dev-spam is missing")?;
    let bogofilter = Bogo::new()?;
    let systems: Vec<Box<dyn System>> = vec![
        Box::new(bogofilter),
        Box::new(Barid::new(&program, "bogofilter")),
        Box::new(Barid::new(&program, "modern")),
    ];
    let mut works = vec![("By dates, trained by the older half", vec![mail::halves(&messages)])];
    let in_folds = format!("In {folds} folds");
    if !is_by_date_only {
        works.insert(0, (in_folds.as_str(), mail::folds(&messages, folds, seed)));
    }
    for (title, splits) in works {
        let runs = evaluate(&systems, &messages, &splits, tunes.then_some(seed), &program)?;
        print!("{}", report::text(title, &runs));
    }
    Ok(())
}

/// Runs every system on every split, with default parameters and, with a `seed`, with tuned ones.
fn evaluate(
    systems: &[Box<dyn System>],
    messages: &[Message],
    splits: &[Split],
    seed: Option<u64>,
    program: &std::path::Path,
) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for system in systems {
        let (mut plain, mut tuned) = (Vec::new(), Vec::new());
        for (number, split) in splits.iter().enumerate() {
            let (scratch, start) = (Scratch::new("spam-eval")?, Instant::now());
            let trained: Vec<&Message> =
                split.train.iter().map(|index| &messages[*index]).collect();
            let tested: Vec<&Message> = split.test.iter().map(|index| &messages[*index]).collect();
            system.train(scratch.path(), &trained)?;
            let scores = system.scores(scratch.path(), &tested, None)?;
            plain.extend(answers(&tested, &scores, default_cutoffs(system.profile())));
            if let Some(seed) = seed {
                let profile = system.profile();
                let tuning = Tuning::choose(program, scratch.path(), profile, &trained, seed)?;
                let scores = system.scores(scratch.path(), &tested, Some(&tuning))?;
                tuned.extend(answers(&tested, &scores, tuning.cutoffs()));
            }
            let seconds = start.elapsed().as_secs();
            eprintln!("{}: {} of {}, {seconds} s", system.name(), number + 1, splits.len());
        }
        runs.push(Run { name: system.name().to_owned(), plain, tuned });
    }
    Ok(runs)
}

/// Returns the default cut-offs of a profile, that for spam first.
fn default_cutoffs(profile: &str) -> (f64, f64) {
    let known = super::PROFILES.into_iter().find(|(name, _)| *name == profile);
    let parameters = Parameters::new(known.map_or_else(Profile::default, |(_, profile)| profile));
    (parameters.spam_cutoff, parameters.ham_cutoff)
}

fn answers(
    tested: &[&Message],
    scores: &[f64],
    (spam_cutoff, ham_cutoff): (f64, f64),
) -> Vec<Answer> {
    tested
        .iter()
        .zip(scores)
        .map(|(message, score)| Answer {
            is_spam: message.is_spam,
            score: *score,
            is_taken_for_spam: *score >= spam_cutoff,
            is_taken_for_ham: *score <= ham_cutoff && *score < spam_cutoff,
        })
        .collect()
}
