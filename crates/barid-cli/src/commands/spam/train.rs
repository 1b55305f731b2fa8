//! `barid spam train`, `untrain` and `retrain`: train the filter.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use barid_spam::wordlist::Class;
use barid_spam::{At, Became, Source, SpamOptions, Trained, Trainer, TrainingKind};
use clap::{Args, ValueHint};

use super::damage::warn_of;
use super::input::{FromStdin, Input, MessagesArgs, inputs, read_stdin, select};
use super::{DateArgs, ListArgs, ProfileArgs, stop_on_signal};
use crate::context::Context;
use crate::exit::{Outcome, WithHint, report};
use crate::limits::FAILED_SHOWN;
use crate::mail::numbering::NumberingArgs;
use crate::mail::selection::{MessageSelection, SelectedMessages, Selector};
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::counted;

const TRAIN_EXAMPLES: &str = "\
Examples:
  barid spam train --spam ~/Maildir/.Junk
  barid spam train --ham ~/Maildir archive.mbox
  barid spam train --spam junk/*.eml
  barid spam train --ham ~/Maildir --uids 'list:rust or is:answered'
  barid spam train --spam < message.eml    or < junk.mbox

A message that was trained before is skipped, so a mailbox can be given again when it has more
messages; one that was trained as the other class needs --retrain. If the command is interrupted,
run it again.

Exit status: 2 if a message could not be read, or stays counted as the other class.";

const UNTRAIN_EXAMPLES: &str = "\
Examples:
  barid spam untrain ~/Maildir/.Junk --uids 17
  barid spam untrain message.eml
  barid spam untrain --spam old-junk.mbox  only messages trained as spam
  barid spam untrain --registered --spam message.eml  also what `barid bogofilter -s` registered

Exit status: 1 if the filter was trained with none of the messages, 2 if one could not be read.";

const RETRAIN_EXAMPLES: &str = "\
Examples:
  barid spam retrain --ham ~/Maildir/.Junk --uids 17
  barid spam retrain --spam missed.eml
  barid spam retrain --registered --spam missed.eml  after `barid bogofilter -u`

Exit status: 2 if a message could not be read, or was left unchanged.";

/// Train the filter with spam or ham
#[derive(Debug, Args)]
#[command(after_long_help = TRAIN_EXAMPLES)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    class: ClassArgs,
    /// Move messages that were trained as the other class, as `barid spam retrain` does
    #[arg(long)]
    retrain: bool,
    #[command(flatten)]
    what: WhatArgs,
}

/// Undo the training of messages
#[derive(Debug, Args)]
#[command(after_long_help = UNTRAIN_EXAMPLES)]
pub(crate) struct UntrainArgs {
    /// Only messages that were trained as spam
    #[arg(long, group = "class")]
    spam: bool,
    /// Only messages that were trained as ham
    #[arg(long, group = "class")]
    ham: bool,
    /// Also messages without a receipt that were registered as that class by `barid bogofilter` or
    /// in a loaded dump: subtract their words, as `bogofilter -S` or `-N` does
    #[arg(long, requires = "class")]
    registered: bool,
    #[command(flatten)]
    what: WhatArgs,
}

/// Train the filter with spam or ham, whatever the messages counted as before
///
/// Messages that counted as the other class are moved in one step.
#[derive(Debug, Args)]
#[command(after_long_help = RETRAIN_EXAMPLES)]
pub(crate) struct RetrainArgs {
    #[command(flatten)]
    class: ClassArgs,
    /// Assume that messages without a receipt were registered as the other class by `barid
    /// bogofilter` or in a loaded dump, as `bogofilter -Sn` or `-Ns` does
    #[arg(long)]
    registered: bool,
    #[command(flatten)]
    what: WhatArgs,
}

/// The options for the class.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
struct ClassArgs {
    /// The messages are spam
    #[arg(long)]
    spam: bool,
    /// The messages are ham
    #[arg(long)]
    ham: bool,
}

impl ClassArgs {
    fn class(&self) -> Class {
        if self.spam { Class::Spam } else { Class::Ham }
    }
}

/// The messages to train with, the word list, and the options of training.
#[derive(Clone, Debug, Args)]
struct WhatArgs {
    /// The messages: mailboxes (paths, or FORMAT:PATH) and files with one message each; without a
    /// name, or with `-`, a message or an mbox is read from standard input
    #[arg(value_name = "MAILBOX|FILE", value_hint = ValueHint::AnyPath)]
    names: Vec<OsString>,
    #[command(flatten)]
    messages: MessagesArgs,
    #[command(flatten)]
    numbering: NumberingArgs,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    date: DateArgs,
}

/// Trains messages.
pub(crate) fn train(context: &mut Context, args: &TrainArgs) -> anyhow::Result<Outcome> {
    let class = args.class.class();
    let kind = if args.retrain { TrainingKind::Retrain(class) } else { TrainingKind::Train(class) };
    teach(context, kind, false, &args.what)
}

/// Undoes the training of messages.
pub(crate) fn untrain(context: &mut Context, args: &UntrainArgs) -> anyhow::Result<Outcome> {
    let class = match (args.spam, args.ham) {
        (true, _) => Some(Class::Spam),
        (_, true) => Some(Class::Ham),
        _ => None,
    };
    teach(context, TrainingKind::Untrain(class), args.registered, &args.what)
}

/// Trains messages again as the given class.
pub(crate) fn retrain(context: &mut Context, args: &RetrainArgs) -> anyhow::Result<Outcome> {
    teach(context, TrainingKind::Retrain(args.class.class()), args.registered, &args.what)
}

/// Messages that could not be trained, and notes on single messages.
#[derive(Default)]
struct SkippedMessages {
    failed: Vec<(String, Became)>,
    details: Vec<String>,
    is_detailed: bool,
}

impl SkippedMessages {
    fn add(&mut self, name: String, became: Became) {
        let what = match became {
            Became::Unreadable(_) | Became::Unknown => return self.failed.push((name, became)),
            _ if !self.is_detailed => return,
            Became::Already(class) => format!("already counts as {}", name_of(class)),
            Became::Otherwise(class) => format!("stays counted as {}", name_of(class)),
            Became::Never => "was never trained".to_owned(),
            Became::Unreceipted => "has no receipt, and stays unchanged".to_owned(),
            Became::Gone => "no longer exists".to_owned(),
            _ => return,
        };
        self.details.push(format!("{name}: {what}"));
    }
}

fn teach(
    context: &mut Context,
    kind: TrainingKind,
    registered: bool,
    args: &WhatArgs,
) -> anyhow::Result<Outcome> {
    let inputs = inputs(context, &args.names)?;
    let selection =
        args.messages.selection(context, &inputs, Selector::changing("nothing is trained"))?;
    let stop = stop_on_signal(context)?;
    context.has_changed.set(true);
    let mut told =
        SkippedMessages { is_detailed: context.global.verbose, ..SkippedMessages::default() };
    let shown = Arc::clone(&stop);
    let (filter, trained) = context.with_line(Some(shown), |progress| {
        let options = SpamOptions {
            profile: args.profile.profile.profile(),
            date: args.date.date,
            stop: Some(stop),
            progress,
            ..SpamOptions::default()
        };
        let filter = args.list.filter(context, options)?;
        let mut trainer = filter.trainer(kind)?;
        if registered {
            trainer = trainer.taking_registered();
        }
        for input in &inputs {
            take(context, &mut trainer, (input, selection.as_ref(), args), &mut told)?;
        }
        // Messages that are only written now need no note, because they were trained.
        let trained = trainer.finish(&mut |_, _| {})?;
        anyhow::Ok((filter, trained))
    })?;
    warn_of(context, &filter);
    print(context, kind, &trained)?;
    finish(context, kind, &trained, told)
}

fn take(
    context: &Context,
    trainer: &mut Trainer<'_>,
    (input, selection, args): (&Input, Option<&MessageSelection>, &WhatArgs),
    told: &mut SkippedMessages,
) -> anyhow::Result<()> {
    match input {
        Input::Mailbox(name) => {
            let mut mailbox = context.open(name)?;
            let names_uids = selection.is_some_and(MessageSelection::names_uids);
            args.numbering.check(&mailbox, names_uids)?;
            let SelectedMessages { selected, unreadable, attachments, .. } =
                select(&mut mailbox, selection)?;
            attachments.report(context);
            for uid in &selected.missing {
                let path = name.clone().into();
                let error = barid::Error::NoSuchMessage { path, uid: *uid };
                told.failed.push((in_mailbox(name, *uid), Became::Unreadable(error.into())));
            }
            for (uid, error) in unreadable {
                told.failed.push((in_mailbox(name, uid), Became::Unreadable(error.into())));
            }
            let source = Source::Mailbox(&mut mailbox, &selected.uids);
            trainer.add(source, &mut |at, became| {
                if let At::Uid(uid) = at {
                    told.add(in_mailbox(name, uid), became);
                }
            })?;
        }
        Input::Files(files) => trainer.add(Source::Files(files), &mut |at, became| {
            if let At::Index(index) = at
                && let Some(file) = files.get(index)
            {
                told.add(file.display().to_string(), became);
            }
        })?,
        Input::Stdin => {
            let name = |at: At| match at {
                At::Uid(uid) => format!("standard input, message {uid}"),
                At::Index(_) => "standard input".to_owned(),
            };
            let tell = &mut |at, became| told.add(name(at), became);
            match read_stdin(context)? {
                FromStdin::Message(message) => {
                    trainer.add(Source::Messages(&[&message[..]]), tell)?;
                }
                FromStdin::Mbox(mut mailbox) => {
                    let uids = select(&mut mailbox, None)?.selected.uids;
                    trainer.add(Source::Mailbox(&mut mailbox, &uids), tell)?;
                }
            }
        }
    }
    Ok(())
}

fn in_mailbox(name: &OsStr, uid: barid::Uid) -> String {
    format!("{}, UID {uid}", name.display())
}

fn name_of(class: Class) -> &'static str {
    match class {
        Class::Spam => "spam",
        Class::Ham => "ham",
    }
}

/// Returns the names of a kind and its class.
fn words(kind: TrainingKind) -> (&'static str, Option<&'static str>) {
    match kind {
        TrainingKind::Train(class) => ("train", Some(name_of(class))),
        TrainingKind::Untrain(class) => ("untrain", class.map(name_of)),
        TrainingKind::Retrain(class) => ("retrain", Some(name_of(class))),
    }
}

fn print(context: &mut Context, kind: TrainingKind, trained: &Trained) -> anyhow::Result<()> {
    let (verb, class) = words(kind);
    let counts = [
        ("messages", trained.messages),
        ("trained", trained.trained),
        ("untrained", trained.untrained),
        ("moved", trained.moved),
        ("already", trained.already),
        ("otherwise", trained.otherwise),
        ("never", trained.never),
        ("unreceipted", trained.unreceipted),
        ("gone", trained.gone),
        ("failed", trained.failed),
    ];
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "spam_trained");
        json.key("kind").str(verb);
        json.key("class");
        match class {
            Some(class) => json.str(class),
            None => json.null(),
        }
        for (key, count) in counts {
            json.key(key).number(count);
        }
        json.key("generation");
        match trained.generation {
            0 => json.null(),
            generation => json.number(generation),
        }
        json.key("stopped").bool(trained.is_stopped);
        json.end_line();
        return Ok(());
    }
    let class = class.unwrap_or_default();
    let told = [
        (trained.trained, format!("learned as {class}")),
        (trained.untrained, "untrained".to_owned()),
        (trained.moved, format!("moved to {class}")),
        (trained.already, format!("counted as {class} before")),
        (trained.otherwise, "stay counted as the other class".to_owned()),
        (trained.never, "never trained".to_owned()),
        (trained.unreceipted, "without a receipt, left unchanged".to_owned()),
    ];
    let parts: Vec<String> = told
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", counted(count, "message")))
        .collect();
    let text = if parts.is_empty() { "no messages".to_owned() } else { parts.join("; ") };
    Ok(context.out.line(&text)?)
}

/// Warns of messages without a receipt, with which the list may have been trained nevertheless.
fn warn_of_unreceipted(context: &Context, kind: TrainingKind, trained: &Trained) {
    if trained.unreceipted == 0 || context.global.quiet {
        return;
    }
    let what = "the list counts messages that have no receipt, such as those that `barid \
                bogofilter` registered; these may be some of them";
    let hint = match kind {
        TrainingKind::Retrain(class) => format!(
            "if they were registered as the other class, add --registered; if they were never \
             registered, use `barid spam train --{}`",
            name_of(class)
        ),
        _ => "if so, name their class: `barid spam untrain --registered --spam` (or --ham) \
              subtracts their words, as `bogofilter -S` (or -N) does"
            .to_owned(),
    };
    context.warn(what);
    context.error_line("hint", &visible(hint.as_bytes()));
}

fn finish(
    context: &Context,
    kind: TrainingKind,
    trained: &Trained,
    told: SkippedMessages,
) -> anyhow::Result<Outcome> {
    told.details.iter().for_each(|text| context.detail(text));
    if trained.floored > 0 {
        let counts = counted(trained.floored, "count");
        let why = "words were forgotten since, or the training used others";
        context.warn(&format!("{counts} would have gone below zero: {why}"));
    }
    warn_of_unreceipted(context, kind, trained);
    if let TrainingKind::Train(class) = kind
        && trained.otherwise > 0
    {
        let (count, class) = (counted(trained.otherwise, "message"), name_of(class));
        let other = if class == "spam" { "ham" } else { "spam" };
        let text = format!("{count} given as {class} were trained as {other} before, and stay so");
        context.error_line("error", &text);
        let hint = format!("`barid spam train --retrain --{class}` moves them to {class}");
        context.error_line("hint", &visible(hint.as_bytes()));
    }
    let count = told.failed.len();
    for (name, became) in told.failed.into_iter().take(FAILED_SHOWN) {
        let error = match became {
            Became::Unreadable(error) => anyhow::Error::new(error).context(name),
            _ => WithHint::error(
                format!("{name}: trained by a later version of barid"),
                "untrain it with that version",
            ),
        };
        report(context, &error);
    }
    if count > FAILED_SHOWN {
        let more = counted((count - FAILED_SHOWN) as u64, "more message");
        context.error_line("error", &visible(format!("{more} could not be read").as_bytes()));
    }
    if trained.is_stopped {
        return Err(WithHint::error(
            "interrupted before all messages were read",
            "run it again to continue: trained messages are skipped",
        ));
    }
    let is_in_vain = matches!(kind, TrainingKind::Untrain(_)) && trained.untrained == 0;
    let is_left = match kind {
        TrainingKind::Retrain(_) => trained.unreceipted > 0,
        TrainingKind::Train(_) => trained.otherwise > 0,
        TrainingKind::Untrain(_) => false,
    };
    Ok(match count {
        0 if is_in_vain => Outcome::NothingMatched,
        0 if !is_left => Outcome::Done,
        _ => Outcome::Incomplete,
    })
}
