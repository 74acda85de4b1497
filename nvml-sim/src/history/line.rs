//! The lines of a log: a header, then one line for each part.
//!
//! Events stand in the very form of an events block. A column whose readings are all the same is
//! written once.

use std::io::{self, Write};

use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::Event;
use leasewatch_core::time::Period;

use super::STEP_S;
use super::columns::Rows;
use super::story::Story;

/// What is sealed together: at most an hour.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) story: &'a Story,
    /// Cards that answer at the end.
    pub(super) gpu_count: usize,
    /// Ascending by time.
    pub(super) events: Vec<Event>,
    /// By slot.
    pub(super) rows: Vec<Rows>,
}

pub(super) fn header(out: &mut impl Write, span: Period) -> io::Result<()> {
    let cadence_ms = STEP_S * 1_000;
    writeln!(
        out,
        r#"{{"leasewatch_history":1,"origin":"simulated","started_at":{},"ended_at":{},"cadence_ms":{cadence_ms}}}"#,
        span.start.0, span.end.0
    )
}

pub(super) fn part(out: &mut impl Write, part: &Part<'_>) -> io::Result<()> {
    write!(out, r#"{{"gpu_count":{},"events":["#, part.gpu_count)?;
    for (at, event) in part.events.iter().enumerate() {
        comma(out, at)?;
        out.write_all(&event.to_json())?;
    }
    write!(out, r#"],"gpus":["#)?;
    for (at, rows) in part.rows.iter().enumerate() {
        comma(out, at)?;
        gpu(out, part.story, rows)?;
    }
    writeln!(out, "]}}")
}

fn gpu(out: &mut impl Write, story: &Story, rows: &Rows) -> io::Result<()> {
    let inventory = &story.inventories[rows.slot];
    let (uuid, bus_id) = (&inventory.uuid, &inventory.bus_id);
    let (first_at, count) = (rows.first_at.0, rows.busy.len());
    write!(
        out,
        r#"{{"uuid":"{uuid}","bus_id":"{bus_id}","first_at":{first_at},"rows":{count},"busy_pct":"#
    )?;
    column(out, &rows.busy)?;
    write!(out, r#","each_row":"#)?;
    columns(out, &rows.fast)?;
    write!(out, r#","each_minute":"#)?;
    columns(out, &rows.slow)?;
    write!(out, "}}")
}

fn columns(out: &mut impl Write, columns: &[(Metric, Vec<Reading>)]) -> io::Result<()> {
    write!(out, "{{")?;
    for (at, (metric, readings)) in columns.iter().enumerate() {
        comma(out, at)?;
        write!(out, "\"{metric}\":")?;
        column(out, readings)?;
    }
    write!(out, "}}")
}

fn column(out: &mut impl Write, readings: &[Reading]) -> io::Result<()> {
    match readings {
        [first, others @ ..] if others.iter().all(|other| other == first) => cell(out, *first),
        _ => {
            write!(out, "[")?;
            for (at, reading) in readings.iter().enumerate() {
                comma(out, at)?;
                cell(out, *reading)?;
            }
            write!(out, "]")
        }
    }
}

fn cell(out: &mut impl Write, reading: Reading) -> io::Result<()> {
    match reading {
        Reading::Number(number) => write!(out, "{number}"),
        Reading::Unsupported => out.write_all(b"\"unsupported\""),
        Reading::Error => out.write_all(b"\"error\""),
        Reading::Stale => out.write_all(b"\"stale\""),
    }
}

fn comma(out: &mut impl Write, at: usize) -> io::Result<()> {
    if at == 0 { Ok(()) } else { out.write_all(b",") }
}
