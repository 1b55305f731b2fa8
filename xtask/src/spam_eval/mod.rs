//! `cargo xtask spam-eval`: errors of the spam filter on real mail.
//!
//! Every message is tokenised once for each profile, and the tokens stay in memory as numbers, so
//! that a word list of any part of a corpus costs one pass over them. Each corpus is evaluated in
//! the order of arrival (a list of older messages scores all newer ones), shuffled, and with a list
//! that is trained with its own errors. `--programs` runs the installed programs instead.

mod corpus;
mod filter;
mod mail;
mod measure;
mod picture;
mod programs;
mod report;
mod splits;
mod systems;
mod table;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use barid_bayes::Profile;
use barid_testkit::disk;

use self::corpus::Corpus;
use self::filter::Filter;
use self::splits::{Mode, Range};
use self::table::Table;
use crate::args::Args;
use crate::shell::cargo;

/// The profiles that are compared; the first is the baseline.
const PROFILES: [(&str, Profile); 2] =
    [("bogofilter", Profile::Bogofilter), ("modern", Profile::Modern)];

/// Options of an evaluation.
struct Evaluation {
    seed: u64,
    resamples: usize,
    pictures: Option<PathBuf>,
    asks_bogofilter: bool,
}

/// Evaluates, and prints tables.
pub(crate) fn run(mut args: Args) -> Result<()> {
    if args.switch("--programs") {
        return programs::run(args);
    }
    if cfg!(debug_assertions) {
        let given = args.rest();
        let mut command = vec!["run", "-q", "--profile", "crash", "-p", "xtask", "--", "spam-eval"];
        command.extend(given.iter().map(String::as_str));
        return cargo(&command, &[]);
    }
    let only: Option<String> = args.option("--only")?;
    let evaluation = Evaluation {
        seed: args.option("--seed")?.unwrap_or(1),
        resamples: args.option("--resamples")?.unwrap_or(400),
        pictures: args.option("--roc")?,
        asks_bogofilter: args.switch("--bogofilter"),
    };
    args.finish()?;
    let is_chosen = |name: &str| {
        only.as_ref().is_none_or(|only| only.split(',').any(|chosen| name.contains(chosen)))
    };
    let chosen: Vec<&str> = corpus::NAMES.into_iter().filter(|name| is_chosen(name)).collect();
    ensure!(!chosen.is_empty(), "--only names parts of {}", corpus::NAMES.join(", "));
    for name in chosen {
        let corpus = Corpus::read(name)?.with_context(|| format!("{name} is missing"))?;
        evaluation.judge(&corpus)?;
    }
    Ok(())
}

impl Evaluation {
    /// Evaluates both profiles on a corpus.
    fn judge(&self, corpus: &Corpus) -> Result<()> {
        let spam = corpus.messages.iter().filter(|message| message.is_spam).count();
        println!("\n## {}: {spam} spam, {} ham", corpus.name, corpus.messages.len() - spam);
        let mut filters = Vec::new();
        for (name, profile) in PROFILES {
            let start = Instant::now();
            let filter = Filter::new(corpus, profile);
            println!(
                "{name}: {:.0} tokens a message, {} distinct, {:.2} ms a message",
                filter.tokens_per_message(),
                filter.distinct(),
                start.elapsed().as_secs_f64() * 1000.0 / corpus.messages.len() as f64
            );
            filters.push(filter);
        }
        let mut table = Table::default();
        for mode in Mode::ALL {
            let ranges = splits::ranges(corpus, mode, self.seed);
            let mut answers = Vec::new();
            for filter in &filters {
                answers.push(ranges.iter().map(|range| filter.answers(range)).collect::<Vec<_>>());
            }
            table.add(mode.name(), &PROFILES.map(|(name, _)| name), &answers, self);
            if mode == Mode::Chronological {
                self.draw(corpus.name, &answers)?;
            }
        }
        print!("{}", table.text());
        self.ask_bogofilter(corpus, &filters[0])
    }

    /// Draws the error curves of the split that tests the most ham.
    fn draw(&self, name: &str, answers: &[Vec<filter::Answers>]) -> Result<()> {
        let Some(folder) = &self.pictures else { return Ok(()) };
        let ham = |index: &usize| answers[0][*index].iter().filter(|it| !it.is_spam).count();
        let Some(most) = (0..answers[0].len()).max_by_key(ham) else { return Ok(()) };
        let lines: Vec<_> = PROFILES
            .iter()
            .zip(answers)
            .map(|((name, _), answers)| (*name, answers[most].as_slice()))
            .collect();
        let svg = picture::svg(name, &lines).map_err(|error| anyhow::anyhow!("{error}"))?;
        let path = folder.join(format!("spam-roc-{name}.svg"));
        disk::write(&path, svg.as_bytes()).with_context(|| path.display().to_string())
    }

    /// Compares the scores of the profile `bogofilter` with those of the program: the first half of
    /// the corpus trains, the second is tested.
    fn ask_bogofilter(&self, corpus: &Corpus, ours: &Filter<'_>) -> Result<()> {
        if !self.asks_bogofilter {
            return Ok(());
        }
        let half = corpus.messages.len() / 2;
        let range = Range {
            train: (0..half).collect(),
            test: (half..corpus.messages.len()).collect(),
            learns: false,
        };
        let theirs = systems::bogofilter_scores(corpus, &range)?;
        let ours = ours.answers(&range);
        let mut worst = 0.0_f64;
        for (ours, theirs) in ours.iter().zip(&theirs) {
            worst = worst.max((ours.score - theirs).abs());
        }
        println!(
            "bogofilter 1.2.5 on the second half: {} scores, at most {worst:.6} from the profile",
            theirs.len()
        );
        Ok(())
    }
}
