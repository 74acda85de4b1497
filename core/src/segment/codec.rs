//! The layout of a block, version 1.
//!
//! Decoding parses, then encodes what it parsed and compares: that is the complete check that
//! bytes are canonical, and it runs every check of the encoder on the content.

mod ids;

use super::bits::{Reader, packed_len, put_count, put_varint};
use super::column::{BUSY, Columns, Recorded, put_presence};
use super::event::{read_events, write_events};
use super::pack::{put_integers, read_integers};
use super::partition::Partition;
use super::{
    Block, Column, EncodeError, EventsBlock, GpuBlock, HostBlock, TrackPoint, TrackSource,
    UtilizationTrack, limits,
};
use crate::evidence::statement::StatementError;
use crate::sample::Reading;
use crate::time::Timestamp;
use ids::{put_partition, put_text, put_uuid, read_bus_id, read_partition, read_uuid};

const VERSION: u8 = 1;
const GPU: u8 = 1;
const HOST: u8 = 2;
const EVENTS: u8 = 3;
/// A slice of a GPU: what it is a slice of, then the body of a GPU.
const SLICE: u8 = 4;

/// Why bytes are not a block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end too early.
    #[error("the block ends too early")]
    Truncated,
    /// Bytes are left over.
    #[error("bytes are left at the end of a block or column")]
    Trailing,
    /// A format version that this program does not know.
    #[error("block format version {0} is not known")]
    Version(u8),
    /// A code that the format does not have.
    #[error("unknown code: {what}")]
    Code {
        /// What the code is of.
        what: &'static str,
    },
    /// An integer that is too large, or not in its shortest form.
    #[error("an integer is too large or not in its shortest form")]
    Varint,
    /// A count or length is over its bound.
    #[error("{what}: {got} is over the bound of {max}")]
    TooMany {
        /// What is bounded.
        what: &'static str,
        /// The count found.
        got: u64,
        /// The bound.
        max: usize,
    },
    /// A GPU UUID or bus id is not valid.
    #[error("{what} is not valid")]
    Id {
        /// Which id.
        what: &'static str,
    },
    /// An event is not valid.
    #[error("an event is refused: {0}")]
    Event(#[from] StatementError),
    /// The content breaks an invariant of its struct.
    #[error(transparent)]
    Content(#[from] EncodeError),
    /// The content is valid, but these are not its bytes.
    #[error("the bytes are not the canonical form of their content")]
    NotCanonical,
}

impl DecodeError {
    /// A stable code: `not_canonical` for another spelling, `unknown_version`, or `bad_block`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotCanonical | Self::Varint => "not_canonical",
            Self::Event(error) => error.code(),
            Self::Version(_) => "unknown_version",
            _ => "bad_block",
        }
    }
}

pub(super) fn encode(block: &Block) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::with_capacity(2_048);
    out.push(VERSION);
    match block {
        Block::Gpu(gpu) => {
            put_kind(&mut out, gpu)?;
            put_gpu(&mut out, gpu)?;
        }
        Block::Host(host) => {
            out.push(HOST);
            if host.ticks.is_empty() {
                return Err(EncodeError::Empty { what: "host ticks" });
            }
            put_times(&mut out, "host ticks", &host.ticks, limits::TICKS)?;
            put_columns(&mut out, host.ticks.len(), &host.columns)?;
        }
        Block::Events(block) => {
            out.push(EVENTS);
            at_most("events", block.events.len(), limits::EVENTS)?;
            let body = write_events(&block.events);
            // Reading back is the one complete check of texts, ranges and order.
            read_events(&body)?;
            out.extend_from_slice(&body);
        }
    }
    at_most("block bytes", out.len(), limits::BLOCK_BYTES)?;
    Ok(out)
}

pub(super) fn decode(bytes: &[u8]) -> Result<Block, DecodeError> {
    if bytes.len() > limits::BLOCK_BYTES {
        let (what, max) = ("block bytes", limits::BLOCK_BYTES);
        return Err(DecodeError::TooMany { what, got: super::bits::wide(bytes.len()), max });
    }
    let mut reader = Reader::new(bytes);
    let version = reader.byte()?;
    if version != VERSION {
        return Err(DecodeError::Version(version));
    }
    let block = match reader.byte()? {
        GPU => Block::Gpu(read_gpu(reader, None)?),
        SLICE => {
            let partition = read_partition(&mut reader)?;
            Block::Gpu(read_gpu(reader, Some(partition))?)
        }
        HOST => Block::Host(read_host(reader)?),
        EVENTS => Block::Events(EventsBlock { events: read_events(reader.rest())? }),
        _ => return Err(DecodeError::Code { what: "block kind" }),
    };
    if encode(&block)? == bytes { Ok(block) } else { Err(DecodeError::NotCanonical) }
}

