//! A list of integers behind the code of its packing, for rows that are kept beside segments.

use super::DecodeError;
use super::bits::Reader;
use super::pack::{put_integers, read_integers};

/// Appends a list without its length; an empty one is no bytes.
pub(crate) fn put_list(out: &mut Vec<u8>, values: &[i64]) {
    if values.is_empty() {
        return;
    }
    let code_at = out.len();
    out.push(0);
    out[code_at] = put_integers(out, values);
}

/// Takes a list of `count` integers from the front of `bytes`.
pub(crate) fn take_list(bytes: &mut &[u8], count: usize) -> Result<Vec<i64>, DecodeError> {
    let mut values = Vec::new();
    if count > 0 {
        let mut reader = Reader::new(bytes);
        let code = reader.byte()?;
        read_integers(&mut reader, code, count, &mut values)?;
        *bytes = reader.rest();
    }
    Ok(values)
}
