//! The programs under test.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use barid_testkit::peers::Bogofilter;
use barid_testkit::{Scratch, disk};
use serde_json::Value;

use super::corpus::Corpus;
use super::mail::Message;
use super::splits::Range;

/// A spam filter that can be trained and scores messages.
pub(super) trait System {
    /// Returns its name in tables.
    fn name(&self) -> &str;

    /// Returns the profile of barid that makes the same tokens, with which its parameters are
    /// tuned.
    fn profile(&self) -> &str;

    /// Trains a new word list in a folder.
    fn train(&self, folder: &Path, messages: &[&Message]) -> Result<()>;

    /// Returns the scores of messages, in their order.
    fn scores(
        &self,
        folder: &Path,
        messages: &[&Message],
        tuning: Option<&Tuning>,
    ) -> Result<Vec<f64>>;
}

/// Parameters chosen by `barid spam tune`.
#[derive(Clone, Debug)]
pub(super) struct Tuning(HashMap<String, f64>);

impl Tuning {
    /// Runs `barid spam tune` on the training messages.
    pub(super) fn choose(
        program: &Path,
        folder: &Path,
        profile: &str,
        messages: &[&Message],
        seed: u64,
    ) -> Result<Self> {
        let mut command = barid(program, folder, "tune", profile);
        command.args(["--json", "--seed", &seed.to_string()]);
        for (option, is_spam) in [("--spam", true), ("--ham", false)] {
            command.arg(option).args(paths(messages, is_spam));
        }
        // The list is not asked: the parameters of none are where the search begins.
        command.arg("--wordlist").arg(folder.join("none"));
        let line = output(command)?;
        let value: Value = serde_json::from_slice(&line).context("what spam tune prints")?;
        let parameters = value["parameters"].as_object().context("no parameters")?;
        let number = |(name, value): (&String, &Value)| Some((name.clone(), value.as_f64()?));
        Ok(Self(parameters.iter().filter_map(number).collect()))
    }

    fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Returns the cut-offs, that for spam first.
    pub(super) fn cutoffs(&self) -> (f64, f64) {
        (self.get("spam_cutoff"), self.get("ham_cutoff"))
    }
}

/// bogofilter itself.
pub(super) struct Bogo(Bogofilter);

impl Bogo {
    pub(super) fn new() -> Result<Self> {
        Ok(Self(Bogofilter::new().context("bogofilter is missing")?))
    }

    fn run(&self, folder: &Path, args: &[&str], messages: &[&Message]) -> Result<Vec<u8>> {
        let mut names = String::new();
        for message in messages {
            names += message.path.to_str().context("a name that is no text")?;
            names.push('\n');
        }
        let output = self.0.filter(folder, args, names.as_bytes())?;
        ensure!(output.status.code().is_some_and(|code| code < 3), "bogofilter: {output:?}");
        Ok(output.stdout)
    }
}

impl System for Bogo {
    fn name(&self) -> &str {
        "bogofilter itself"
    }

    fn profile(&self) -> &str {
        "bogofilter"
    }

    fn train(&self, folder: &Path, messages: &[&Message]) -> Result<()> {
        for (option, is_spam) in [("-s", true), ("-n", false)] {
            let of_class: Vec<&Message> =
                messages.iter().copied().filter(|message| message.is_spam == is_spam).collect();
            self.run(folder, &[option, "-b"], &of_class)?;
        }
        Ok(())
    }