/// The kind of a GPU's block; that of a slice has a header before the body.
fn put_kind(out: &mut Vec<u8>, gpu: &GpuBlock) -> Result<(), EncodeError> {
    let Some(partition) = &gpu.partition else {
        out.push(GPU);
        return Ok(());
    };
    if let Some(field) = partition.fault(&gpu.uuid) {
        return Err(EncodeError::Partition { field });
    }
    out.push(SLICE);
    put_partition(out, partition);
    Ok(())
}

fn put_gpu(out: &mut Vec<u8>, gpu: &GpuBlock) -> Result<(), EncodeError> {
    put_uuid(out, &gpu.uuid);
    put_text(out, gpu.bus_id.as_str());
    put_times(out, "ticks", &gpu.ticks, limits::TICKS)?;
    put_track(out, &gpu.track, &gpu.ticks)?;
    put_columns(out, gpu.ticks.len(), &gpu.columns)
}

fn read_gpu(mut reader: Reader<'_>, partition: Option<Partition>) -> Result<GpuBlock, DecodeError> {
    let uuid = read_uuid(&mut reader)?;
    let bus_id = read_bus_id(&mut reader)?;
    let ticks = read_times(&mut reader, "ticks", limits::TICKS)?;
    let track = read_track(&mut reader, &ticks)?;
    let columns = read_columns(reader, ticks.len())?;
    Ok(GpuBlock { uuid, bus_id, partition, ticks, track, columns })
}

fn read_host(mut reader: Reader<'_>) -> Result<HostBlock, DecodeError> {
    let ticks = read_times(&mut reader, "host ticks", limits::TICKS)?;
    let columns = read_columns(reader, ticks.len())?;
    Ok(HostBlock { ticks, columns })
}

/// Source, period, times (1 = the same as the ticks, 0 and a list), and the values as a column.
fn put_track(
    out: &mut Vec<u8>,
    track: &UtilizationTrack,
    ticks: &[Timestamp],
) -> Result<(), EncodeError> {
    if !(1..=limits::PERIOD_MS).contains(&track.period_ms) {
        return Err(EncodeError::Period { got: track.period_ms });
    }
    out.push(track.source.code());
    put_varint(out, track.period_ms.into());
    let times: Vec<Timestamp> = track.points.iter().map(|point| point.at).collect();
    let as_ticks = times == ticks;
    out.push(as_ticks.into());
    if !as_ticks {
        put_times(out, "track points", &times, limits::TRACK_POINTS)?;
    }
    if times.is_empty() {
        return Ok(());
    }
    let busy: Vec<Option<Reading>> = track.points.iter().map(|point| Some(point.busy)).collect();
    Columns::new(&[]).write(out, BUSY, &busy)
}

fn read_track(
    reader: &mut Reader<'_>,
    ticks: &[Timestamp],
) -> Result<UtilizationTrack, DecodeError> {
    let source = TrackSource::from_code(reader.byte()?);
    let source = source.ok_or(DecodeError::Code { what: "track source" })?;
    let period = reader.varint()?;
    let period_ms = u32::try_from(period)
        .map_err(|_| DecodeError::Content(EncodeError::Period { got: u32::MAX }))?;
    let times = match reader.byte()? {
        0 => read_times(reader, "track points", limits::TRACK_POINTS)?,
        1 => ticks.to_vec(),
        _ => return Err(DecodeError::Code { what: "track times" }),
    };
    let busy = match times.len() {
        0 => Vec::new(),
        count => Columns::new(&[]).read(reader, BUSY, count)?,
    };
    let point = |(at, busy): (Timestamp, Option<Reading>)| {
        busy.map(|busy| TrackPoint { at, busy }).ok_or(DecodeError::NotCanonical)
    };
    let points = times.into_iter().zip(busy).map(point).collect::<Result<_, _>>()?;
    Ok(UtilizationTrack { source, period_ms, points })
}

