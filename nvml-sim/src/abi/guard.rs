//! The border: nothing unwinds across it, and no pointer is followed unchecked.

#![expect(unsafe_code, reason = "writes through pointers that a C caller passes")]

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::code::{Code, Result};

/// Runs the body of an exported function; a panic becomes "unknown error".
pub(super) fn guard(body: impl FnOnce() -> Result<()>) -> u32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Code::SUCCESS,
        Ok(Err(code)) => code.0,
        Err(_) => Code::UNKNOWN.0,
    }
}

/// Writes an answer.
///
/// # Safety
/// `out` is null, or points to memory that may be written as a `T`.
pub(super) unsafe fn put<T>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() || !out.is_aligned() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: not null, aligned, and writable as the caller promises.
    unsafe { out.write(value) };
    Ok(())
}

/// Reads an argument that the caller passes by reference.
///
/// # Safety
/// `from` is null, or points to an initialised `T`.
pub(super) unsafe fn get<T: Copy>(from: *const T) -> Result<T> {
    if from.is_null() || !from.is_aligned() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: not null, aligned, and initialised as the caller promises.
    Ok(unsafe { from.read() })
}

/// Writes a text with its terminating zero.
///
/// # Safety
/// `out` is null, or points to `length` bytes that may be written.
pub(super) unsafe fn put_text(out: *mut c_char, length: u32, text: &str) -> Result<()> {
    if out.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    let length = usize::try_from(length).map_err(|_| Code::INVALID_ARGUMENT)?;
    if text.len() >= length {
        return Err(Code::INSUFFICIENT_SIZE);
    }
    // SAFETY: `text` and a zero fit into the `length` bytes that the caller promises.
    unsafe {
        out.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
        out.add(text.len()).write(0);
    }
    Ok(())
}

/// Reads a text argument; one that is not UTF-8 names nothing here.
///
/// # Safety
/// `text` is null, or points to bytes that end with a zero.
pub(super) unsafe fn get_text<'a>(text: *const c_char) -> Result<&'a str> {
    if text.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: not null, and ends with a zero as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| Code::NOT_FOUND)
}

/// Answers with a list in NVML's way: with `items` null or `count` too small, only the count and
/// "insufficient size" (nothing at all is success).
///
/// # Safety
/// `count` is null or points to a `u32`; `items` is null or points to as many `T` as it says.
pub(super) unsafe fn put_list<T>(count: *mut u32, items: *mut T, list: Vec<T>) -> Result<()> {
    // SAFETY: as promised for `count`.
    let room = unsafe { get(count) }?;
    let length = u32::try_from(list.len()).map_err(|_| Code::UNKNOWN)?;
    // SAFETY: as promised for `count`.
    unsafe { put(count, length) }?;
    if length == 0 {
        return Ok(());
    }
    if room < length || items.is_null() {
        return Err(Code::INSUFFICIENT_SIZE);
    }
    for (at, item) in list.into_iter().enumerate() {
        // SAFETY: `at` is below `length`, which is at most the number of items that there are.
        unsafe { put(items.add(at), item) }?;
    }
    Ok(())
}
