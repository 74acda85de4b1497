//! The script: what a simulated node recorded second by second, and its page as a program gets it.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use leasewatch_core::evidence::chain::seal;
use leasewatch_core::id::{BusId, GpuUuid};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{
    Block, Column, Event, EventKind, EventsBlock, GpuBlock, Origin, TrackPoint, TrackSource,
    UtilizationTrack,
};
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_server::http::{self, Entrance, Http};
use leasewatch_server::intake::Intake;
use leasewatch_server::jobs::{Jobs, close_hours};
use leasewatch_server::tenancy::Removals;
use serde_json::Value;
use tower::ServiceExt as _;

use crate::agent::{Agent, gpu, inventory, segment};
use crate::rig::{Client, NOW, Rig};

/// Minutes of the script, and those of them in which nothing was recorded.
pub(super) const MINUTES: i64 = 90;
pub(super) const SILENT: std::ops::Range<i64> = 20..25;
/// The second after which another GPU sits in the slot.
pub(super) const SWAP_S: i64 = 2_400;

pub(super) fn start() -> Timestamp {
    NOW.hour().start()
}

pub(super) fn at(second: i64) -> Timestamp {
    start().plus_ms(second * 1_000)
}

/// Utilization in the second that ends at `s`; one second stands out.
pub(super) fn busy(s: i64) -> i64 {
    if s == 1_000 { 100 } else { s * 7 % 90 }
}

pub(super) fn power(s: i64) -> i64 {
    300_000 + s % 13 * 1_000
}

/// The power cap held from minute 10 to minute 12.
pub(super) fn mask(s: i64) -> i64 {
    if (601..=720).contains(&s) { 4 } else { 0 }
}

pub(super) fn is_recorded(s: i64) -> bool {
    !SILENT.contains(&((s - 1) / 60))
}

pub(super) fn block(minute: i64, uuid: &GpuUuid, bus_id: &BusId) -> Block {
    let seconds = || minute * 60 + 1..=minute * 60 + 60;
    let column = |metric, read: fn(i64) -> Option<i64>| {
        let readings = seconds().map(|s| read(s).map(Reading::Number)).collect();
        Column { metric, readings }
    };
    let slow = |s: i64| (s % 15 == 0).then_some(Reading::Unsupported);
    let points = seconds().map(|s| TrackPoint { at: at(s), busy: Reading::Number(busy(s)) });
    Block::Gpu(GpuBlock {
        uuid: uuid.clone(),
        bus_id: bus_id.clone(),
        partition: None,
        ticks: seconds().map(at).collect(),
        track: UtilizationTrack {
            source: TrackSource::Poll,
            period_ms: 1_000,
            points: points.collect(),
        },
        columns: vec![
            column(Metric::PowerDraw, |s| Some(power(s))),
            Column { metric: Metric::MemoryTemperature, readings: seconds().map(slow).collect() },
            column(Metric::ClockEventReasons, |s| Some(mask(s))),
            column(Metric::Energy, |s| (s % 15 == 0).then_some(s * 400_000)),
            column(Metric::PcieTx, |s| (s % 15 == 0).then_some(s * 2_048)),
        ],
    })
}

/// A simulated node that recorded the script; its first hour is closed, its second is open.
pub(super) struct Played {
    pub(super) rig: Rig,
    pub(super) agent: Agent,
}

impl Played {
    pub(super) async fn new(seed: u8) -> Self {
        let rig = Rig::new().await;
        rig.clock.set(start());
        let mut agent = Agent::new(seed, start());
        agent.origin = Origin::Simulated;
        let mut client = rig.join(&agent).await.unwrap();
        rig.clock.set(at(MINUTES * 60));
        for minute in (0..MINUTES).filter(|minute| !SILENT.contains(minute)) {
            record(&mut agent, &mut client, minute).await;
        }
        let played = Self { rig, agent };
        close_hours::turn(&played.jobs(), true).await.unwrap();
        played
    }

    pub(super) fn jobs(&self) -> Jobs {
        let (db, live) = (self.rig.database.db.clone(), self.rig.live.clone());
        Jobs { db, live, clock: self.rig.clock.clone() }
    }

