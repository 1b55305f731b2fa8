//! The tests that need more than one part of the crate.

#[cfg(test)]
mod boxes;
#[cfg(test)]
mod child;
#[cfg(test)]
mod corpora;
#[cfg(test)]
mod peers;
