//! The caches of a folder: what there is, whether it is sound, and getting rid of it.