    fn scores(
        &self,
        folder: &Path,
        messages: &[&Message],
        tuning: Option<&Tuning>,
    ) -> Result<Vec<f64>> {
        let mut args = vec!["-TT".to_owned(), "-b".to_owned()];
        if let Some(tuning) = tuning {
            let of = |name| tuning.get(name);
            args.push(format!("-m{},{},{}", of("min_dev"), of("robs"), of("robx")));
            args.push(format!("-E{},{}", of("sp_esf"), of("ns_esf")));
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let text = String::from_utf8(self.run(folder, &args, messages)?)?;
        let mut scores = Vec::with_capacity(messages.len());
        for (line, message) in text.lines().zip(messages) {
            let name = message.path.to_str().unwrap_or_default();
            ensure!(line.starts_with(name), "bogofilter says {line:?} of {name}");
            let score = line.rsplit(' ').next().unwrap_or_default();
            scores.push(score.parse().with_context(|| format!("bogofilter says {line:?}"))?);
        }
        ensure!(scores.len() == messages.len(), "bogofilter says too little");
        Ok(scores)
    }
}

/// barid with one of its profiles.
pub(super) struct Barid {
    program: PathBuf,
    profile: &'static str,
    name: String,
}

impl Barid {
    pub(super) fn new(program: &Path, profile: &'static str) -> Self {
        Self { program: program.to_owned(), profile, name: format!("barid, profile {profile}") }
    }
}

impl System for Barid {
    fn name(&self) -> &str {
        &self.name
    }

    fn profile(&self) -> &str {
        self.profile
    }

    fn train(&self, folder: &Path, messages: &[&Message]) -> Result<()> {
        for (option, is_spam) in [("--spam", true), ("--ham", false)] {
            let mut command = barid(&self.program, folder, "train", self.profile);
            command.arg(option).args(paths(messages, is_spam));
            output(command)?;
        }
        Ok(())
    }

    fn scores(
        &self,
        folder: &Path,
        messages: &[&Message],
        tuning: Option<&Tuning>,
    ) -> Result<Vec<f64>> {
        let mut command = barid(&self.program, folder, "classify", self.profile);
        command.arg("--json");
        if let Some(tuning) = tuning {
            for name in ["robx", "robs", "min_dev", "sp_esf", "ns_esf"] {
                command.arg(format!("--{}={}", name.replace('_', "-"), tuning.get(name)));
            }
        }
        let text = output(command_of(command, messages))?;
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let mut scores = Vec::with_capacity(messages.len());
        for (line, message) in lines.zip(messages) {
            let value: Value = serde_json::from_slice(line)?;
            ensure!(value["file"].as_str() == message.path.to_str(), "another message: {value}");
            scores.push(value["spamicity"].as_f64().context("no score")?);
        }
        ensure!(scores.len() == messages.len(), "barid says too little");
        Ok(scores)
    }
}

fn command_of(mut command: Command, messages: &[&Message]) -> Command {
    command.args(messages.iter().map(|message| &message.path));
    command
}

fn barid(program: &Path, folder: &Path, verb: &str, profile: &str) -> Command {
    let mut command = Command::new(program);
    command.arg("--state-dir").arg(folder).args(["--no-cache", "spam", verb]);
    command.args(["--profile", profile]).stdin(Stdio::null());
    command
}

fn paths<'a>(messages: &'a [&Message], is_spam: bool) -> impl Iterator<Item = &'a OsStr> {
    let of_class = messages.iter().filter(move |message| message.is_spam == is_spam);
    of_class.map(|message| message.path.as_os_str())
}

fn output(mut command: Command) -> Result<Vec<u8>> {
    let output = command.stderr(Stdio::piped()).output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("barid: {}: {}", output.status, text.chars().take(2000).collect::<String>());
    }
    Ok(output.stdout)
}

/// Returns the scores that bogofilter gives the tested messages of a split.
pub(super) fn bogofilter_scores(corpus: &Corpus, range: &Range) -> Result<Vec<f64>> {
    let scratch = Scratch::new("spam-eval")?;
    let bogofilter = Bogo::new()?;
    let write = |index: &usize| -> Result<Message> {
        let labelled = &corpus.messages[*index];
        let path = scratch.path().join(format!("{index}.eml"));
        disk::write(&path, &labelled.text)?;
        Ok(Message { path, is_spam: labelled.is_spam, date: None })
    };
    let train = range.train.iter().map(write).collect::<Result<Vec<_>>>()?;
    let test = range.test.iter().map(write).collect::<Result<Vec<_>>>()?;
    bogofilter.train(scratch.path(), &train.iter().collect::<Vec<_>>())?;
    bogofilter.scores(scratch.path(), &test.iter().collect::<Vec<_>>(), None)
}
