//! Dropping messages that duplicate an earlier one, or one in the target.

use std::collections::HashMap;

use barid_message::{Profile, field, message_id};
use barid_types::Uid;
use xxhash_rust::xxh3::xxh3_128;

use super::text::Digest;

/// The criterion by which messages are duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dedupe {
    /// Their `Message-ID` fields; for messages without one, their texts.
    MessageId,
    /// Their texts, except for line ends and for quoting that the target does not undo.
    Content,
}

/// A dropped message, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// UID of the message.
    pub uid: Uid,
    /// UID of the kept message that it duplicates.
    pub like: Uid,
    /// `true` if [`Dropped::like`] is a message that was in the target before the copy, by its UID
    /// there.
    pub is_in_target: bool,
    /// The common message id, if messages are compared by ids.
    pub message_id: Option<Vec<u8>>,
    /// `true` if the texts are the same.
    pub same_content: bool,
}

/// A message with which others are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ComparedMessage {
    /// A message of the source, which is copied.
    Source(Uid),
    /// A message that was in the target before.
    Target(Uid),
}

/// The messages that were kept.
#[derive(Debug)]
pub(super) struct Deduper {
    by_id: bool,
    ids: HashMap<u128, (ComparedMessage, Digest)>,
    texts: HashMap<Digest, ComparedMessage>,
}

impl Deduper {
    pub(super) fn new(dedupe: Dedupe) -> Self {
        let by_id = dedupe == Dedupe::MessageId;
        Self { by_id, ids: HashMap::new(), texts: HashMap::new() }
    }

    /// Returns `true` if messages are compared by their ids.
    pub(super) fn wants_ids(&self) -> bool {
        self.by_id
    }

    /// Records a message that is in the target.
    pub(super) fn has(&mut self, uid: Uid, digest: &Digest, id: Option<&[u8]>) {
        let kept = ComparedMessage::Target(uid);
        match id.filter(|_| self.by_id) {
            Some(id) => drop(self.ids.entry(xxh3_128(id)).or_insert((kept, *digest))),
            None => drop(self.texts.entry(*digest).or_insert(kept)),
        }
    }

    /// Returns the reason to drop a message; `None` if it is now one of the kept messages.
    pub(super) fn drops(
        &mut self,
        uid: Uid,
        digest: &Digest,
        id: Option<&[u8]>,
    ) -> Option<Dropped> {
        let own = ComparedMessage::Source(uid);
        let id = id.filter(|_| self.by_id);
        let (kept, same_content) = match id {
            None => (*self.texts.entry(*digest).or_insert(own), true),
            Some(id) => {
                let (kept, other) = *self.ids.entry(xxh3_128(id)).or_insert((own, *digest));
                (kept, other == *digest)
            }
        };
        let (like, is_in_target) = match kept {
            ComparedMessage::Source(like) if like == uid => return None,
            ComparedMessage::Source(like) => (like, false),
            ComparedMessage::Target(like) => (like, true),
        };
        let message_id = id.map(<[u8]>::to_vec);
        Some(Dropped { uid, like, is_in_target, message_id, same_content })
    }

    /// Removes a message that could not be kept: messages like it may then be kept.
    pub(super) fn forget(&mut self, uid: Uid, digest: &Digest, id: Option<&[u8]>) {
        let own = ComparedMessage::Source(uid);
        match id.filter(|_| self.by_id).map(xxh3_128) {
            None if self.texts.get(digest) == Some(&own) => drop(self.texts.remove(digest)),
            Some(key) if self.ids.get(&key).is_some_and(|(kept, _)| *kept == own) => {
                self.ids.remove(&key);
            }
            _ => {}
        }
    }
}

/// Returns the message id of a text.
pub(super) fn message_id_of(text: &[u8]) -> Option<Vec<u8>> {
    let field = field(text, b"message-id")?;
    message_id(field.body, Profile::Rfc).map(|id| id.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(dedupe: Dedupe, expected: &[Option<u32>]) {
        let messages: [(&str, u8); 6] =
            [("<a@b>", 1), ("<c@d>", 1), ("<a@b>", 2), ("", 3), ("", 3), ("<a@b>", 1)];
        let mut deduper = Deduper::new(dedupe);
        let found: Vec<_> = (1..)
            .zip(messages)
            .map(|(uid, (id, content))| {
                let text = format!("Message-Id: {id}\n\n");
                let id = message_id_of(text.as_bytes());
                let dropped = deduper.drops(Uid::new(uid).unwrap(), &[content; 32], id.as_deref());
                dropped.map(|dropped| dropped.like.get())
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_first_of_its_like_is_kept() {
        check(Dedupe::MessageId, &[None, None, Some(1), None, Some(4), Some(1)]);
        check(Dedupe::Content, &[None, Some(1), None, None, Some(4), Some(1)]);
    }

    #[test]
    fn what_the_target_has_counts() {
        let uid = |number| Uid::new(number).unwrap();
        for dedupe in [Dedupe::MessageId, Dedupe::Content] {
            let mut deduper = Deduper::new(dedupe);
            deduper.has(uid(7), &[1; 32], Some(b"a@b"));
            deduper.has(uid(8), &[1; 32], Some(b"a@b"));
            deduper.has(uid(9), &[2; 32], None);
            let mut check = |number, content, id: Option<&[u8]>, like: Option<(u32, bool)>| {
                let dropped = deduper.drops(uid(number), &[content; 32], id);
                let found = dropped.map(|dropped| (dropped.like.get(), dropped.is_in_target));
                assert_eq!(found, like, "{dedupe:?} {number}");
            };
            check(7, 1, Some(b"a@b"), Some((7, true)));
            check(9, 2, None, Some((9, true)));
            check(10, 3, Some(b"c@d"), None);
            check(11, 3, Some(b"c@d"), Some((10, false)));
        }
    }
}
