//! The single measurements of a run, whatever file of a bench they are from.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::csv::Csv;
use super::input::at;

/// One measurement of one side at one step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    /// The round; round 0 checks the answers and is not timed.
    pub(super) round: u32,
    pub(super) side: String,
    pub(super) step: String,
    pub(super) seconds: f64,
    /// Peak of resident memory in bytes.
    pub(super) peak: Option<f64>,
    /// Bytes of the cache, index or word list.
    pub(super) size: Option<f64>,
}

/// Returns the measurements in a `raw.csv`.
pub(super) fn of_csv(path: &Path, table: &Csv) -> Result<Vec<Sample>> {
    let needed = |names: &[&str]| {
        let missing = || at(path, 1, &format!("no column {}", names.join(" or ")));
        table.column(names).ok_or_else(missing)
    };
    let step = needed(&["step", "work"])?;
    let side = needed(&["side"])?;
    let seconds = needed(&["real_s", "wall_s"])?;
    let [round, turn] = [&["round"], &["turn"]].map(|names| table.column(names));
    let peak = table.column(&["maxrss_bytes"]);
    let size = table.column(&["index_bytes", "list_bytes"]);
    let mut samples = Vec::with_capacity(table.rows.len());
    for (line, cells) in &table.rows {
        let cell = |column: usize| cells.get(column).map_or("", String::as_str);
        let number = |column: usize| -> Result<Option<f64>> {
            let (text, name) = (cell(column), table.head.get(column).map_or("", String::as_str));
            let is_sound = |value: &f64| value.is_finite() && *value >= 0.0;
            let problem = || at(path, *line, &format!("{name} is not a number: {text:?}"));
            match text {
                "" => Ok(None),
                _ => text.parse().ok().filter(is_sound).map(Some).ok_or_else(problem),
            }
        };
        let optional = |column: Option<usize>| column.map_or(Ok(None), number);
        let no_time = || at(path, *line, "no time in this row");
        let again = turn.map_or("", cell) == "again";
        samples.push(Sample {
            // A table without rounds has timed runs only.
            round: optional(round)?.map_or(1, |round| round as u32),
            side: cell(side).to_owned(),
            step: format!("{}{}", cell(step), if again { ", again" } else { "" }),
            seconds: number(seconds)?.ok_or_else(no_time)?,
            peak: optional(peak)?,
            size: optional(size)?,
        });
    }
    Ok(samples)
}

/// The part of `results.json` that the report needs.
#[derive(Debug, Deserialize)]
struct Results {
    runs: Vec<Setup>,
}

/// One run of a setup of the bench of header caches.
#[derive(Debug, Deserialize)]
struct Setup {
    round: u32,
    work: String,
    system: String,
    store: String,
    builtin: Option<String>,
    method: String,
    real_s: f64,
    maxrss_bytes: u64,
    disk_bytes: u64,
}

/// Returns the measurements in a `results.json` of the bench of header caches.
pub(super) fn of_json(path: &Path, text: &str) -> Result<Vec<Sample>> {
    let results: Results =
        serde_json::from_str(text).with_context(|| path.display().to_string())?;
    let sample = |setup: Setup| {
        let Setup { work, system, store, builtin, method, .. } = setup;
        let (side, how) = match builtin {
            Some(builtin) => (format!("{system} {store}:{builtin}"), "the store's own".to_owned()),
            None => (format!("{system} {store}"), method),
        };
        Sample {
            round: setup.round,
            side,
            step: format!("{work}, {how}"),
            seconds: setup.real_s,
            peak: Some(setup.maxrss_bytes as f64),
            size: Some(setup.disk_bytes as f64),
        }
    };
    Ok(results.runs.into_iter().map(sample).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(text: &str) -> Result<Vec<Sample>> {
        let path = Path::new("raw.csv");
        of_csv(path, &Csv::parse(path, text)?)
    }

    #[test]
    fn both_forms_are_read() {
        let text = "round,side,work,turn,real_s,maxrss_bytes\n0,a,x,again,0.5,\n";
        let expected = Sample {
            round: 0,
            side: "a".into(),
            step: "x, again".into(),
            seconds: 0.5,
            peak: None,
            size: None,
        };
        assert_eq!(samples(text).unwrap(), std::slice::from_ref(&expected));
        let step = "x".to_owned();
        let timed = Sample { round: 1, step, peak: Some(7.0), ..expected };
        assert_eq!(samples("work,side,wall_s,maxrss_bytes\nx,a,0.5,7\n").unwrap(), [timed]);
    }

    #[test]
    fn errors_name_the_line() {
        let check = |text: &str, expected: &str| {
            assert_eq!(samples(text).unwrap_err().to_string(), expected);
        };
        check("side,real_s\n", "raw.csv:1: no column step or work");
        let head = "step,side,real_s";
        check(&format!("{head}\na,b,1\na,b,x\n"), "raw.csv:3: real_s is not a number: \"x\"");
        check(&format!("{head}\na,b,NaN\n"), "raw.csv:2: real_s is not a number: \"NaN\"");
        check(&format!("{head}\na,b,\n"), "raw.csv:2: no time in this row");
    }

    #[test]
    fn a_store_s_own_compression_is_a_step_of_its_own() {
        let run = r#"{"round":1,"work":"reload","system":"barid","store":"qdbm","builtin":"zlib",
            "method":"none","real_s":1.5,"maxrss_bytes":1,"disk_bytes":2,"more":3}"#;
        let path = Path::new("results.json");
        let samples = of_json(path, &format!("{{\"runs\":[{run}]}}")).unwrap();
        let [sample] = &samples[..] else { panic!("{samples:?}") };
        let names = (sample.side.as_str(), sample.step.as_str());
        assert_eq!(names, ("barid qdbm:zlib", "reload, the store's own"));
        let error = format!("{:#}", of_json(path, "{\n\"runs\":[3]}").unwrap_err());
        assert!(error.starts_with("results.json: ") && error.contains("line 2"), "{error}");
    }
}