    pub(super) async fn get(&self, file: &str, query: &str) -> (StatusCode, String) {
        let folder = tempfile::tempdir().unwrap();
        let state = Http {
            db: self.rig.database.db.clone(),
            live: self.rig.live.clone(),
            clock: self.rig.clock.clone(),
            address: "http://127.0.0.1:7443".to_owned(),
            intake: Intake::open(folder.path().join("uploads"), 1).unwrap().0,
            entrance: Entrance::default(),
            issuer: crate::rig::issuer(&self.rig.database.db, &self.rig.clock),
            installers: crate::rig::no_installers(),
            removals: Removals::default(),
        };
        let path = format!("/nodes/{}/gpus/{file}?{query}", self.agent.id());
        let request = Request::get(path).body(Body::empty()).unwrap();
        let answer = http::router(state).oneshot(request).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    pub(super) async fn view(&self, query: &str) -> View {
        let (status, body) = self.get("0/gpu.json", query).await;
        assert_eq!(status, 200, "{query}: {body}");
        View(serde_json::from_str(&body).unwrap())
    }
}

pub(super) async fn record(agent: &mut Agent, client: &mut Client, minute: i64) {
    let (old, bus_id) = gpu(9, 0);
    let new = gpu(9, 1).0;
    let uuid = if minute * 60 < SWAP_S { &old } else { &new };
    agent.at = at(minute * 60);
    let mut draft = agent.draft();
    draft.period = Period::new(agent.at, agent.at.plus_ms(60_000));
    let mut blocks = vec![block(minute, uuid, &bus_id)];
    let seen = |gpu: &GpuUuid| {
        let kind = EventKind::GpuSeen(inventory(gpu, &bus_id, 0));
        Event::new(agent.at, Some(gpu.clone()), kind)
    };
    let events = match minute * 60 {
        0 => vec![seen(&old)],
        SWAP_S => {
            let (bus_id, old) = (bus_id.clone(), old.clone());
            let kind = EventKind::GpuReplaced { bus_id, old: old.clone(), new: new.clone() };
            vec![Event::new(agent.at, Some(old), kind), seen(&new)]
        }
        _ => Vec::new(),
    };
    if !events.is_empty() {
        blocks.push(Block::Events(EventsBlock { events }));
    }
    let sealed = seal(draft, &blocks, &agent.key).unwrap();
    let head = &sealed.signed.head;
    agent.last = Some((head.sequence, head.hash()));
    assert_eq!(client.ack(segment(&sealed)).await, (head.sequence.0, false));
}

/// A view as a program gets it.
pub(super) struct View(pub(super) Value);

/// Least, mean and most.
pub(super) type Band = Option<(i64, i64, i64)>;
/// Start, end and cause.
type Gap = (i64, i64, String);
/// Amount and cause.
type Share = (i64, String);

impl View {
    pub(super) fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap()
    }

    pub(super) fn points(&self, metric: &str) -> Vec<(String, Band)> {
        let series = self.0["series"].as_array().unwrap();
        let series = series.iter().find(|series| series["metric"] == metric).unwrap();
        let number = |value: &Value| value.as_i64().unwrap();
        let points = series["points"].as_array().unwrap().iter().map(|point| {
            let band = &point["band"];
            let band = (!band.is_null())
                .then(|| (number(&band["min"]), number(&band["mean"]), number(&band["max"])));
            (point["at"].as_str().unwrap().to_owned(), band)
        });
        points.collect()
    }

    /// Gaps and gap shares in milliseconds from the script's start, with their cause.
    pub(super) fn missing(&self) -> (Vec<Gap>, Vec<Share>) {
        let since =
            |value: &Value| Timestamp::parse_iso(value.as_str().unwrap()).unwrap().since(start());
        let cause = |value: &Value| value.as_str().unwrap().to_owned();
        let gaps = self.0["gaps"].as_array().unwrap().iter();
        let shares = self.0["gap_shares"].as_array().unwrap().iter();
        (
            gaps.map(|gap| (since(&gap[0]), since(&gap[1]), cause(&gap[2]))).collect(),
            shares.map(|s| (s["ms"].as_i64().unwrap(), cause(&s["cause"]))).collect(),
        )
    }

    pub(super) fn sums(&self) -> (i64, i64, i64) {
        let number = |name: &str| self.0["sums"][name].as_i64().unwrap();
        (number("busy_pct_ms"), number("measured_ms"), number("enrolled_ms"))
    }
}
