//! Which messages are dropped because one like them came before.

use std::collections::HashMap;

use barid_message::{Profile, field, message_id};
use barid_types::Uid;
use xxhash_rust::xxh3::xxh3_128;

use super::text::Digest;

/// By what messages are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dedupe {
    /// Their `Message-ID` fields. A message without one is like none.
    MessageId,
    /// Their texts, but for line ends.
    Content,
}

/// A message that is dropped, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The message.
    pub uid: Uid,
    /// The one before it that is like it, and is kept.
    pub like: Uid,
    /// Its message id, if that is what is alike.
    pub message_id: Option<Vec<u8>>,
    /// Whether the texts are the same.
    pub same_content: bool,
}

/// The messages that were kept.
#[derive(Debug)]
pub(super) enum Deduper {
    MessageId(HashMap<u128, (Uid, Digest)>),
    Content(HashMap<Digest, Uid>),
}

impl Deduper {
    pub(super) fn new(dedupe: Dedupe) -> Self {
        match dedupe {
            Dedupe::MessageId => Self::MessageId(HashMap::new()),
            Dedupe::Content => Self::Content(HashMap::new()),
        }
    }

    /// Why a message is dropped; else it is one of those that are kept.
    pub(super) fn drops(
        &mut self,
        uid: Uid,
        digest: &Digest,
        id: Option<&[u8]>,
    ) -> Option<Dropped> {
        match self {
            Self::Content(kept) => {
                let like = *kept.entry(*digest).or_insert(uid);
                let dropped = Dropped { uid, like, message_id: None, same_content: true };
                (like != uid).then_some(dropped)
            }
            Self::MessageId(kept) => {
                let id = id?;
                let (like, other) = *kept.entry(xxh3_128(id)).or_insert((uid, *digest));
                let (message_id, same_content) = (Some(id.to_vec()), other == *digest);
                (like != uid).then_some(Dropped { uid, like, message_id, same_content })
            }
        }
    }

    /// A message that was to be kept is not: what is like it may be.
    pub(super) fn forget(&mut self, uid: Uid, digest: &Digest, id: Option<&[u8]>) {
        match self {
            Self::Content(kept) => {
                if kept.get(digest) == Some(&uid) {
                    kept.remove(digest);
                }
            }
            Self::MessageId(kept) => {
                let Some(key) = id.map(xxh3_128) else { return };
                if kept.get(&key).is_some_and(|(kept, _)| *kept == uid) {
                    kept.remove(&key);
                }
            }
        }
    }
}

/// The message id of a text.
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
        check(Dedupe::MessageId, &[None, None, Some(1), None, None, Some(1)]);
        check(Dedupe::Content, &[None, Some(1), None, None, Some(4), Some(1)]);
    }
}
