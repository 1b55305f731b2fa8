//! Archives of public-inbox keep the promises of a storage that can only be read, whatever git and
//! public-inbox do to them.

mod archive;
mod damage;
mod history;
mod peer;