/// Count, the lane's bitmap where a column has absent readings, a directory of codes and
/// lengths, then the columns.
fn put_columns<M: Recorded>(
    out: &mut Vec<u8>,
    ticks: usize,
    columns: &[Column<M>],
) -> Result<(), EncodeError> {
    check_columns(ticks, columns)?;
    put_count(out, columns.len());
    let slow = columns.iter().find(|column| column.readings.contains(&None));
    let mut lane = Vec::new();
    if let Some(slow) = slow {
        put_presence(&mut lane, &slow.readings);
    }
    out.push(slow.is_some().into());
    out.extend_from_slice(&lane);
    let mut bodies = Vec::with_capacity(2_048);
    let mut writer = Columns::new(&lane);
    for column in columns {
        let start = bodies.len();
        writer.write(&mut bodies, column.metric.rule(), &column.readings)?;
        out.push(column.metric.code());
        put_count(out, bodies.len() - start);
    }
    out.extend_from_slice(&bodies);
    Ok(())
}

fn check_columns<M: Recorded>(ticks: usize, columns: &[Column<M>]) -> Result<(), EncodeError> {
    let mut before = None;
    for Column { metric, readings } in columns {
        if readings.len() != ticks || before >= Some(*metric) {
            return Err(EncodeError::Column { metric: metric.rule().name });
        }
        before = Some(*metric);
    }
    Ok(())
}

fn read_columns<M: Recorded>(
    mut reader: Reader<'_>,
    ticks: usize,
) -> Result<Vec<Column<M>>, DecodeError> {
    // Codes are bytes and ascend, so there are never more columns than that.
    let count = reader.count("columns", usize::from(u8::MAX))?;
    let lane = match reader.byte()? {
        0 => &[][..],
        1 => reader.take(packed_len(ticks, 1))?,
        _ => return Err(DecodeError::Code { what: "lane" }),
    };
    let mut directory: Vec<(M, usize)> = Vec::with_capacity(count);
    for _ in 0..count {
        let metric = M::from_code(reader.byte()?).ok_or(DecodeError::Code { what: "metric" })?;
        if directory.last().is_some_and(|(before, _)| *before >= metric) {
            return Err(DecodeError::Content(EncodeError::Column { metric: metric.rule().name }));
        }
        directory.push((metric, reader.count("column bytes", limits::BLOCK_BYTES)?));
    }
    let mut columns = Columns::new(lane);
    let mut read = |(metric, length): (M, usize)| {
        let mut body = Reader::new(reader.take(length)?);
        let readings = columns.read(&mut body, metric.rule(), ticks)?;
        body.finish()?;
        Ok(Column { metric, readings })
    };
    let columns = directory.into_iter().map(&mut read).collect::<Result<_, DecodeError>>()?;
    reader.finish()?;
    Ok(columns)
}

/// A list of instants: count, then packing code and milliseconds since 1970.
fn put_times(
    out: &mut Vec<u8>,
    what: &'static str,
    times: &[Timestamp],
    max: usize,
) -> Result<(), EncodeError> {
    at_most(what, times.len(), max)?;
    let in_range = |at: &Timestamp| (Timestamp::MIN..=Timestamp::MAX).contains(at);
    if !times.iter().all(in_range) || !times.is_sorted_by(|a, b| a < b) {
        return Err(EncodeError::Times { what });
    }
    put_count(out, times.len());
    if times.is_empty() {
        return Ok(());
    }
    let values: Vec<i64> = times.iter().map(|at| at.0).collect();
    let code = out.len();
    out.push(0);
    out[code] = put_integers(out, &values);
    Ok(())
}

fn read_times(
    reader: &mut Reader<'_>,
    what: &'static str,
    max: usize,
) -> Result<Vec<Timestamp>, DecodeError> {
    let count = reader.count(what, max)?;
    let mut values = Vec::new();
    if count > 0 {
        let code = reader.byte()?;
        read_integers(reader, code, count, &mut values)?;
    }
    Ok(values.into_iter().map(Timestamp).collect())
}

fn at_most(what: &'static str, got: usize, max: usize) -> Result<(), EncodeError> {
    if got > max { Err(EncodeError::TooMany { what, got, max }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
