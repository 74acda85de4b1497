//! What is known of a node in some hours, and of a lease beside metering.

use std::collections::HashMap;

use leasewatch_core::availability::{
    DownCause, DownEvidence, EvidenceClass, EvidenceSource, Exclusion, Ground, SlotFacts, Stretch,
    StretchContent, evaluate, never_seen, tenant_stop, union,
};
use leasewatch_core::cost::NodeHour;
use leasewatch_core::id::{Hash, SlotNo};
use leasewatch_core::metering::{Grain, HourProfile, laid_out};
use leasewatch_core::segment::{EventKind, Origin};
use leasewatch_core::time::{Hour, Period, Timestamp};

use crate::store::availability::Judged;
use crate::store::contracted::ContractedLease;
use crate::store::cost::{NodeRecords, SlotPart};
use crate::store::hour::{self, HourRow};
use crate::store::node::{self, NodeRow};
use crate::store::{
    LeaseKey, NodeKey, StoreError, Tx, event, gpu, liveness, notice, segment, session, slot,
};

/// Planned stops that are looked at, the latest before the end of the time in question.
const STOPS_MAX: u32 = 16;
/// A planned stop stands in a segment that ends no later than this after it.
const LONGEST_SEGMENT_MS: i64 = 6 * 3_600_000;

/// What people told about a lease.
pub(super) struct Told {
    evidence: Vec<DownEvidence>,
    exclusions: Vec<Exclusion>,
}

impl Told {
    pub(super) async fn load(
        tx: &mut Tx,
        lease: LeaseKey,
        period: Period,
    ) -> Result<Self, StoreError> {
        let records = notice::records(tx, lease, period).await?;
        let notices = notice::notices(tx, lease, period).await?;
        let stops = notice::stops(tx, lease, period).await?;
        let stops = stops.iter().map(notice::StopRow::exclusion);
        Ok(Self {
            evidence: records.iter().map(notice::RecordRow::evidence).collect(),
            exclusions: notices.iter().map(notice::NoticeRow::exclusion).chain(stops).collect(),
        })
    }
}

/// One slot and hour as the records lay it out.
struct Laid {
    stretches: Vec<Stretch>,
    grain: Grain,
    records: Hash,
}

/// Hours `[from, to)` of a node.
pub(super) struct NodeFacts {
    node: NodeRow,
    laid: HashMap<(SlotNo, Hour), Laid>,
    first_seen: HashMap<SlotNo, Timestamp>,
    recorded: Vec<Period>,
    reachable: Vec<Period>,
    observer: Vec<Period>,
    /// Stops that the node's own goodbyes show.
    stops: Vec<Exclusion>,
    records: NodeRecords,
}

impl NodeFacts {
    /// `None` when the node was removed.
    pub(super) async fn load(
        tx: &mut Tx,
        key: NodeKey,
        (from, to): (Hour, Hour),
    ) -> Result<Option<Self>, StoreError> {
        let Some(node) = node::by_key(tx, key).await? else { return Ok(None) };
        let period = Period::new(from.start(), to.start());
        let mut laid = HashMap::new();
        let mut first_seen = HashMap::new();
        let mut records = NodeRecords::new(gpu::of_node(tx, key).await?);
        let rows = hour::of_node(tx, key, from, to).await?;
        for slot in slot::of_node(tx, key).await? {
            first_seen.insert(slot.slot, slot.first_seen_at);
            let own: Vec<&HourRow> = rows.iter().filter(|row| row.slot == slot.slot).collect();
            if own.is_empty() {
                continue;
            }
            let profiles = hour::profiles(tx, key, slot.slot, (from, to)).await?;
            for of_hour in own.chunk_by(|a, b| a.record.hour == b.record.hour) {
                let hour = of_hour[0].record.hour;
                laid.insert((slot.slot, hour), lay_out(hour, of_hour, &profiles));
            }
            for (hour, gpu, profile) in profiles {
                records.add_profile((slot.slot, hour, gpu), profile);
            }
        }
        rows.into_iter().for_each(|row| records.add(row.slot, row.record));
        let recorded = segment::periods(tx, key, period).await?;
        let sessions = session::periods(tx, key, period).await?;
        // A replayed past never had a stream.
        let reachable = match node.origin {
            Origin::Measured => sessions,
            Origin::Simulated => union(sessions.into_iter().chain(recorded.iter().copied())),
            Origin::Imported => recorded.clone(),
        };
        let observer = match node.origin {
            Origin::Imported => vec![period],
            Origin::Measured | Origin::Simulated => liveness::periods(tx, period).await?,
        };
        let stops = stops(tx, key, period).await?;
        Ok(Some(Self { node, laid, first_seen, recorded, reachable, observer, stops, records }))
    }

