//! `barid tag`: applies rules to messages, each a query and the flags of what it finds.

mod mark;
mod rules;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;

use barid::query::{NumberSet, SearchKey, SearchProgram};
use barid::vfs::OsVfs;
use barid::{ChangeRequest, Changed, FlagChanges, Mailbox, Status, Uid, UidSet, WriteWhen};
use barid_serve::config::ConfigErrors;
use clap::{Args, ValueHint};

use self::mark::TagProgress;
use self::rules::TagRule;
use super::report::{Report, Verb};
use super::{ChangeArgs, ChangeCommand};
use crate::context::Context;
use crate::exit::{Outcome, WithHint, report_unreadable};
use crate::mail::mailboxes::UnreadableMessages;
use crate::mail::query::QueryArgs;
use crate::mail::selection::UnreadAttachments;
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::grouped;
use crate::output::table::{Align, Table};

const EXAMPLES: &str = "\
Examples:
  barid tag --new rules.toml ~/Maildir      only what came since the last such run
  barid tag --dry-run rules.toml ~/Maildir  what each rule would find among all messages
  barid tag --new rules.toml                in the default mailbox of `barid config`

The rules, in TOML:
  [[rule]]
  query = \"list:rust\"                       as for `barid search`
  flags = [\"+rust\", \"-todo\"]                as for `barid flag`
  [[rule]]
  query = \"from:boss or subject:/urgent/\"
  flags = \"+flagged\"

Every rule is applied to the messages as they were before; of two rules that name the same flag, the
later one counts. Then `barid search ~/Maildir tag:rust` finds them, and `barid move ~/Maildir
tag:rust @lists` moves them.

Exit status: 0 also if no rule finds a message, 2 if a message could not be searched.";

/// Add flags and keywords by rules, to new messages or to all
///
/// With --new, a rule sees each message once: barid records the last message that it has seen for
/// each rules file and mailbox, so it does not undo your later changes.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct TagArgs {
    /// The file with the rules
    #[arg(value_hint = ValueHint::FilePath)]
    rules: PathBuf,
    /// The mailbox: a path, or FORMAT:PATH; the default mailbox without it
    #[arg(value_hint = ValueHint::AnyPath, default_value = "@", hide_default_value = true)]
    mailbox: OsString,
    /// Only messages that came since the last `barid tag --new` with this file: at first all
    #[arg(long)]
    new: bool,
    /// Write the changes, and all pending ones, into the mailbox before the command ends
    #[arg(long)]
    write_through: bool,
    #[command(flatten)]
    query: QueryArgs,
    #[command(flatten)]
    change: ChangeArgs,
}

/// The messages that rules are applied to.
#[derive(Clone, Copy, Debug)]
struct TaggedRange {
    uidvalidity: u32,
    /// The first UID.
    from: Uid,
    /// The UID after the last.
    uidnext: Uid,
}

/// Applies the rules.
pub(crate) fn run(context: &mut Context, args: &TagArgs) -> anyhow::Result<Outcome> {
    context.prepare(args.query);
    let rules = match rules::load(&args.rules, &context.config, args.query) {
        Ok(rules) => rules,
        Err(errors) => return Ok(report_problems(context, &errors)),
    };
    let mut session = ChangeCommand::open(context, Verb::Tag, &args.mailbox, &args.change)?;
    let state_dir = context.state_dir()?;
    let mark =
        args.new.then(|| TagProgress::of(&OsVfs, &state_dir, session.mailbox.id(), &args.rules));
    let mark = mark.transpose()?;
    let range = range_of(&session.mailbox.status(), mark.as_ref())?;
    let (found, unreadable) = find(context, &mut session.mailbox, &rules, range)?;
    let outcome = change(context, args, &mut session, (&rules, &found))?;
    if let Some(mark) = mark.filter(|_| !session.dry_run && !session.is_stopped()) {
        mark.advance(range.uidvalidity, range.uidnext)?;
    }
    Ok(outcome.worse(report_unreadable(context, unreadable)))
}

