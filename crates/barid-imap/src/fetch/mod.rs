//! The items of FETCH, and the writers of their values.

mod items;
mod write;

pub use self::items::{FetchError, FetchItem, FetchItems, Partial};
pub use self::write::{
    literal, nstring, number, string, write_bytes, write_date, write_envelope,
    write_fields_envelope, write_structure,
};
