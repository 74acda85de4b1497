//! Whether blocks fit each other and their head.

use std::collections::BTreeSet;

use super::Head;
use crate::id::GpuUuid;
use crate::segment::{Block, Origin, TrackSource, limits};
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
    /// Two blocks name the same place.
    #[error("two blocks name the same bus id")]
    DuplicateBusId,
    /// A time lies outside the head's period.
    #[error("a time lies outside the period of the head")]
    OutsidePeriod,
    /// The segment, or the hold of its first sample, is longer than a segment may be.
    #[error("the segment spans too much time")]
    Span,
    /// Imported data with a track from a driver, or the reverse.
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
    let mut places = BTreeSet::new();
    let mut gpus = 0_usize;
    for block in blocks {
        let Block::Gpu(gpu) = block else { continue };
        gpus += 1;
        if gpus > limits::GPUS {
            return Err(ContentError::TooManyBlocks);
        }
        if !places.insert(&gpu.bus_id) {
            return Err(ContentError::DuplicateBusId);
        }
        let imported = gpu.track.source == TrackSource::Import;
        if imported != (head.origin == Origin::Imported) {
            return Err(ContentError::Origin);
        }
    }
    Ok(())
}

/// All times lie in `[start, end]`; neither the stretch from the first of them to the end, nor
/// the hold before it, is longer than a segment may span.
fn check_times(head: &Head, blocks: &[&Block]) -> Result<(), ContentError> {
    let period = head.period;
    let span = match head.origin {
        Origin::Imported => limits::IMPORTED_SPAN_MS,
        Origin::Measured | Origin::Simulated => limits::SPAN_MS,
    };
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