fn report_problems(context: &Context, errors: &ConfigErrors) -> Outcome {
    for problem in &errors.0 {
        context.error_line("error", &visible(problem.to_string().as_bytes()));
    }
    context
        .error_line("hint", "nothing is changed; `barid tag --help` shows how rules are written");
    Outcome::Incomplete
}

/// Returns the messages that the rules are applied to: with a note those after it.
fn range_of(status: &Status, mark: Option<&TagProgress<'_>>) -> anyhow::Result<TaggedRange> {
    let (uidvalidity, uidnext) = (status.uidvalidity.get(), status.uidnext);
    let last = mark.map(TagProgress::read).transpose()?.flatten();
    let from = match last {
        Some((validity, next)) if validity == uidvalidity => next,
        _ => Uid::MIN,
    };
    Ok(TaggedRange { uidvalidity, from, uidnext })
}

/// Finds the messages of each rule.
fn find(
    context: &Context,
    mailbox: &mut Mailbox,
    rules: &[TagRule],
    range: TaggedRange,
) -> anyhow::Result<(Vec<Vec<Uid>>, UnreadableMessages)> {
    let last = range.uidnext.get().saturating_sub(1);
    if range.from.get() > last {
        return Ok((vec![Vec::new(); rules.len()], Vec::new()));
    }
    let numbers = NumberSet::from_ranges([(range.from.get(), last)]);
    let within = SearchProgram::of(SearchKey::Uid(numbers));
    let (mut found, mut unreadable) = (Vec::with_capacity(rules.len()), Vec::new());
    let (mut told, mut attachments) = (HashSet::new(), UnreadAttachments::default());
    for rule in rules {
        let program = within.and(&rule.program).map_err(|error| {
            WithHint::error(format!("rule {}: {error}", rule.name), "divide it into several rules")
        })?;
        let result = mailbox.search(&program, &UidSet::new())?;
        found.push(mailbox.uids_of(&result.rows)?);
        attachments = attachments.and(UnreadAttachments::without_names(&result));
        let unread = result.unreadable.into_iter();
        unreadable.extend(unread.filter(|(uid, _)| told.insert(*uid)));
    }
    attachments.report(context);
    if mailbox.status().uidvalidity.get() != range.uidvalidity {
        return Err(WithHint::error(
            "the messages were renumbered meanwhile: nothing is changed",
            "run it again",
        ));
    }
    Ok((found, unreadable))
}

/// Changes the flags, all in one change.
fn change(
    context: &mut Context,
    args: &TagArgs,
    session: &mut ChangeCommand,
    (rules, found): (&[TagRule], &[Vec<Uid>]),
) -> anyhow::Result<Outcome> {
    let mut flags = FlagChanges::default();
    for (rule, uids) in rules.iter().zip(found) {
        flags.push_all(uids.iter().copied(), &rule.flags.change(session.mailbox.keywords()));
    }
    write_rules(context, rules, found);
    let mut changed = Report::default();
    if found.iter().all(Vec::is_empty) {
        changed.changed = Changed { pending: session.mailbox.pending(), ..Changed::default() };
        return session.finish(context, &changed);
    }
    let request = ChangeRequest { flags, ..ChangeRequest::default() };
    let mut options = session.options();
    options.write = if args.write_through { WriteWhen::Now } else { WriteWhen::Pending };
    changed.changed =
        session.change(context, options, |mailbox, options| mailbox.change(&request, options))?;
    session.finish(context, &changed)
}

/// Prints how many messages each rule found.
fn write_rules(context: &mut Context, rules: &[TagRule], found: &[Vec<Uid>]) {
    if context.global.json {
        for (rule, uids) in rules.iter().zip(found) {
            let mut json = Json::line(context.out.buffer(), "rule");
            json.key("rule").str(&rule.name);
            json.key("query").str(&rule.query);
            json.key("selected").number(uids.len() as u64);
            json.end_line();
        }
        return;
    }
    let mut table = Table::new(&[Align::Right, Align::Left]);
    for (rule, uids) in rules.iter().zip(found) {
        table.row([grouped(uids.len() as u64), visible(rule.name.as_bytes())]);
    }
    table.write(context.out.buffer(), "");
}
