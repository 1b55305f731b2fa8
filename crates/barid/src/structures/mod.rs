//! Structures of messages that were read once, stored beside the cache.

mod codec;

use barid_cache::Core;
use barid_types::BodyStructure;

use crate::limits::{STRUCTURE_LEN_MAX, STRUCTURES_LEN_MAX};
use crate::stored_values::{NewValues, StoredValues, ValueKind};
use crate::view::View;

const STRUCTURES: ValueKind =
    ValueKind { name: "structures", value_len_max: STRUCTURE_LEN_MAX, len_max: STRUCTURES_LEN_MAX };

/// Structures, by UID.
#[derive(Debug, Default)]
pub(crate) struct Structures(StoredValues);

/// New structures, to be stored.
#[derive(Debug, Default)]
pub(crate) struct NewStructures(NewValues);

impl NewStructures {
    /// Adds the structure of a message; structures beyond the limits are left out.
    pub(crate) fn add(&mut self, core: &Core, structure: &BodyStructure) {
        self.0.add(&STRUCTURES, core, |out| codec::encode(structure, out));
    }

    /// Adds the structures of another thread.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.append(&STRUCTURES, other.0);
    }
}

impl Structures {
    /// Returns the structure of a message, if it is stored.
    pub(crate) fn of(&self, core: &Core) -> Option<BodyStructure> {
        codec::decode(self.0.of(core)?)
    }

    /// Returns `true` if the structure of a message is stored, damaged or not.
    pub(crate) fn has(&self, core: &Core) -> bool {
        self.0.of(core).is_some()
    }
}

impl View {
    /// Loads the stored structures; none if the file is missing or damaged.
    pub(crate) fn structures(&self) -> Structures {
        Structures(self.stored_values(&STRUCTURES))
    }

    /// Stores new structures.
    pub(crate) fn keep_structures(&self, new: &NewStructures) {
        self.store_values(&STRUCTURES, &new.0);
    }
}
