//! Which UIDs appended messages get.

use barid_types::Uid;

use crate::NewMessage;

/// The highest UID that a message is given because it is to have it: 3,758,096,383. With higher
/// ones a mailbox would soon run out of UIDs, and some formats give it a new UIDVALIDITY at
/// `u32::MAX - (1 << 28)`.
pub(crate) const UID_WISHED_MAX: u32 = u32::MAX - (1 << 29);

/// The UIDs of `messages`, ascending: to each the one that it is to have, if that is above all
/// before it and not below `next`; else the next. `None` if there are not enough, and one left for
/// whoever comes next.
pub(crate) fn given_uids(next: u32, messages: &[NewMessage<'_>]) -> Option<Vec<Uid>> {
    let mut next = next;
    let mut given = Vec::with_capacity(messages.len());
    for message in messages {
        let wished = message.uid.map(Uid::get).filter(|uid| (next..=UID_WISHED_MAX).contains(uid));
        let uid = wished.unwrap_or(next);
        next = uid.checked_add(1)?;
        given.push(Uid::new(uid)?);
    }
    Some(given)
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
            let given: Option<Vec<u32>> =
                given.map(|all| all.iter().map(|uid| uid.get()).collect());
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
}
