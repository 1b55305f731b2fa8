//! The stores that are usable here, according to the program under test.
//!
//! They are listed by a separate process, so that the libraries of the stores are not loaded into
//! the bench.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

/// The stores and whether they are usable.
#[derive(Clone, Debug, Default)]
pub(crate) struct Survey {
    stores: Vec<Store>,
}

/// A line of `barid cache stores --json`.
#[derive(Clone, Debug, Deserialize)]
struct Store {
    name: String,
    /// Version of the library; `None` if the store is unusable.
    version: Option<String>,
    /// The reason why the store is unusable.
    missing: Option<String>,
}

impl Survey {
    /// Runs the program and parses its list of stores.
    pub(crate) fn of(program: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        let output = command.args(["cache", "stores", "--json"]).output();
        let output = output.with_context(|| program.display().to_string())?;
        let line = || format!("{} cache stores --json", program.display());
        ensure!(output.status.success(), "{}: {}", line(), output.status);
        Self::parse(&String::from_utf8_lossy(&output.stdout)).with_context(line)
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        let stores = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        Ok(Self { stores })
    }

    /// Returns the usable stores.
    pub(crate) fn usable(&self) -> impl Iterator<Item = &str> {
        let usable = self.stores.iter().filter(|store| store.version.is_some());
        usable.map(|store| store.name.as_str())
    }

    /// Returns the version of a store's library.
    ///
    /// # Errors
    ///
    /// Returns an error with the reason if the store is unusable.
    pub(crate) fn version(&self, name: &str) -> Result<&str> {
        let store = self.stores.iter().find(|store| store.name == name);
        let why = store.and_then(|store| store.missing.as_deref()).unwrap_or("it is not known");
        let version = store.and_then(|store| store.version.as_deref());
        version.with_context(|| format!("{name} cannot be used here: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_has_a_version_or_a_reason() {
        let text = "{\"v\":1,\"type\":\"store\",\"name\":\"lmdb\",\"version\":\"0.9\"}\n\
                    {\"v\":1,\"name\":\"tdb\",\"version\":null,\"missing\":\"no libtdb\"}\n";
        let survey = Survey::parse(text).unwrap();
        assert_eq!(survey.usable().collect::<Vec<_>>(), ["lmdb"]);
        assert_eq!(survey.version("lmdb").unwrap(), "0.9");
        let error = survey.version("tdb").unwrap_err().to_string();
        assert_eq!(error, "tdb cannot be used here: no libtdb");
        assert!(survey.version("gdbm").is_err());
        assert!(Survey::parse("lmdb yes\n").is_err());
    }
}
