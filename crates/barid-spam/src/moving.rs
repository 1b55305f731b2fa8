//! Moving spam out of a mailbox without the risk of loss.
//!
//! A message is expunged only after its copy is durable. If the move is interrupted in between, the
//! next call finds the copy by its message id, compares the texts, and makes no second one.

use std::collections::{HashMap, HashSet};

use barid::convert::{ConvertOptions, ConvertReport, copy};
use barid::{ChangeOptions, ChangeRequest, Changed, Mailbox, ReadAs, ReadOutcome, is_too_large};
use barid_bayes::Status;
use barid_types::Uid;
use barid_wordlist::{Class, Error as ListError};

use crate::canonical::{canonical_text, content_of};
use crate::classify::OnClassified;
use crate::source::{At, Source, each};
use crate::worker::Pool;
use crate::{Filter, Result, ScoreOrigins};

/// Result of moving the spam of a mailbox.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct MovedSpam {
    /// Numbers of scores by origin.
    pub scored: ScoreOrigins,
    /// Number of spam messages.
    pub spam: u64,
    /// Number of spam messages that stay, since they were trained as ham.
    pub trusted: u64,
    /// Number of spam messages that were in the target already, from an interrupted call.
    pub found: u64,
    /// Result of the copy; `None` if there was nothing to copy.
    pub copied: Option<ConvertReport>,
    /// Result of the expunge; `None` if there was nothing to expunge.
    pub changed: Option<Changed>,
}

impl Filter {
    /// Classifies messages of a mailbox, copies the spam among them to another, and expunges the
    /// copied messages; others stay. With [`ChangeOptions::dry_run`] it only classifies. **Commit
    /// points:** as [`copy`], then as [`Mailbox::change`].
    ///
    /// # Errors
    /// Errors of these calls, and as [`Filter::classify_mailbox`].
    pub fn move_spam(
        &self,
        source: &mut Mailbox,
        uids: &[Uid],
        target: &mut Mailbox,
        options: &ChangeOptions,
        report: &mut OnClassified<'_>,
    ) -> Result<MovedSpam> {
        if source.id() == target.id() {
            let (path, what) = (target.path().to_owned(), "the target is the mailbox itself");
            return Err(barid::Error::TargetInTheWay { path, what }.into());
        }
        let mut spam = Vec::new();
        let scored = self.classify_mailbox(source, uids, false, &mut |at, found| {
            if let (At::Uid(uid), Ok(Some(found))) = (at, &found)
                && found.status == Status::Spam
            {
                spam.push(uid);
            }
            report(at, found)
        })?;
        let mut moved = MovedSpam { scored, spam: spam.len() as u64, ..MovedSpam::default() };
        let contents = self.untrusted(source, &spam)?;
        moved.trusted = moved.spam - contents.len() as u64;
        if contents.is_empty() || options.dry_run || self.is_stopped() {
            return Ok(moved);
        }
        let mut expunge = already_there(source, target, &contents)?;
        moved.found = expunge.len() as u64;
        let there: HashSet<Uid> = expunge.iter().copied().collect();
        let to_copy: Vec<Uid> =
            contents.iter().map(|(uid, _)| *uid).filter(|uid| !there.contains(uid)).collect();
        if !to_copy.is_empty() {
            let (stop, progress) = (options.stop.clone(), options.progress.clone());
            let how = ConvertOptions { stop, progress, ..ConvertOptions::default() };
            let copied = copy(source, &to_copy, target, &how, &mut |_| {})?;
            expunge.extend(copied.uids.iter().map(|(before, _)| *before));
            moved.copied = Some(copied);
        }
        if !expunge.is_empty() {
            let request = ChangeRequest { expunge, ..ChangeRequest::default() };
            moved.changed = Some(source.change(&request, options)?);
        }
        Ok(moved)
    }

    /// Returns the messages that were not trained as ham, with the keys of their texts.
    fn untrusted(&self, mailbox: &mut Mailbox, uids: &[Uid]) -> Result<Vec<(Uid, u128)>> {
        let pool = Pool::new(self);
        let make = |message: &[u8]| {
            pool.with(|worker| {
                let content = content_of(worker.maker.read(message));
                let class = match worker.list.receipts(&[content]) {
                    Ok(receipts) => receipts.first().copied().flatten().map(|it| it.class),
                    Err(ListError::Unsupported { .. }) => None,
                    Err(error) => return Err(error.into()),
                };
                Ok((content, class))
            })
        };
        let mut untrusted = Vec::new();
        let source = Source::Mailbox(mailbox, uids);
        each(&*self.vfs, source, 0, &make, &mut |at, outcome| {
            if let (At::Uid(uid), ReadOutcome::Made(made)) = (at, outcome) {
                let (content, class) = made?;
                if class != Some(Class::Ham) {
                    untrusted.push((uid, content));
                }
            }
            Ok(true)
        })?;
        Ok(untrusted)
    }
}

/// Returns those of the messages that are in the other mailbox, found by their message ids.
fn already_there(
    source: &Mailbox,
    target: &mut Mailbox,
    contents: &[(Uid, u128)],
) -> Result<Vec<Uid>> {
    if target.is_empty() {
        return Ok(Vec::new());
    }
    let mut rows = Vec::with_capacity(contents.len());
    for (uid, _) in contents {
        rows.extend(source.row_of(*uid)?);
    }
    let mut wanted: HashMap<Vec<u8>, Vec<Uid>> = HashMap::new();
    source.summaries(&rows, &mut |message| {
        if let Some(id) = message.fields.message_id {
            wanted.entry(id.to_vec()).or_default();
        }
        true
    })?;
    let all: Vec<u32> = (0..target.len()).collect();
    target.summaries(&all, &mut |message| {
        if let Some(uids) = message.fields.message_id.and_then(|id| wanted.get_mut(id)) {
            uids.push(message.uid);
        }
        true
    })?;
    let mut there = HashSet::new();
    for uid in wanted.into_values().flatten() {
        match target.read(uid, ReadAs::Message) {
            Ok(message) => drop(there.insert(content_of(&canonical_text(&message.bytes)))),
            Err(barid::Error::NoSuchMessage { .. }) => {}
            // A message of that size is neither classified nor moved.
            Err(error) if is_too_large(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(contents.iter().filter(|(_, text)| there.contains(text)).map(|(uid, _)| *uid).collect())
}