    /// Judges one slot and hour of a lease.
    pub(super) fn judge(
        &self,
        lease: &ContractedLease,
        told: &Told,
        (slot, hour): (SlotNo, Hour),
        notice_lead_ms: Option<i64>,
    ) -> Judged {
        let contracted = lease.of_slot(self.node.key, slot, hour.period());
        let laid = self.laid.get(&(slot, hour));
        let mut evidence = told.evidence.clone();
        evidence.extend(self.fewer_gpus(slot, hour));
        let exclusions: Vec<Exclusion> =
            told.exclusions.iter().chain(&self.stops).cloned().collect();
        let facts = SlotFacts {
            contracted: &contracted,
            stretches: laid.map_or(&[], |laid| &laid.stretches),
            recorded: &self.recorded,
            reachable: &self.reachable,
            observer: &self.observer,
            evidence: &evidence,
            exclusions: &exclusions,
            notice_lead_ms,
        };
        Judged {
            lease: lease.key,
            node: self.node.key,
            slot,
            hour,
            stretches: evaluate(&facts),
            grain: laid.map_or(Grain::Exact, |laid| laid.grain),
            records: laid.map_or_else(|| Hash::of(&[]), |laid| laid.records),
        }
    }

    /// Adds what a lease had of a slot in an hour, as it was judged.
    pub(super) fn add_spent(&self, lease: &ContractedLease, judged: &Judged, sum: &mut NodeHour) {
        let (slot, hour) = (judged.slot, judged.hour);
        let contracted = lease.of_slot(judged.node, slot, hour.period());
        let states = &judged.stretches;
        let part = SlotPart { slot, hour, contracted: &contracted, states };
        self.records.add_to(sum, &lease.terms, part);
    }

    /// A slot that was not seen yet is down while the agent was there, counted, and read the
    /// others: fewer GPUs than contracted.
    fn fewer_gpus(&self, slot: SlotNo, hour: Hour) -> Vec<DownEvidence> {
        let seen_by_then = self.first_seen.get(&slot).is_some_and(|at| *at < hour.end());
        if seen_by_then {
            return Vec::new();
        }
        let others = self.laid.iter().filter(|((_, of), _)| *of == hour);
        let others: Vec<(&Laid, &[Stretch])> =
            others.map(|(_, laid)| (laid, laid.stretches.as_slice())).collect();
        let stretches: Vec<&[Stretch]> = others.iter().map(|(_, stretches)| *stretches).collect();
        let mut hashes: Vec<Hash> = others.iter().map(|(laid, _)| laid.records).collect();
        hashes.sort_unstable();
        let hash = hash_of(hashes.into_iter());
        let ground = Ground { class: EvidenceClass::E1, cause: DownCause::GpuCount };
        let text = "hour records of the node's other GPUs";
        let source = EvidenceSource { hash, text: text.to_owned() };
        let periods = never_seen(&stretches).into_iter();
        periods.map(|period| DownEvidence { period, ground, source: source.clone() }).collect()
    }
}

fn lay_out(
    hour: Hour,
    rows: &[&HourRow],
    profiles: &[(Hour, leasewatch_core::id::GpuUuid, HourProfile)],
) -> Laid {
    let profile_of = |row: &HourRow| {
        let own = profiles.iter().find(|(of, gpu, _)| *of == hour && *gpu == row.record.gpu);
        own.map(|(_, _, profile)| profile)
    };
    let pairs: Vec<_> = rows.iter().map(|row| (&row.record, profile_of(row))).collect();
    let (grain, stretches) = laid_out(hour, &pairs);
    let stretches = stretches.into_iter().map(|stretch| Stretch {
        period: stretch.period(hour),
        content: stretch.gap.map_or(StretchContent::Measured, StretchContent::Gap),
    });
    Laid { stretches: stretches.collect(), grain, records: hash_of(rows.iter().map(|r| r.hash)) }
}

fn hash_of(hashes: impl Iterator<Item = Hash>) -> Hash {
    let bytes: Vec<u8> = hashes.flat_map(|hash| hash.0).collect();
    Hash::of(&bytes)
}

/// The tenant's stops that goodbyes of the node show.
async fn stops(tx: &mut Tx, key: NodeKey, period: Period) -> Result<Vec<Exclusion>, StoreError> {
    let goodbyes = event::before_of_kinds(tx, key, period.end, &["goodbye"], STOPS_MAX).await?;
    let mut stops = Vec::new();
    for row in goodbyes {
        let EventKind::Goodbye { reason } = row.event.kind else { continue };
        let at = row.event.at;
        let near = Period::new(at.plus_ms(-LONGEST_SEGMENT_MS), at.plus_ms(1));
        let heads = segment::heads(tx, key, near).await?;
        let own = heads
            .iter()
            .map(|row| &row.head)
            .find(|head| (head.chain, head.sequence) == (row.chain, row.sequence));
        let Some(own) = own else { continue };
        let next = segment::head_after(tx, key, at).await?;
        let next = next.map(|next| (next.head.period.start, next.head.life_unit == own.life_unit));
        let stop = tenant_stop(at, reason, next);
        stops.extend(stop.filter(|stop| !stop.period.intersect(period).is_empty()));
    }
    Ok(stops)
}
