//! Tests of whole scans and syncs.

mod changing;
mod crashing;
mod dovecot;
mod racing;
mod scanning;
mod support;
