//! A client of IMAP that shows everything a server sends: connections, responses and their values.

mod arg;
mod connection;
mod fetched;
mod response;
mod stream;
mod transcript;

pub use arg::{Arg, ArgError, code_len, parse_args};
pub use connection::Connection;
pub use fetched::{Fetched, fetch_items};
pub use response::{Reply, Response};
pub use transcript::{Transcript, shown};
