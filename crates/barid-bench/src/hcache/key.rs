//! The measured setups (a system with a store and a compression) and operations.

use std::fmt;

use serde::{Serialize, Serializer};

use super::method::Method;

/// One of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// The program under test.
    Barid,
    /// NeoMutt.
    NeoMutt,
}

/// The name of barid's own cache format, which is not a key-value store.
pub const NATIVE: &str = "native";

/// A setup: a system with a store and a compression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Key {
    /// The program.
    pub system: System,
    /// The store.
    pub store: String,
    /// The store's own compression.
    pub builtin: Option<String>,
    /// The compression of each record.
    pub method: Method,
}

impl Serialize for Method {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Key {
    /// Returns `true` for barid's cache that is not a key-value store.
    pub(crate) fn is_native(&self) -> bool {
        self.store == NATIVE
    }

    /// Returns `NAME[:builtin]`.
    pub fn choice(&self) -> String {
        match &self.builtin {
            Some(builtin) => format!("{}:{builtin}", self.store),
            None => self.store.clone(),
        }
    }

    /// Returns the setup as a part of a file name.
    pub(crate) fn file_name(&self) -> String {
        let system = match self.system {
            System::Barid => "barid",
            System::NeoMutt => "neomutt",
        };
        format!("{system}-{}-{}", self.choice(), self.method).replace(':', "-")
    }
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Fills an empty cache from the mailbox.
    Populate,
    /// Opens the mailbox with a filled cache; reads and decodes every record.
    Reload,
    /// As [`Work::Reload`], but lists only the newest 50 messages by date; barid only.
    Page,
}

impl fmt::Display for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Populate => "populate",
            Self::Reload => "reload",
            Self::Page => "page",
        })
    }
}
