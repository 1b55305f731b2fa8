//! mbx files of c-client, of ours, and of nobody's right mind.

mod changing;
mod corpora;
mod crash;
mod peers;
mod scanning;

pub(crate) mod support;
