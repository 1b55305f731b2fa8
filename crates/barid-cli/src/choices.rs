//! The values of `--store` and `--compress`.

use std::ffi::OsStr;

use barid::{Compression, StoreKind};
use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};

/// Parses `NAME` or `NAME:BUILTIN`; its library is looked up only when the store is used.
#[derive(Clone, Debug)]
pub(crate) struct StoreParser;

/// Parses `METHOD` or `METHOD:LEVEL`.
#[derive(Clone, Debug)]
pub(crate) struct CompressionParser;

/// The alternatives named in errors.
const LISTED: &str = "`barid cache stores` describes each, --compress compresses in any";

type Values = Box<dyn Iterator<Item = PossibleValue>>;

impl TypedValueParser for StoreParser {
    type Value = StoreKind;

    fn parse_ref(
        &self,
        cmd: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<StoreKind, Error> {
        let text = value.to_string_lossy();
        let name = text.split(':').next().unwrap_or_default();
        StoreKind::parse(&text).map_err(|error| match barid::stores::names().any(|n| n == name) {
            true => invalid(cmd, arg, value, &format!("{error}; {LISTED}")),
            false => {
                let known: Vec<&str> = barid::stores::names().collect();
                invalid(cmd, arg, value, &format!("the stores are {}; {LISTED}", known.join(", ")))
            }
        })
    }

    fn possible_values(&self) -> Option<Values> {
        Some(Box::new(barid::stores::names().map(PossibleValue::new)))
    }
}

impl TypedValueParser for CompressionParser {
    type Value = Compression;

    fn parse_ref(
        &self,
        cmd: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Compression, Error> {
        let parsed = Compression::parse(&value.to_string_lossy());
        parsed.map_err(|error| invalid(cmd, arg, value, &error.to_string()))
    }

    fn possible_values(&self) -> Option<Values> {
        let names = Compression::METHODS.iter().map(|info| info.name);
        Some(Box::new(names.map(PossibleValue::new)))
    }
}

/// Returns an error such as `error: invalid value 'lmbd' for '--store <NAME>': ...`.
fn invalid(cmd: &Command, arg: Option<&Arg>, value: &OsStr, why: &str) -> Error {
    let arg = arg.map(ToString::to_string).unwrap_or_default();
    let value = value.to_string_lossy();
    let text = format!(
        "invalid value '{value}' for '{arg}': {why}\n\nFor more information, try '--help'.\n"
    );
    Error::raw(ErrorKind::ValueValidation, text).with_cmd(cmd)
}
