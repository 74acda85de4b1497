//! Ids in a block: UUIDs, bus ids, and what a slice is a slice of.

use super::super::bits::Reader;
use super::DecodeError;
use crate::id::{BusId, GpuUuid};
use crate::segment::{MigInstance, Partition};

/// The parent's UUID, then one byte each: GPU instance, compute instance, slices, slices of.
pub(super) fn put_partition(out: &mut Vec<u8>, partition: &Partition) {
    let Partition { parent, instance, slices, slices_of } = partition;
    put_uuid(out, parent);
    out.extend([instance.gpu_instance, instance.compute_instance, *slices, *slices_of]);
}

pub(super) fn read_partition(reader: &mut Reader<'_>) -> Result<Partition, DecodeError> {
    Ok(Partition {
        parent: read_uuid(reader)?,
        instance: MigInstance { gpu_instance: reader.byte()?, compute_instance: reader.byte()? },
        slices: reader.byte()?,
        slices_of: reader.byte()?,
    })
}

pub(super) fn read_bus_id(reader: &mut Reader<'_>) -> Result<BusId, DecodeError> {
    let length = usize::from(reader.byte()?);
    id_from("bus id", reader.take(length)?, BusId::new)
}

/// `GPU-` and a UUID in lower case is 0 and its 16 bytes; any other id is its length and text.
pub(super) fn put_uuid(out: &mut Vec<u8>, uuid: &GpuUuid) {
    match uuid_bytes(uuid.as_str()) {
        Some(bytes) => {
            out.push(0);
            out.extend_from_slice(&bytes);
        }
        None => put_text(out, uuid.as_str()),
    }
}

pub(super) fn read_uuid(reader: &mut Reader<'_>) -> Result<GpuUuid, DecodeError> {
    let what = "gpu uuid";
    match usize::from(reader.byte()?) {
        0 => {
            let bytes = reader.take(16)?;
            let mut text = "GPU".to_owned();
            for (at, byte) in bytes.iter().enumerate() {
                text += if DASHES.contains(&at) { "-" } else { "" };
                text += &format!("{byte:02x}");
            }
            GpuUuid::new(&text).map_err(|_| DecodeError::Id { what })
        }
        length => id_from(what, reader.take(length)?, GpuUuid::new),
    }
}

/// A UUID's bytes before which NVML prints a dash.
const DASHES: [usize; 5] = [0, 4, 6, 8, 10];

fn uuid_bytes(text: &str) -> Option<[u8; 16]> {
    let mut rest = text.strip_prefix("GPU")?;
    let mut bytes = [0; 16];
    for (at, byte) in bytes.iter_mut().enumerate() {
        if DASHES.contains(&at) {
            rest = rest.strip_prefix('-')?;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        let lower = digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        *byte = u8::from_str_radix(digits, 16).ok().filter(|_| lower)?;
        rest = tail;
    }
    rest.is_empty().then_some(bytes)
}

/// Ids are at most 96 characters, so the length is one byte.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(text.as_bytes());
}

fn id_from<T, E>(
    what: &'static str,
    bytes: &[u8],
    new: impl Fn(&str) -> Result<T, E>,
) -> Result<T, DecodeError> {
    let text = std::str::from_utf8(bytes).map_err(|_| DecodeError::Id { what })?;
    new(text).map_err(|_| DecodeError::Id { what })
}
