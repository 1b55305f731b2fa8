//! The tests that need corpora, other programs or a real file system.

#[cfg(test)]
mod check;
#[cfg(test)]
mod child;
#[cfg(test)]
mod create;
#[cfg(test)]
mod killed;
#[cfg(test)]
mod mbox;
#[cfg(test)]
mod mbx;
#[cfg(test)]
mod mix;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod support;
