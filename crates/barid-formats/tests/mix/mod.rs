//! mix mailboxes: c-client's own, ours beside c-client's, changes, damage, and the crash world.

mod changes;
mod corpora;
mod crash;
mod damage;
mod peers;
mod rounds;
mod support;
