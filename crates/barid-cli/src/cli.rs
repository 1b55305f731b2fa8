//! The command line: the commands, behind the global options.

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::commands::change::{append, expunge, flag, sync, tag, undo};
use crate::commands::{
    admin, attachments, bogo, cache, check, completions, compose, config, convert, count, deliver,
    demo, export, fetch, folders, index, lmtp, ls, man, search, serve, show, spam, status, thread,
    watch,
};
use crate::context::Context;
use crate::exit::Outcome;
use crate::global::GlobalArgs;
use crate::lazy::Lazy;

const EXAMPLES: &str = "\
Examples:
  barid ls --limit 20 ~/Maildir            the newest twenty messages
  barid ls --sort date archive.mbox        everything, by the date it was sent
  barid thread --newest 10 ~/Maildir       the ten newest threads
  barid search ~/Maildir from:ann budget   the messages of Ann about the budget
  barid show ~/Maildir 4711                one message
  barid ls ~/Maildir from:ann newer:2w     a query instead of UIDs, as in most commands
  barid watch ~/Maildir                    what changes, as it happens
  barid flag ~/Maildir 4711 +seen          mark it as read
  barid expunge archive.mbox 17            remove one; `barid undo` brings it back
  barid move ~/Maildir 4711 archive.mbox   it leaves one for the other, and is never in none
  barid convert archive.mbox mix:archive   a mailbox in another format
  barid spam classify ~/Maildir            which messages are spam, after training
  barid demo                               try it on 20,000 generated messages

MAILBOX is a path whose format is detected; `maildir:PATH` and `mbox:PATH` (also mboxo, mboxrd,
mboxcl, mboxcl2, mmdf, mbx, mix, mh, public-inbox, eml) force one. `-` is a mailbox or a message on
standard input. `@NAME` is a mailbox that the configuration names, `@` the default one; `barid
config` shows them.

Exit status: 0 success, 1 nothing matched, 2 failure, or a message that could not be read.";

/// Open any mailbox at once: list it, thread it, read it, change it
///
/// barid caches the headers, flags and order of a mailbox, so that opening it again takes a few
/// milliseconds whatever its size. Only messages never seen before are read. Commands that only
/// read never change a message, and no change loses one, even if a crash interrupts it or another
/// program uses the mailbox at the same time.
#[derive(Debug, Parser)]
#[command(name = "barid", version, max_term_width = 100, after_long_help = EXAMPLES)]
#[command(infer_subcommands = false)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Status(Lazy<status::StatusArgs>),
    Ls(Lazy<ls::LsArgs>),
    Show(Lazy<show::ShowArgs>),
    Attachments(Lazy<attachments::AttachmentsArgs>),
    Export(Lazy<export::ExportArgs>),
    Fetch(Lazy<fetch::FetchArgs>),
    Thread(Lazy<thread::ThreadArgs>),
    Search(Lazy<search::SearchArgs>),
    Count(Lazy<count::CountArgs>),
    Index(Lazy<index::IndexArgs>),
    Folders(Lazy<folders::FoldersArgs>),
    Reply(Lazy<compose::ReplyArgs>),
    Forward(Lazy<compose::ForwardArgs>),
    Watch(Lazy<watch::WatchArgs>),
    Serve(Lazy<serve::ServeArgs>),
    Admin(Lazy<admin::AdminArgs>),
    Deliver(Lazy<deliver::DeliverArgs>),
    Lmtp(Lazy<lmtp::LmtpArgs>),
    Flag(Lazy<flag::FlagArgs>),
    Tag(Lazy<tag::TagArgs>),
    Expunge(Lazy<expunge::ExpungeArgs>),
    Append(Lazy<append::AppendArgs>),
    Copy(Lazy<convert::copy::CopyArgs>),
    Move(Lazy<convert::moving::MoveMessagesArgs>),
    Convert(Lazy<convert::ConvertArgs>),
    Sync(Lazy<sync::SyncArgs>),
    Undo(Lazy<undo::UndoArgs>),
    Check(Lazy<check::CheckArgs>),
    Spam(Lazy<spam::SpamArgs>),
    Bogofilter(Lazy<bogo::BogofilterArgs>),
    Bogoutil(Lazy<bogo::BogoutilArgs>),
    Bogolexer(Lazy<bogo::BogolexerArgs>),
    Cache(Lazy<cache::CacheArgs>),
    Config(Lazy<config::ConfigArgs>),
    Demo(Lazy<demo::DemoArgs>),
    Completions(Lazy<completions::CompletionsArgs>),
    Man(Lazy<man::ManArgs>),
}

