//! The history of an epoch as a list of events: messages that were added and deleted.
//!
//! Commits are followed from the tip to the first parent of each, as far as a known commit or the
//! end of a shallow clone. As in `git log --raw`, which public-inbox reads, a commit counts for the
//! files that differ from those of its parent: one that leaves `m` alone adds nothing. An empty
//! blob is a message that was purged.

use barid_mailbox::{Error, Result};
use barid_types::InternalDate;

use super::git::{
    Commit, MessageOfTree, ObjectKind, ObjectReader, Oid, Repository, Tip, message_of_tree,
};
use super::layout::COMMITS_MAX;

/// Something that happened to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageEvent {
    /// The blob of the message.
    pub(super) blob: Oid,
    /// `true` if it was deleted, `false` if it was added.
    pub(super) is_deletion: bool,
    /// The time of its committer.
    pub(super) committed: InternalDate,
}

/// Events of an epoch.
#[derive(Debug, Default)]
pub(super) struct EpochHistory {
    /// The events, the oldest first.
    pub(super) events: Vec<MessageEvent>,
    /// `true` if the commit `until` was met, so that these are only the newer ones.
    pub(super) is_continued: bool,
    /// Trees that cannot be read.
    pub(super) unread: UnreadTrees,
}

/// Number of trees that cannot be read, if there are any, with the problem of the first one.
pub(super) type UnreadTrees = Option<(u64, Error)>;

/// A commit with the files of its tree.
struct CommitFiles {
    commit: Commit,
    files: Option<MessageOfTree>,
}

/// Reads the history from `tip` back to the commit `until`, which is left out, or to its beginning.
///
/// # Errors
/// [`Error::Object`] if a commit is missing or damaged: without it, nothing before it is known.
pub(super) fn read(
    repository: Repository<'_>,
    reader: &mut ObjectReader,
    tip: &Tip,
    until: Option<Oid>,
) -> Result<EpochHistory> {
    let mut history = EpochHistory::default();
    let Some(newest) = tip.commit else {
        history.is_continued = until.is_none();
        return Ok(history);
    };
    if until == Some(newest) {
        history.is_continued = true;
        return Ok(history);
    }
    // A commit cannot be among its own ancestors, but a damaged index may claim that.
    let (mut checkpoint, mut steps, mut steps_max) = (newest, 0_u64, 1_u64);
    let (mut oid, mut commits) = (newest, 0_usize);
    let mut step = read_step(repository, reader, oid, &mut history)?;
    loop {
        commits += 1;
        if commits > COMMITS_MAX {
            let problem = "is not read: more than 268,435,456 commits follow it";
            return Err(broken(repository, oid, problem));
        }
        let parent = step.commit.parent.filter(|_| tip.shallow.binary_search(&oid).is_err());
        let before = match parent {
            Some(parent) => {
                (steps, oid) = (steps + 1, parent);
                if oid == checkpoint {
                    let problem = "is among its own ancestors";
                    return Err(broken(repository, oid, problem));
                }
                if steps == steps_max {
                    (checkpoint, steps, steps_max) = (oid, 0, steps_max * 2);
                }
                Some(read_step(repository, reader, oid, &mut history)?)
            }
            None => None,
        };
        add(&step, before.as_ref(), &mut history.events);
        match before {
            Some(_) if until == Some(oid) => {
                history.is_continued = true;
                break;
            }
            Some(before) => step = before,
            None => break,
        }
    }
    history.events.reverse();
    Ok(history)
}

/// Adds the events of a commit, the last one first.
fn add(step: &CommitFiles, before: Option<&CommitFiles>, events: &mut Vec<MessageEvent>) {
    let Some(files) = step.files else { return };
    let before = before.and_then(|before| before.files).unwrap_or_default();
    let committed = step.commit.committed;
    let mut event = |now: Option<Oid>, then: Option<Oid>, is_deletion: bool| {
        let changed = now.filter(|blob| Some(*blob) != then && *blob != Oid::EMPTY_BLOB);
        events.extend(changed.map(|blob| MessageEvent { blob, is_deletion, committed }));
    };
    event(files.added, before.added, false);
    event(files.deleted, before.deleted, true);
}

fn read_step(
    repository: Repository<'_>,
    reader: &mut ObjectReader,
    oid: Oid,
    history: &mut EpochHistory,
) -> Result<CommitFiles> {
    let text = reader.read(repository, oid, ObjectKind::Commit).map_err(|error| error.of(oid))?;
    let Some(commit) = Commit::parse(&text) else {
        return Err(broken(repository, oid, "is a damaged commit"));
    };
    let files = reader.read(repository, commit.tree, ObjectKind::Tree);
    let files = files.map_err(|error| (error.is_ours(), error.of(commit.tree)));
    let files = files.and_then(|tree| {
        let problem = || (false, broken(repository, commit.tree, "is a damaged tree"));
        message_of_tree(&tree).ok_or_else(problem)
    });
    let files = match files {
        Ok(files) => Some(files),
        Err((true, error)) => return Err(error),
        Err((false, error)) => {
            history.unread.get_or_insert((0, error)).0 += 1;
            None
        }
    };
    Ok(CommitFiles { commit, files })
}

fn broken(repository: Repository<'_>, oid: Oid, problem: &'static str) -> Error {
    let (path, object) = (repository.path().to_owned(), oid.to_string());
    Error::Object { path, object, problem }
}
