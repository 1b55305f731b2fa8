//! Lazy definitions of subcommands: only the named one is built, as building all of them takes
//! longer than many commands.

use std::ffi::OsString;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};

/// `true` if a subcommand is named, so that the others are not needed.
static IS_NAMED: AtomicBool = AtomicBool::new(false);

/// Searches a command line for the name of a subcommand of `T`; must be called before anything is
/// defined. Without a name everything is defined, as for help.
pub(crate) fn look_at<T: Subcommand>(args: &[OsString]) {
    let words = args.iter().skip(1).map(|arg| arg.to_str().unwrap_or_default());
    let mut words = words.take_while(|word| !matches!(*word, "-h" | "--help"));
    let first = words.find(|word| !word.starts_with('-'));
    IS_NAMED.store(first.is_some_and(T::has_subcommand), Ordering::Relaxed);
}

/// Returns a definition that is completely built.
pub(crate) fn whole(define: fn() -> Command) -> Command {
    let is_named = IS_NAMED.swap(false, Ordering::Relaxed);
    let command = define();
    IS_NAMED.store(is_named, Ordering::Relaxed);
    command
}

/// The arguments of a subcommand.
#[derive(Clone, Debug)]
pub(crate) struct Lazy<T>(T);

impl<T> Deref for Lazy<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Args> Args for Lazy<T> {
    fn augment_args(command: Command) -> Command {
        match IS_NAMED.load(Ordering::Relaxed) {
            true => command.defer(T::augment_args),
            false => T::augment_args(command),
        }
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

impl<T: FromArgMatches> FromArgMatches for Lazy<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}
