//! Bytes as libraries take and return them: a pointer and a length.

#![expect(unsafe_code, reason = "a library says where its bytes are")]

use std::ffi::c_int;
use std::io;

use crate::ffi::failure::{Failure, Outcome};

/// Returns the address and the length of bytes that a library only reads.
pub(crate) fn parts<T>(bytes: &[u8]) -> Outcome<(*const T, c_int)> {
    let len = c_int::try_from(bytes.len());
    let len = len.map_err(|_| Failure::Io(io::ErrorKind::InvalidInput.into()))?;
    Ok((bytes.as_ptr().cast(), len))
}

/// Returns bytes of a library; none if it returned null or a negative length.
///
/// # Safety
/// `pointer` is null, or the address of `len` bytes that do not change during `'a`.
pub(crate) unsafe fn slice<'a, T>(pointer: *const T, len: impl TryInto<usize>) -> &'a [u8] {
    match len.try_into() {
        // SAFETY: the caller's promise.
        Ok(len @ 1..) if !pointer.is_null() => unsafe {
            std::slice::from_raw_parts(pointer.cast(), len)
        },
        _ => &[],
    }
}
