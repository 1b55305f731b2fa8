//! Reading the objects and branches of git repositories (gitrepository-layout(5),
//! gitformat-pack(5)), as far as archives of mail need it: loose objects, packs with deltas,
//! alternates, loose and packed refs, shallow clones. SHA-1 and the `files` backend of refs only.
//!
//! Repositories are input: sizes, offsets, chains of deltas and lists are bounded
//! ([`limits`]), nothing recurses, and damage is an [`ObjectError`] that names the file. As in git,
//! the checksum of a zlib stream is verified, and the name of an object is not computed again.

mod cache;
mod delta;
mod error;
pub(super) mod limits;
mod object;
mod oid;
mod pack;
mod reader;
mod refs;
mod store;
mod stream;

pub(super) use self::error::{ObjectError, ObjectResult};
pub(super) use self::object::{Commit, MessageOfTree, ObjectKind, is_version_1, message_of_tree};
pub(super) use self::oid::Oid;
pub(super) use self::reader::{BlobHead, ObjectReader};
pub(super) use self::refs::{Tip, ref_paths, tip};
pub(super) use self::store::{GitObjects, OpenPacks, Repository};
