//! Whether blocks fit each other and their head.

use super::Head;
use crate::id::GpuUuid;
use crate::segment::{Block, Origin, Seat, SeatClash, TrackSource, limits};
use crate::time::Timestamp;

/// Why blocks that are each valid do not make a segment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// A segment has at least one block.
    #[error("no block")]
    NoBlocks,
    /// More blocks than GPUs, a host and events can make.
    #[error("too many blocks")]
    TooManyBlocks,
    /// The blocks have too many bytes together, or one of them alone.
    #[error("the blocks are too long")]
    TooLong,
    /// Not in the order GPUs by UUID, host, events; or two hosts or events blocks.
    #[error("blocks are out of order, or one kind stands twice")]
    Order,
    /// Two blocks name the same GPU.
    #[error("two blocks name the same gpu")]
    DuplicateGpu,
    /// Two blocks name the same place: the same bus id and, for slices, the same instances.
    #[error("two blocks name the same place")]
    DuplicateBusId,
    /// A slice and its parent, or the GPU at its bus id, contradict each other.
    #[error("a slice does not fit its parent")]
    Partition,
    /// A time lies outside the head's period.
    #[error("a time lies outside the period of the head")]
    OutsidePeriod,
    /// The segment, or the hold of its first sample, is longer than a segment may be.
    #[error("the segment spans too much time")]
    Span,
    /// A log's track in measured data, a driver's in imported data, or both in one segment.
    #[error("origin and track source do not agree")]
    Origin,
}

impl ContentError {
    /// A stable code for the wire and for tables.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoBlocks => "no_blocks",
            Self::TooManyBlocks => "too_many_blocks",
            Self::TooLong => "too_long",
            Self::Order => "block_order",
            Self::DuplicateGpu => "duplicate_gpu",
            Self::DuplicateBusId => "duplicate_bus_id",
            Self::Partition => "partition_mismatch",
            Self::OutsidePeriod => "outside_period",
            Self::Span => "span_too_long",
            Self::Origin => "origin_mismatch",
        }
    }
}

/// Where a block stands in a segment; equal places are a fault.
pub(super) fn place(block: &Block) -> (u8, Option<GpuUuid>) {
    match block {
        Block::Gpu(gpu) => (0, Some(gpu.uuid.clone())),
        Block::Host(_) => (1, None),
        Block::Events(_) => (2, None),
    }
}

pub(super) fn check_count(count: usize) -> Result<(), ContentError> {
    match count {
        0 => Err(ContentError::NoBlocks),
        count if count > limits::GPUS + 2 => Err(ContentError::TooManyBlocks),
        _ => Ok(()),
    }
}

pub(super) fn check_size<B: AsRef<[u8]>>(blocks: &[B]) -> Result<(), ContentError> {
    let lengths = || blocks.iter().map(|block| block.as_ref().len());
    let fits = lengths().all(|length| length <= limits::BLOCK_BYTES)
        && lengths().sum::<usize>() <= limits::SEGMENT_BYTES;
    if fits { Ok(()) } else { Err(ContentError::TooLong) }
}

pub(super) fn check(head: &Head, blocks: &[&Block]) -> Result<(), ContentError> {
    check_order(blocks)?;
    check_gpus(head, blocks)?;
    check_times(head, blocks)
}

fn check_order(blocks: &[&Block]) -> Result<(), ContentError> {
    for pair in blocks.windows(2) {
        match (place(pair[0]), place(pair[1])) {
            (before, after) if before < after => {}
            (before, after) if before == after && before.0 == 0 => {
                return Err(ContentError::DuplicateGpu);
            }
            _ => return Err(ContentError::Order),
        }
    }
    Ok(())
}

fn check_gpus(head: &Head, blocks: &[&Block]) -> Result<(), ContentError> {
    let mut seats: Vec<Seat<'_>> = Vec::new();
    for block in blocks {
        let Block::Gpu(gpu) = block else { continue };
        let seat = gpu.seat();
        if seats.len() >= limits::GPUS {
            return Err(ContentError::TooManyBlocks);
        }
        match seats.iter().find_map(|other| seat.clash(*other)) {
            Some(SeatClash::SamePlace) => return Err(ContentError::DuplicateBusId),
            Some(SeatClash::Parent) => return Err(ContentError::Partition),
            None => seats.push(seat),
        }
    }
    check_sources(head, blocks)
}

fn check_sources(head: &Head, blocks: &[&Block]) -> Result<(), ContentError> {
    let agree = match head.origin {
        Origin::Measured => logged(blocks).all(|logged| !logged),
        Origin::Imported => logged(blocks).all(|logged| logged),
        Origin::Simulated => {
            logged(blocks).all(|logged| logged) || logged(blocks).all(|logged| !logged)
        }
    };
    if agree { Ok(()) } else { Err(ContentError::Origin) }
}

/// For each GPU, whether its track was taken from a log.
fn logged<'a>(blocks: &'a [&'a Block]) -> impl Iterator<Item = bool> + 'a {
    blocks.iter().filter_map(|block| match block {
        Block::Gpu(gpu) => Some(gpu.track.source == TrackSource::Import),
        Block::Host(_) | Block::Events(_) => None,
    })
}

/// True for a segment that was made of a log: an imported one, or a simulated one that has tracks
/// from a log. Its cadence may be minutes, and it may be of a time before the node joined.
pub(super) fn is_of_log(head: &Head, blocks: &[&Block]) -> bool {
    match head.origin {
        Origin::Measured => false,
        Origin::Imported => true,
        Origin::Simulated => logged(blocks).any(|logged| logged),
    }
}

/// All times lie in `[start, end]`; neither the stretch from the first of them to the end, nor
/// the hold before it, is longer than a segment may span.
fn check_times(head: &Head, blocks: &[&Block]) -> Result<(), ContentError> {
    let period = head.period;
    let span = if is_of_log(head, blocks) { limits::IMPORTED_SPAN_MS } else { limits::SPAN_MS };
    let outer = blocks.iter().flat_map(|block| outer_times(block));
    let (Some(first), Some(last)) = (outer.clone().min(), outer.max()) else {
        return if period.ms() <= span { Ok(()) } else { Err(ContentError::Span) };
    };
    if first < period.start || last > period.end {
        return Err(ContentError::OutsidePeriod);
    }
    if period.end.since(first) > span || first.since(period.start) > span {
        return Err(ContentError::Span);
    }
    Ok(())
}

/// The first and the last of each ascending list of times in a block.
fn outer_times(block: &Block) -> impl Iterator<Item = Timestamp> + Clone {
    let ends = |first: Option<Timestamp>, last: Option<Timestamp>| [first, last];
    let (ticks, others) = match block {
        Block::Gpu(gpu) => {
            let points = &gpu.track.points;
            (&gpu.ticks[..], ends(points.first().map(|p| p.at), points.last().map(|p| p.at)))
        }
        Block::Host(host) => (&host.ticks[..], [None, None]),
        Block::Events(block) => {
            let events = &block.events;
            (&[][..], ends(events.first().map(|e| e.at), events.last().map(|e| e.at)))
        }
    };
    ends(ticks.first().copied(), ticks.last().copied()).into_iter().chain(others).flatten()
}
