//! The capabilities of a store, as data.

/// The capabilities and limits of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// `true` if a scan visits keys in the order of their bytes.
    pub ordered: bool,
    /// `true` if a batch is applied completely or not at all when the process is killed meanwhile.
    pub atomic: bool,
    /// `true` if a process can have a path open only once at a time.
    pub one_handle: bool,
    /// `true` if a store is a folder of files.
    pub folder: bool,
    /// The longest key, in bytes.
    pub key_len_max: usize,
    /// The longest value, in bytes.
    pub value_len_max: usize,
    /// The built-in compressions, the default first; empty if there are none.
    pub builtin: &'static [&'static str],
}

/// A library that is loaded when a store is first used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library {
    /// Its file names, the preferred one first.
    pub names: &'static [&'static str],
    /// The Debian package that contains it.
    pub package: &'static str,
}
