//! UIDs of appended messages.

use barid_mailbox::NewMessage;
use barid_types::Uid;

/// The highest UID that a message is given on request: 3,758,096,383. With higher ones a mailbox
/// would soon run out of UIDs, and some formats give it a new UIDVALIDITY above `u32::MAX - (1 <<
/// 28)`.
pub(crate) const UID_WISHED_MAX: u32 = u32::MAX - (1 << 29);

/// The UIDs of appended messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GivenUids {
    /// One for each message, ascending.
    pub(crate) uids: Vec<Uid>,
    /// The last UID that counts as given out: that of the last message, or a higher one
    /// ([`NewMessage::uidnext`]).
    pub(crate) last: u32,
}

/// Gives UIDs to `messages`: to each the UID that it requests, if that is not below the next free
/// one nor above [`UID_WISHED_MAX`]; otherwise the next free one, from `next` on. Returns `None` if
/// there are not enough UIDs to leave one for the next append.
pub(crate) fn given_uids(next: u32, messages: &[NewMessage<'_>]) -> Option<GivenUids> {
    let mut next = next;
    let mut uids = Vec::with_capacity(messages.len());
    for message in messages {
        let wished = message.uid.map(Uid::get).filter(|uid| (next..=UID_WISHED_MAX).contains(uid));
        let uid = wished.unwrap_or(next);
        let reserved = message.uidnext.map(Uid::get).filter(|uid| *uid <= UID_WISHED_MAX);
        next = uid.checked_add(1)?.max(reserved.unwrap_or(0));
        uids.push(Uid::new(uid)?);
    }
    Some(GivenUids { uids, last: next.saturating_sub(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_ascend_as_wished() {
        let check = |next: u32, wished: &[u32], expected: Option<&[u32]>| {
            let message = |uid: &u32| NewMessage { uid: Uid::new(*uid), ..NewMessage::default() };
            let messages: Vec<NewMessage<'_>> = wished.iter().map(message).collect();
            let given = given_uids(next, &messages);
            if let Some(given) = given.as_ref().filter(|given| !given.uids.is_empty()) {
                assert_eq!(given.uids.last().map(|uid| uid.get()), Some(given.last));
            }
            let given: Option<Vec<u32>> =
                given.map(|given| given.uids.iter().map(|uid| uid.get()).collect());
            assert_eq!(given.as_deref(), expected, "{next}, {wished:?}");
        };
        check(1, &[], Some(&[]));
        check(7, &[0, 0], Some(&[7, 8]));
        check(1, &[3, 0, 9, 9, 4, 20], Some(&[3, 4, 9, 10, 11, 20]));
        check(5, &[4, 5, 7], Some(&[5, 6, 7]));
        check(1, &[UID_WISHED_MAX, u32::MAX], Some(&[UID_WISHED_MAX, UID_WISHED_MAX + 1]));
        check(1, &[UID_WISHED_MAX + 1], Some(&[1]));
        check(u32::MAX - 1, &[0], Some(&[u32::MAX - 1]));
        check(u32::MAX - 1, &[0, 0], None);
        check(u32::MAX, &[0], None);
    }

    #[test]
    fn what_is_reserved_is_given_to_nobody() {
        let message = |uidnext| NewMessage { uidnext: Uid::new(uidnext), ..NewMessage::default() };
        let given = given_uids(5, &[message(9), message(7), message(20)]).unwrap();
        assert_eq!(given.uids.iter().map(|uid| uid.get()).collect::<Vec<_>>(), [5, 9, 10]);
        assert_eq!(given.last, 19);
        assert_eq!(given_uids(5, &[message(u32::MAX)]).unwrap().last, 5);
    }
}
