//! Metadata of mailboxes and of the server (RFC 5464), in the state of the tree.

use std::collections::BTreeMap;

use barid_imap::backend::MetadataEntries;
use barid_imap::command::MailboxName;

use crate::error::{Error, Result};
use crate::limits::{
    METADATA_ENTRIES_MAX, METADATA_LEN_MAX, METADATA_NAME_LEN_MAX, METADATA_VALUE_LEN_MAX,
};
use crate::names::NamedPlace;
use crate::state::{Metadata, NameState, TreeState, key_of, place_of_key};
use crate::tree::{FolderTree, Occupant};

/// Beginnings of the names of entries (RFC 5464 §3.2).
const SCOPES: [&str; 2] = ["/private/", "/shared/"];

impl FolderTree {
    /// Returns the metadata of a mailbox, or of the server for an empty name: entries, whose names
    /// are in lower case, in order.
    ///
    /// # Errors
    /// [`Error::NoSuchMailbox`]; errors of the file system.
    pub fn metadata(&self, name: &MailboxName) -> Result<Vec<(String, Vec<u8>)>> {
        let place = self.place_with_metadata(name)?;
        self.settle()?;
        let Some(folder) = self.state_folder()? else { return Ok(Vec::new()) };
        let state = self.read_state(&folder)?;
        let metadata = match place {
            None => Some(&state.server_metadata),
            Some(place) => state.names.get(&key_of(&place)).map(|name| &name.metadata),
        };
        let entries = metadata.into_iter().flatten();
        Ok(entries.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// Returns the metadata of all mailboxes that have some, by name; that of the server has the
    /// empty name. Reads one file.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn all_metadata(&self) -> Result<BTreeMap<String, MetadataEntries>> {
        self.settle()?;
        let state = self.state_for_reading()?;
        let of_name =
            |(key, name): (String, NameState)| (self.name_of(&place_of_key(&key)), name.metadata);
        let server = (String::new(), state.server_metadata);
        let all = state.names.into_iter().map(of_name).chain([server]);
        let all = all.filter(|(_, metadata)| !metadata.is_empty());
        Ok(all.map(|(name, metadata)| (name, metadata.into_iter().collect())).collect())
    }

    /// Sets metadata entries of a mailbox, or of the server for an empty name, or removes those
    /// without a value: all or none, durably.
    ///
    /// **Commit point:** the rename of the new file `names` into its place.
    ///
    /// # Errors
    /// [`Error::MetadataName`], [`Error::MetadataTooLong`], [`Error::TooMuchMetadata`],
    /// [`Error::NoSuchMailbox`]; errors of the file system. Nothing is changed then.
    pub fn set_metadata(
        &self,
        name: &MailboxName,
        entries: &[(String, Option<Vec<u8>>)],
    ) -> Result<()> {
        for (entry, value) in entries {
            check_entry(entry, value.as_deref())?;
        }
        let mut change = self.begin()?;
        let state = &mut change.state;
        match self.place_with_metadata(name)? {
            None => set(&mut state.server_metadata, entries)?,
            Some(place) => {
                let key = key_of(&place);
                let (uses, mut metadata) = state.take_properties(&key);
                set(&mut metadata, entries)?;
                state.give_properties(&key, (uses, metadata));
            }
        }
        match TreeState::metadata_len(state) > METADATA_LEN_MAX {
            true => Err(Error::TooMuchMetadata),
            false => change.make(Vec::new()),
        }
    }

    /// Returns the place of a mailbox that exists; `None` for the server.
    fn place_with_metadata(&self, name: &MailboxName) -> Result<Option<NamedPlace>> {
        if name.0.is_empty() {
            return Ok(None);
        }
        let place = self.rules.parse(&name.0)?;
        // INBOX is there for everybody, even before its first message.
        let exists = place == NamedPlace::Inbox
            || matches!(self.occupant(&place, &name.0)?.1, Occupant::Mailbox(_));
        match exists {
            true => Ok(Some(place)),
            false => Err(Error::NoSuchMailbox { name: name.0.clone() }),
        }
    }
}

/// Checks the name and value of an entry (RFC 5464 §5).
fn check_entry(entry: &str, value: Option<&[u8]>) -> Result<()> {
    let refuse = |why| Err(Error::MetadataName { entry: entry.to_owned(), why });
    let lower = entry.to_ascii_lowercase();
    if entry.len() > METADATA_NAME_LEN_MAX {
        return refuse("the name is too long");
    }
    if !SCOPES.iter().any(|scope| lower.len() > scope.len() && lower.starts_with(scope)) {
        return refuse("the name begins with neither /private/ nor /shared/");
    }
    if entry.contains(['*', '%']) || entry.contains("//") || entry.ends_with('/') {
        return refuse("the name is not valid");
    }
    if !entry.chars().all(|c| matches!(c, ' '..='~')) {
        return refuse("the name is not ASCII");
    }
    match value.is_some_and(|value| value.len() > METADATA_VALUE_LEN_MAX) {
        true => Err(Error::MetadataTooLong { entry: entry.to_owned() }),
        false => Ok(()),
    }
}

fn set(metadata: &mut Metadata, entries: &[(String, Option<Vec<u8>>)]) -> Result<()> {
    for (entry, value) in entries {
        let entry = entry.to_ascii_lowercase();
        match value {
            Some(value) => metadata.insert(entry, value.clone()),
            None => metadata.remove(&entry),
        };
    }
    match metadata.len() > METADATA_ENTRIES_MAX {
        true => Err(Error::TooMuchMetadata),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_checked() {
        for entry in ["/private/comment", "/Shared/Vendor/x/y", "/PRIVATE/a b"] {
            assert!(check_entry(entry, Some(b"")).is_ok(), "{entry}");
        }
        for entry in [
            "",
            "comment",
            "/private",
            "/private/",
            "/other/x",
            "/private/a*",
            "/private/%",
            "/private//a",
            "/private/a/",
            "/private/ä",
            "/private/\r",
        ] {
            assert!(check_entry(entry, None).is_err(), "{entry}");
        }
        let long = vec![0; METADATA_VALUE_LEN_MAX + 1];
        assert!(check_entry("/private/a", Some(&long[1..])).is_ok());
        assert!(check_entry("/private/a", Some(&long)).is_err());
    }
}
