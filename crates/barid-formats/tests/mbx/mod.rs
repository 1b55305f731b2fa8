//! mbx files of c-client, of barid, and damaged ones.

mod changing;
mod corpora;
mod crash;
mod peers;
mod scanning;

pub(crate) mod support;
