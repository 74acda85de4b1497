//! What became of one node: its stored blocks and events, its hour rows, its page.

use std::collections::HashMap;

use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{Block, Event, EventKind, GpuBlock, TrackPoint};
use leasewatch_core::time::{HOUR_MS, Period, Timestamp};
use leasewatch_server::clock::Clock;
use leasewatch_server::store::node::NodeRow;
use leasewatch_server::store::segment::{self, Place};
use leasewatch_server::store::{Db, Scope, event, node, slot};
use serde_json::Value;

use crate::process::RunningServer;

/// Time before its first head that still belongs to an agent's start: H of a reading.
const START_UP_MS: i64 = 3_000;

/// A row of `hours.csv`, from column to cell.
pub(crate) type Row = HashMap<String, String>;

/// Rows of all nodes around now.
pub(super) fn all_hours(server: &RunningServer) -> Vec<Row> {
    let now = Clock::system().now();
    let day = |at: Timestamp| at.to_string()[..10].to_owned();
    server.hours(&format!("from={}&to={}", day(now.plus_ms(-HOUR_MS)), day(now)))
}

/// Sum over the hours of a GPU on a page.
pub(crate) fn cells(gpu: &Value, figure: &str) -> i64 {
    let cells = gpu["hours"].as_array().unwrap();
    cells.iter().filter_map(|cell| cell.pointer(&format!("/{figure}"))?.as_i64()).sum()
}

/// One node.
pub(crate) struct Recorded {
    pub(crate) name: &'static str,
    pub(crate) node: NodeRow,
    /// `node.json` after its hours were closed.
    pub(crate) page: Value,
    /// In order of time.
    pub(crate) events: Vec<Event>,
    /// How much later than 3 s after its welcome the agent began to record, which nothing explains
    /// on a machine that is busy starting many agents.
    pub(crate) late_start_ms: i64,
    /// Where its record begins and ends, in milliseconds since 1970.
    pub(crate) span: (i64, i64),
    /// By slot number.
    pub(crate) slots: Vec<Slot>,
}

/// One slot of it.
pub(crate) struct Slot {
    pub(crate) place: leasewatch_core::segment::Place,
    /// A run over an hour's end has two, and so has an exchanged GPU.
    pub(crate) rows: Vec<Row>,
    /// Decoded from the database, in order of time.
    pub(crate) blocks: Vec<GpuBlock>,
}

impl Recorded {
    pub(crate) async fn load(
        db: &Db,
        server: &RunningServer,
        rows: &[Row],
        name: &'static str,
    ) -> Self {
        let everything = Period::new(Timestamp::MIN, Clock::system().now().plus_ms(HOUR_MS));
        let mut tx = db.begin(Scope::Worker).await.unwrap();
        let nodes = node::list(&mut tx).await.unwrap();
        let node = nodes.into_iter().find(|node| node.name == name).unwrap();
        let events = event::of_node(&mut tx, node.key, everything, 10_000).await.unwrap();
        let heads = segment::heads(&mut tx, node.key, everything).await.unwrap();
        let began = heads.iter().map(|row| row.head.period.start).min().unwrap();
        let ended = heads.iter().map(|row| row.head.period.end).max().unwrap();
        let late_start_ms = (began.since(node.enrolled_at) - START_UP_MS).max(0);
        let mut slots = Vec::new();
        for place in slot::of_node(&mut tx, node.key).await.unwrap() {
            let number = place.slot;
            let stored = segment::blocks(&mut tx, node.key, Place::Slot(number), everything);
            let of_slot =
                |row: &&Row| row["node_name"] == name && row["slot"] == number.0.to_string();
            slots.push(Slot {
                place: place.place,
                rows: rows.iter().filter(of_slot).cloned().collect(),
                blocks: stored.await.unwrap().iter().map(|row| gpu_block(&row.body)).collect(),
            });
        }
        let page = server.json(&format!("/nodes/{}/node.json", node.id));
        let events = events.into_iter().map(|row| row.event).collect();
        let span = (began.0, ended.0);
        Self { name, node, page, events, late_start_ms, span, slots }
    }

    pub(super) fn kinds(&self, name: &str) -> Vec<&EventKind> {
        let kinds = self.events.iter().map(|event| &event.kind);
        kinds.filter(|kind| kind.name() == name).collect()
    }

    /// When the first event of this kind happened.
    pub(super) fn time_of(&self, name: &str) -> Timestamp {
        let found = self.events.iter().find(|event| event.kind.name() == name);
        found.unwrap_or_else(|| panic!("{}: no {name} in {:?}", self.name, self.events)).at
    }
}

fn gpu_block(body: &[u8]) -> GpuBlock {
    let Block::Gpu(block) = Block::decode(body).unwrap() else { panic!("no gpu block") };
    block
}

impl Slot {
    /// Sum of a column of its hour rows; `None` when a row has nothing there.
    pub(super) fn cell(&self, column: &str) -> Option<i64> {
        self.rows.iter().map(|row| row[column].parse::<i64>().ok()).sum()
    }

    pub(super) fn gap_ms(&self, cause: &str) -> i64 {
        self.cell(&format!("gap_{cause}_ms")).unwrap()
    }

    pub(super) fn measured_ms(&self) -> i64 {
        self.cell("measured_ms").unwrap()
    }

    /// Every stored reading of one metric, with its tick.
    pub(super) fn column(&self, metric: Metric) -> Vec<(Timestamp, Reading)> {
        let mut readings = Vec::new();
        for block in &self.blocks {
            for column in block.columns.iter().filter(|column| column.metric == metric) {
                let all = block.ticks.iter().zip(&column.readings);
                readings.extend(all.filter_map(|(at, reading)| Some((*at, (*reading)?))));
            }
        }
        readings
    }

    /// The numbers among them.
    pub(super) fn numbers(&self, metric: Metric) -> Vec<i64> {
        self.column(metric).iter().filter_map(|(_, reading)| reading.number()).collect()
    }

    pub(super) fn track(&self) -> Vec<TrackPoint> {
        self.blocks.iter().flat_map(|block| block.track.points.clone()).collect()
    }

    pub(super) fn busy(&self) -> Vec<i64> {
        self.track().iter().filter_map(|point| point.busy.number()).collect()
    }

    /// The metric was read, and each time it was exactly this number.
    pub(super) fn assert_always(&self, metric: Metric, number: i64) {
        self.assert_only(metric, Reading::Number(number));
    }

    /// The metric was asked for, and each time the answer was that there is none.
    pub(super) fn assert_unsupported(&self, metric: Metric) {
        self.assert_only(metric, Reading::Unsupported);
    }

    fn assert_only(&self, metric: Metric, expected: Reading) {
        let column = self.column(metric);
        assert!(!column.is_empty(), "{metric} was not read");
        assert!(column.iter().all(|(_, r)| *r == expected), "{metric} {expected:?}: {column:?}");
    }

    /// How much a counter grew, and over which time.
    pub(super) fn growth(&self, metric: Metric) -> (i64, i64) {
        let column = self.column(metric);
        let numbers = self.numbers(metric);
        assert!(numbers.len() >= 2 && numbers.len() == column.len(), "{metric}: {column:?}");
        let last = column.len() - 1;
        (numbers[last] - numbers[0], column[last].0.since(column[0].0))
    }
}
