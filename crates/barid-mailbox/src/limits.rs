//! Bounds on memory.

/// Size of the largest message that [`Storage::read`](crate::Storage::read) and similar methods
/// read as a whole: 16 MB. For a larger one they fail with
/// [`Error::MessageTooLarge`](crate::Error::MessageTooLarge); use
/// [`Storage::open_message`](crate::Storage::open_message).
pub const WHOLE_LEN_MAX: u64 = 16 << 20;
