//! The folder that caches lie in.

/// The name of the cache file of a mailbox.
pub fn file_name(id: u128) -> String {
    format!("{id:032x}.bhc")
}
