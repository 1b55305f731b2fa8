//! What a store can do, as data.

/// What a store can and cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether a scan gives keys in the order of their bytes.
    pub ordered: bool,
    /// Whether a batch is there whole or not at all if the process is killed while it is applied.
    pub atomic: bool,
    /// Whether a process may have a place open only once at a time.
    pub one_handle: bool,
    /// Whether a store is a folder of files.
    pub folder: bool,
    /// The longest key.
    pub key_len_max: usize,
    /// The longest value.
    pub value_len_max: usize,
    /// The compressions of its own, the usual one first; empty if it has none.
    pub builtin: &'static [&'static str],
}

/// A library that is loaded when a store is first used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library {
    /// Its file names, the preferred one first.
    pub names: &'static [&'static str],
    /// The Debian package that has it.
    pub package: &'static str,
}