impl Command {
    /// Returns `true` if the command uses caches only as a means, so that a damaged one may be
    /// removed on the way.
    pub(crate) fn opens_mailboxes(&self) -> bool {
        match self {
            Self::Cache(args) => args.opens_mailboxes(),
            _ => true,
        }
    }

    /// Runs the command.
    pub(crate) fn run(&self, context: &mut Context) -> anyhow::Result<Outcome> {
        match self {
            Self::Status(args) => status::run(context, args),
            Self::Ls(args) => ls::run(context, args),
            Self::Show(args) => show::run(context, args),
            Self::Attachments(args) => attachments::run(context, args),
            Self::Export(args) => export::run(context, args),
            Self::Fetch(args) => fetch::run(context, args),
            Self::Thread(args) => thread::run(context, args),
            Self::Search(args) => search::run(context, args),
            Self::Count(args) => count::run(context, args),
            Self::Index(args) => index::run(context, args),
            Self::Folders(args) => folders::run(context, args),
            Self::Reply(args) => compose::reply(context, args),
            Self::Forward(args) => compose::forward(context, args),
            Self::Watch(args) => watch::run(context, args),
            Self::Serve(args) => serve::run(context, args),
            Self::Admin(args) => admin::run(context, args),
            Self::Deliver(args) => deliver::run(context, args),
            Self::Lmtp(args) => lmtp::run(context, args),
            Self::Flag(args) => flag::run(context, args),
            Self::Tag(args) => tag::run(context, args),
            Self::Expunge(args) => expunge::run(context, args),
            Self::Append(args) => append::run(context, args),
            Self::Copy(args) => convert::copy::run(context, args),
            Self::Move(args) => convert::moving::run(context, args),
            Self::Convert(args) => convert::run(context, args),
            Self::Sync(args) => sync::run(context, args),
            Self::Undo(args) => undo::run(context, args),
            Self::Check(args) => check::run(context, args),
            Self::Spam(args) => spam::run(context, args),
            Self::Bogofilter(args) => bogo::filter(context, args),
            Self::Bogoutil(args) => bogo::util(context, args),
            Self::Bogolexer(args) => bogo::lexer(context, args),
            Self::Cache(args) => cache::run(context, args),
            Self::Config(args) => config::run(context, args, Cli::command),
            Self::Demo(args) => demo::run(context, args),
            Self::Completions(args) => completions::run(context, args),
            Self::Man(args) => man::run(context, args, Cli::command),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_format_that_can_be_forced_is_named() {
        for name in barid::FormatName::readable().map(barid::FormatName::name) {
            let is_word = |word: &str| word.trim_matches(['`', '(', ')', ',']) == name;
            let words = EXAMPLES.replace(":PATH", "");
            assert!(words.split_whitespace().any(is_word), "{name}");
        }
    }

    #[test]
    fn help_is_imperative_without_a_full_stop() {
        let mut commands = vec![Cli::command()];
        while let Some(command) = commands.pop() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty() && !about.ends_with('.'), "{}", command.get_name());
            for arg in command.get_arguments() {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.is_empty() && !help.ends_with('.'), "{:?}", arg.get_id());
            }
            commands.extend(command.get_subcommands().cloned());
        }
    }
}
