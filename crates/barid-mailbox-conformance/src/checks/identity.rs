//! The check of the identity.

use barid_state::Identity;
use barid_types::Flag;

use super::{adding, filled};
use crate::fixture::Fixture;

pub(super) fn it_is_that_of_every_handle(fixture: &dyn Fixture) {
    let mut session = filled(fixture, 2);
    let identity = session.storage.identity(true).unwrap();
    assert_eq!(fixture.open().identity(false).unwrap(), identity, "another handle");
    let first = session.uids()[0];
    session.sync(&adding(first, Flag::Seen), &[]);
    assert_eq!(session.storage.identity(true).unwrap().id, identity.id, "after a change");
    assert_eq!(fixture.open().identity(true).unwrap().id, identity.id, "another handle, after it");
    assert!(!session.storage.is_replaced(&identity).unwrap(), "it is still there");
    let other = Identity { id: identity.id ^ 1, inode: identity.inode ^ 1, ..identity };
    assert!(fixture.open().is_replaced(&other).unwrap(), "it is not the other");
}
