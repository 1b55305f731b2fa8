//! Tests of whole scans and syncs.

mod changing;
mod crashing;
mod delivering;
mod dovecot;
mod hiding;
mod racing;
mod renaming;
mod scanning;
mod stopping;
mod support;
