//! What exactly is written.
