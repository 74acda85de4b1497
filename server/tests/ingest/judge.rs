//! From hour records to availability, incidents and verdicts: the job that judges, on real
//! PostgreSQL.

use leasewatch_core::availability::{DownCause, EvidenceClass, State, StateSums, UnknownCause};
use leasewatch_core::cost::Part;
use leasewatch_core::cost::bill::{BillLine, ReadBill};
use leasewatch_core::id::{EpochId, Hash, LifeUnitId, SlotNo};
use leasewatch_core::lease::LeaseTerms;
use leasewatch_core::metering::{GapCause, Grain, HourProfile, HourRecord, HourState, HourStretch};
use leasewatch_core::segment::Origin;
use leasewatch_core::sla::claim::ClaimStep;
use leasewatch_core::sla::profile::Profile;
use leasewatch_core::sla::verdict::Outcome;
use leasewatch_core::time::{DAY_MS, HOUR_MS, Hour, Period, Timestamp};
use leasewatch_server::apply::{Document, Run};
use leasewatch_server::jobs::{Jobs, close_hours, judge};
use leasewatch_server::store::assignment::{self, NewAssignment};
use leasewatch_server::store::availability::{self, AvailabilityRow};
use leasewatch_server::store::bill::{self, NewBill};
use leasewatch_server::store::cost::{self, LeaseHour};
use leasewatch_server::store::hour::{self, NewHour};
use leasewatch_server::store::incident::{self, IncidentRow};
use leasewatch_server::store::judge_work::{self, JudgeReason};
use leasewatch_server::store::lease::{self, Written};
use leasewatch_server::store::notice::{self, StopKind};
use leasewatch_server::store::verdict::{self, Basis, VerdictRow};
use leasewatch_server::store::{LeaseKey, Scope, StoreError, claim, partition, profile, provider};

use crate::agent::{Agent, segment, slug};
use crate::rig::{ALWAYS, NOW, Rig};

/// 2026-10-01T00:00:00Z, ten days after the agents join.
const MONTH: Timestamp = Timestamp(1_790_812_800_000);
const MONTH_MS: i64 = 31 * DAY_MS;
/// An hour of that month.
const HOUR: Hour = Hour(497_500);

pub fn jobs(rig: &Rig) -> Jobs {
    Jobs { db: rig.database.db.clone(), live: rig.live.clone(), clock: rig.clock.clone() }
}

/// A node with one GPU that has joined and said something, and what it is rented by.
struct Rented {
    rig: Rig,
    agent: Agent,
    lease: LeaseKey,
}

impl Rented {
    /// For so many days; `more` is added to the terms: `,"key": value`.
    async fn new(seed: u8, days: i64, more: &str) -> Self {
        let rig = Rig::new().await;
        let mut agent = Agent::new(seed, NOW);
        let mut client = rig.join(&agent).await.unwrap();
        client.ack(rig.seal(&mut agent)).await;
        let lease = rent(&rig, &agent, (MONTH, days), more).await;
        Self { rig, agent, lease }
    }

    fn written(&self) -> Written<'static> {
        Written { at: self.rig.clock.now(), by: None, reason: Some("entered late") }
    }

    async fn assign(&self, slot: u16) {
        assign(&self.rig, &self.agent, self.lease, (slot, MONTH)).await;
    }

    /// Everything up to the last hour that is over is judged.
    async fn judge(&self) -> u64 {
        let over = self.rig.clock.now().plus_ms(-600_000).hour();
        judge::queue_ended(&jobs(&self.rig), Hour(over.0 - 1)).await.unwrap();
        judge::turn(&jobs(&self.rig)).await.unwrap()
    }

    /// A sealed record of the first slot, measured but for gaps, and a segment that covers it.
    async fn put_hour(&self, hour: Hour, revision: u32, gaps: &[(u32, u32, GapCause)]) {
        let row = self.rig.node(self.agent.id()).await.unwrap();
        let mut record = HourRecord::empty(hour, self.agent.gpus[0].0.clone(), Origin::Measured);
        let (mut stretches, mut at) = (Vec::new(), 0);
        for (start_ms, end_ms, cause) in gaps.iter().copied() {
            stretches.push(HourStretch { start_ms: at, end_ms: start_ms, gap: None });
            stretches.push(HourStretch { start_ms, end_ms, gap: Some(cause) });
            record.gaps.add(cause, i64::from(end_ms - start_ms));
            at = end_ms;
        }
        stretches.push(HourStretch { start_ms: at, end_ms: 3_600_000, gap: None });
        stretches.retain(|stretch| stretch.start_ms < stretch.end_ms);
        record.enrolled_ms = HOUR_MS;
        record.histogram.add(50, HOUR_MS - record.gaps.total_ms());
        let profile = HourProfile { stretches: Some(stretches), ..HourProfile::empty() };
        partition::ensure(&self.rig.database.db, hour.period()).await.unwrap();
        let mut tx = self.rig.database.db.begin(Scope::Worker).await.unwrap();
        let hash = |revision: u32| {
            Hash::of(&[hour.0.to_be_bytes(), i64::from(revision).to_be_bytes()].concat())
        };
        let new = NewHour {
            node: row.key,
            slot: SlotNo(0),
            revision,
            state: HourState::Sealed,
            record: &record,
            profile: &profile,
            hash: hash(revision),
            previous: (revision > 1).then(|| hash(revision - 1)),
            written_at: self.rig.clock.now(),
        };
        hour::put(&mut tx, &[new]).await.unwrap();
        judge_work::add_hour(&mut tx, row.key, hour).await.unwrap();
        tx.commit().await.unwrap();
        if revision == 1 {
            self.record_segment(hour.period()).await;
        }
    }

    async fn record_segment(&self, period: Period) {
        let Period { start, end } = period;
        let touched = Period::new(start, end.plus_ms(1));
        partition::ensure(&self.rig.database.db, touched).await.unwrap();
        self.rig
            .administer(&format!(
                "insert into segment (tenant_id, node_id, chain_id, sequence, started_at, ended_at,
                    epoch_id, life_unit_id, cadence_ms, origin, gpu_count, block_count, root, previous,
                    clock_wall_at, clock_boot_ms, clock_source, agent_version, head_hash, signature,
                    received_at)
                select tenant_id, node_id, decode(repeat('ff', 16), 'hex'), {sequence}, {start}, {end},
                    decode(repeat('01', 8), 'hex'), decode(repeat('02', 16), 'hex'), 1000, 'measured',
                    1, 1, decode(repeat('03', 32), 'hex'), decode(repeat('04', 32), 'hex'), {start}, 0,
                    'ntp', '0.1.0', decode(repeat('05', 32), 'hex'), decode(repeat('06', 64), 'hex'),
                    {end}
                from node where public_id = decode('{id}', 'hex')",
                sequence = start.hour().0,
                start = start.0,
                end = end.0,
                id = self.agent.id(),
            ))
            .await;
    }

    async fn spent(&self, hours: (Hour, Hour)) -> Vec<LeaseHour> {
        let mut tx = self.tenant().await;
        cost::hours(&mut tx, self.lease, hours).await.unwrap()
    }

    async fn rows(&self, hour: Hour) -> Vec<AvailabilityRow> {
        let mut tx = self.rig.database.db.begin(Scope::Operator).await.unwrap();
        availability::revisions(&mut tx, self.lease, (hour, hour.next())).await.unwrap()
    }

    async fn all(&self) -> Vec<AvailabilityRow> {
        let mut tx = self.rig.database.db.begin(Scope::Operator).await.unwrap();
        availability::current(&mut tx, self.lease, (Hour(0), Hour(1_000_000))).await.unwrap()
    }

    async fn verdicts(&self) -> Vec<VerdictRow> {
        let mut tx = self.rig.database.db.begin(Scope::Operator).await.unwrap();
        verdict::revisions(&mut tx, self.lease, ALWAYS).await.unwrap()
    }

    async fn incidents(&self) -> Vec<IncidentRow> {
        let mut tx = self.rig.database.db.begin(Scope::Operator).await.unwrap();
        incident::of_lease(&mut tx, self.lease, ALWAYS).await.unwrap()
    }

    async fn tenant(&self) -> leasewatch_server::store::Tx {
        self.rig.database.db.begin(Scope::Tenant(self.lease.tenant)).await.unwrap()
    }
}

/// A lease of the agent's tenant from an instant on, for so many days.
pub async fn rent(
    rig: &Rig,
    agent: &Agent,
    (from, days): (Timestamp, i64),
    more: &str,
) -> LeaseKey {
    let end = from.plus_ms(days * DAY_MS);
    let json = format!(
        r#"{{"name":"{}","provider":"default","gpu_model":"H100","gpu_count":1,"currency":"USD",
        "starts_at":"{from}","ends_at":"{end}","prices":[{{"amount":"2.00","unit":"gpu_hour"}}]{more}}}"#,
        agent.name
    );
    let terms: LeaseTerms = serde_json::from_str(&json).unwrap();
    let tenant = rig.node(agent.id()).await.unwrap().key.tenant;
    let mut tx = rig.database.db.begin(Scope::Tenant(tenant)).await.unwrap();
    let written = Written { at: rig.clock.now(), by: None, reason: None };
    // A lease names only clauses that are there.
    if let Some(named) = &terms.profile {
        let texts = [OWN_CONTRACT, BY_THE_MONTH_BEFORE];
        let parsed = texts.map(|text| (Profile::parse(text).unwrap(), text));
        let (own, text) = parsed.iter().find(|(own, _)| own.id == named.id).unwrap();
        assert!(profile::insert(&mut tx, tenant, (own, text), written).await.unwrap());
    }
    let key = lease::create(&mut tx, tenant, &terms, written).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    key
}

pub async fn assign(rig: &Rig, agent: &Agent, lease: LeaseKey, (slot, from): (u16, Timestamp)) {
    let node = rig.node(agent.id()).await.unwrap().key;
    let mut tx = rig.database.db.begin(Scope::Tenant(lease.tenant)).await.unwrap();
    let new = NewAssignment { node, slot: SlotNo(slot), starts_at: from, ends_at: None };
    let written = Written { at: rig.clock.now(), by: None, reason: None };
    assignment::put(&mut tx, lease, new, written).await.unwrap().unwrap();
    tx.commit().await.unwrap();
}

fn sums(row: &AvailabilityRow) -> StateSums {
    StateSums::of(&row.judged.stretches)
}

fn down_ms(row: &AvailabilityRow, class: EvidenceClass) -> i64 {
    sums(row).down_ms.get(&class).copied().unwrap_or_default()
}

#[tokio::test]
async fn a_month_of_silence_is_indeterminate_and_says_what_to_do() {
    let rented = Rented::new(40, 31, "").await;
    rented.assign(0).await;
    rented.rig.clock.set(MONTH.plus_ms(MONTH_MS + HOUR_MS));
    rented.judge().await;
    let rows = rented.all().await;
    assert_eq!(rows.len(), 744);
    assert!(rows.iter().all(|row| sums(row).unknown_total_ms() == HOUR_MS && row.revision == 1));
    let verdicts = rented.verdicts().await;
    assert_eq!(verdicts.len(), 1, "there is no contract, and none is made up");
    let judged = &verdicts[0].judged;
    assert_eq!((judged.of.basis, judged.outcome), (Basis::Quality, Outcome::Indeterminate));
    assert_eq!((judged.figures.whole_ms, judged.figures.possible_ms), (MONTH_MS, MONTH_MS));
    assert_eq!((judged.figures.proven_ms, judged.figures.down_ms), (0, 0));
    assert!(judged.is_over && judged.credit.is_none());
    assert_eq!(judged.details.lacks, [("install_agent".to_owned(), MONTH_MS)]);
    assert_eq!(rented.incidents().await, []);
    assert_eq!(rented.judge().await, 0, "nothing changed, and nothing is written");
}

#[tokio::test]
async fn a_change_makes_a_revision_with_its_reason_and_touches_no_sealed_hour() {
    let rented = Rented::new(41, 3, "").await;
    rented.rig.clock.set(MONTH.plus_ms(MONTH_MS + HOUR_MS));
    // Measured and sealed before anybody wrote the lease's slots down.
    rented.put_hour(HOUR, 1, &[]).await;
    let key = rented.rig.node(rented.agent.id()).await.unwrap().key;
    let records = async || {
        let mut tx = rented.rig.database.db.begin(Scope::Operator).await.unwrap();
        hour::revisions(&mut tx, key, SlotNo(0), HOUR).await.unwrap()
    };
    let sealed = records().await;
    rented.assign(0).await;
    rented.judge().await;
    let late = rented.rows(HOUR).await;
    assert_eq!((late.len(), late[0].reason), (1, JudgeReason::Assignment));
    assert_eq!((sums(&late[0]).up_ms, late[0].judged.grain), (HOUR_MS, Grain::Exact));
    assert_eq!(records().await, sealed, "a late lease");

    // Late data: the hour record gets a revision, and the judgement follows.
    rented.put_hour(HOUR, 2, &[(600_000, 1_200_000, GapCause::GpuLost)]).await;
    let revised = records().await;
    rented.judge().await;
    let rows = rented.rows(HOUR).await;
    assert_eq!(
        (rows.len(), rows[1].reason, rows[1].previous),
        (2, JudgeReason::Hours, Some(late[0].hash))
    );
    assert_eq!((down_ms(&rows[1], EvidenceClass::E1), sums(&rows[1]).up_ms), (600_000, 3_000_000));
    let incidents = rented.incidents().await;
    let at = |ms| HOUR.start().plus_ms(ms);
    assert_eq!(incidents.len(), 1);
    assert_eq!(incidents[0].down.period, Period::new(at(600_000), at(1_200_000)));
    assert_eq!(incidents[0].down.ground.cause, DownCause::GpuLost);
    assert_eq!(incidents[0].down.evidence, [rows[1].hash]);

    // The slot was another lease's: nothing of it is contracted here.
    let mut tx = rented.tenant().await;
    let assigned = assignment::of_lease(&mut tx, rented.lease).await.unwrap();
    assignment::withdraw(&mut tx, &assigned[0], rented.written()).await.unwrap();
    tx.commit().await.unwrap();
    rented.judge().await;
    let rows = rented.rows(HOUR).await;
    assert_eq!((rows.len(), rows[2].reason), (3, JudgeReason::Assignment));
    assert_eq!(rows[2].judged.stretches, []);
    assert_eq!(rented.incidents().await, [], "what is not shown any more is withdrawn");
    assert_eq!(records().await, revised, "a corrected assignment");
    let reasons: Vec<_> =
        rented.verdicts().await.iter().map(|row| (row.revision, row.reason)).collect();
    let (assignment, hours) = (JudgeReason::Assignment, JudgeReason::Hours);
    assert_eq!(reasons, [(1, assignment), (2, hours), (3, assignment)]);
}

#[tokio::test]
async fn what_people_tell_excludes_or_shows_and_a_late_notice_is_disputed() {
    let rented = Rented::new(42, 3, "").await;
    rented.assign(0).await;
    rented.rig.clock.set(HOUR.end().plus_ms(HOUR_MS));
    rented.put_hour(HOUR, 1, &[]).await;
    rented.judge().await;
    let minutes = |from: i64, to: i64| {
        Period::new(HOUR.start().plus_ms(from * 60_000), HOUR.start().plus_ms(to * 60_000))
    };
    let mut tx = rented.tenant().await;
    let (lease, written) = (rented.lease, rented.written());
    let early = (minutes(0, 10), HOUR.start().plus_ms(-2 * DAY_MS), "switch maintenance");
    notice::insert(&mut tx, lease, early, written).await.unwrap();
    let late = (minutes(10, 20), HOUR.start().plus_ms(-HOUR_MS), "one hour ahead");
    notice::insert(&mut tx, lease, late, written).await.unwrap();
    let record = (minutes(20, 30), DownCause::Connectivity, "status page", "rack offline");
    notice::insert_record(&mut tx, lease, record, written).await.unwrap();
    let stop = (minutes(30, 40), &StopKind::Stopped, None);
    notice::insert_stop(&mut tx, lease, stop, written).await.unwrap();
    let maintenance = (minutes(40, 50), &StopKind::Maintenance, Some("driver update"));
    notice::insert_stop(&mut tx, lease, maintenance, written).await.unwrap();
    let now = rented.rig.clock.now();
    judge_work::add(&mut tx, lease, HOUR.period(), (JudgeReason::Notice, now)).await.unwrap();
    tx.commit().await.unwrap();
    rented.judge().await;
    let rows = rented.rows(HOUR).await;
    let row = rows.last().unwrap();
    assert_eq!((rows.len(), row.reason), (2, JudgeReason::Notice));
    let sums = sums(row);
    assert!(sums.is_conserved());
    assert_eq!(sums.excluded_total_ms(), 20 * 60_000, "the early notice and own maintenance");
    assert_eq!(sums.disputed_ms, 10 * 60_000, "the late one excludes nothing");
    assert_eq!(down_ms(row, EvidenceClass::E5), 10 * 60_000);
    assert_eq!(sums.up_ms, 30 * 60_000, "a stop does not hold where the GPU was read");
}

impl Rented {
    /// Applies a file with entries about the lease.
    async fn tell(&self, entries: &str) {
        let text = entries.replace("LEASE", &self.agent.name);
        let document = Document::parse("told.toml", text).unwrap();
        let mut tx = self.tenant().await;
        let run = Run::new(&mut tx, self.lease.tenant, self.written());
        run.apply(&[document]).await.unwrap().unwrap();
        tx.commit().await.unwrap();
        self.judge().await;
    }
}

#[tokio::test]
async fn a_notice_in_time_turns_down_into_maintenance_and_a_stop_takes_time_out() {
    let rented = Rented::new(52, 3, "").await;
    rented.assign(0).await;
    rented.rig.clock.set(MONTH.plus_ms(MONTH_MS + HOUR_MS));
    rented.put_hour(HOUR, 1, &[(0, 600_000, GapCause::GpuLost)]).await;
    rented.put_hour(HOUR.next(), 1, &[(0, 1_200_000, GapCause::Unexplained)]).await;
    rented.judge().await;
    let at = |ms: i64| HOUR.start().plus_ms(ms);
    let first = rented.rows(HOUR).await;
    assert_eq!((first.len(), down_ms(&first[0], EvidenceClass::E1)), (1, 600_000));

    // An hour ahead is too late for own objectives, and changes nothing but the dispute.
    let notice = |received: i64, more: &str| {
        format!(
            "[[notice]]\nlease = 'LEASE'\nstarts_at = '{}'\nends_at = '{}'\nreceived_at = '{}'\n\
             text = 'switch'\n{more}",
            at(0),
            at(600_000),
            at(received)
        )
    };
    rented.tell(&notice(-HOUR_MS, "")).await;
    let rows = rented.rows(HOUR).await;
    assert_eq!((rows.len(), down_ms(&rows[1], EvidenceClass::E1)), (2, 600_000));
    assert_eq!((sums(&rows[1]).disputed_ms, rows[1].reason), (600_000, JudgeReason::Notice));

    rented.tell(&notice(-3 * DAY_MS, "")).await;
    let rows = rented.rows(HOUR).await;
    assert_eq!((rows.len(), rows[2].reason), (3, JudgeReason::Notice));
    assert_eq!((sums(&rows[2]).excluded_total_ms(), sums(&rows[2]).down_total_ms()), (600_000, 0));
    assert_eq!(rented.incidents().await, [], "maintenance is no incident");
    let last = |verdicts: Vec<VerdictRow>| verdicts.into_iter().next_back().unwrap();
    let verdict = last(rented.verdicts().await);
    assert_eq!((verdict.reason, verdict.judged.is_over), (JudgeReason::Notice, true));
    assert_eq!((verdict.judged.figures.down_ms, verdict.judged.figures.excluded_ms), (0, 600_000));
    let revision = verdict.revision;
    assert!(revision > 1, "the verdict that was is kept");

    rented
        .tell(&format!(
            "[[tenant_stop]]\nlease = 'LEASE'\nstarts_at = '{}'\nends_at = '{}'\n",
            at(HOUR_MS),
            at(2 * HOUR_MS)
        ))
        .await;
    let rows = rented.rows(HOUR.next()).await;
    assert_eq!((rows.len(), rows[1].reason), (2, JudgeReason::Notice));
    assert_eq!(
        (sums(&rows[1]).excluded_total_ms(), sums(&rows[1]).up_ms),
        (1_200_000, 2_400_000),
        "where the GPU was read, it was not stopped"
    );
    let verdict = last(rented.verdicts().await);
    assert_eq!(verdict.judged.figures.excluded_ms, 1_800_000);

    rented
        .tell(&format!(
            "[[provider_record]]\nlease = 'LEASE'\nstarts_at = '{}'\nends_at = '{}'\n\
             cause = 'connectivity'\nsource = 'status page'\ntext = 'rack offline'\n",
            at(-HOUR_MS),
            at(0)
        ))
        .await;
    let rows = rented.rows(Hour(HOUR.0 - 1)).await;
    assert_eq!((rows.len(), rows[1].reason), (2, JudgeReason::Evidence));
    assert_eq!(down_ms(&rows[1], EvidenceClass::E5), HOUR_MS, "where nothing was measured");

    rented.tell(&notice(-3 * DAY_MS, "withdrawn = true\n")).await;
    let rows = rented.rows(HOUR).await;
    assert_eq!((rows.len(), sums(&rows[3]).down_total_ms()), (4, 600_000), "it counts again");
    assert!(last(rented.verdicts().await).revision > revision + 1);
}

#[tokio::test]
async fn fewer_gpus_than_contracted_are_down_while_the_agent_counted_and_unknown_otherwise() {
    let rented = Rented::new(43, 3, "").await;
    rented.assign(0).await;
    rented.assign(1).await;
    rented.rig.clock.set(HOUR.next().end().plus_ms(HOUR_MS));
    rented.put_hour(HOUR, 1, &[(0, 60_000, GapCause::ObserverDown)]).await;
    rented.judge().await;
    let of = |rows: Vec<AvailabilityRow>, slot: u16| {
        rows.into_iter().find(|row| row.judged.slot == SlotNo(slot)).unwrap()
    };
    let missing = of(rented.rows(HOUR).await, 1);
    assert_eq!(down_ms(&missing, EvidenceClass::E1), HOUR_MS - 60_000);
    assert_eq!(sums(&missing).unknown_total_ms(), 60_000);
    let incidents = rented.incidents().await;
    assert_eq!(incidents.len(), 1);
    assert_eq!(
        (incidents[0].down.slot, incidents[0].down.ground.cause),
        (Some(SlotNo(1)), DownCause::GpuCount)
    );
    let silent = of(rented.rows(HOUR.next()).await, 1);
    assert_eq!(sums(&silent).unknown_total_ms(), HOUR_MS);
    let state = silent.judged.stretches[0].state;
    assert_eq!(state, State::Unknown(UnknownCause::NotEnrolled));
}

/// How twenty minutes between two lives of a node are judged.
async fn pause_of(seed: u8, says_goodbye: bool, is_another_life: bool) -> StateSums {
    let rented = Rented::new(seed, 3, "").await;
    let Rented { rig, mut agent, .. } = rented;
    let lease =
        rent(&rig, &Agent { name: "second".to_owned(), ..agent.clone() }, (NOW, 3), "").await;
    assign(&rig, &agent, lease, (0, NOW)).await;
    let mut client = rig.join(&agent).await.unwrap();
    if says_goodbye {
        client.ack(agent.seal_goodbye()).await;
    }
    agent.at = agent.at.plus_ms(20 * 60_000);
    let mut draft = agent.draft();
    draft.epoch = EpochId([9; 8]);
    if is_another_life {
        draft.life_unit = LifeUnitId([9; 16]);
    }
    let sealed = agent.seal_as(draft);
    rig.clock.set(agent.at.plus_ms(10_000));
    client.ack(segment(&sealed)).await;
    rig.clock.set(agent.at.hour().end().plus_ms(60_000));
    close_hours::turn(&jobs(&rig), true).await.unwrap();
    judge::turn(&jobs(&rig)).await.unwrap();
    let mut tx = rig.database.db.begin(Scope::Operator).await.unwrap();
    let rows = availability::current(&mut tx, lease, (Hour(0), Hour(1_000_000))).await.unwrap();
    assert_eq!((rows.len(), rows[0].reason), (1, JudgeReason::Assignment));
    sums(&rows[0])
}

#[tokio::test]
async fn a_reboot_without_a_goodbye_is_down_and_every_other_pause_is_not() {
    let near = |ms: i64| (ms - 20 * 60_000).abs() < 10_000;
    let crashed = pause_of(44, false, true).await;
    assert!(near(crashed.down_ms.get(&EvidenceClass::E3).copied().unwrap()), "{crashed:?}");
    let stopped = pause_of(45, true, true).await;
    assert!(near(stopped.excluded_total_ms()), "the tenant shut it down: {stopped:?}");
    let updated = pause_of(46, true, false).await;
    let restarted = pause_of(47, false, false).await;
    for sums in [&stopped, &updated, &restarted] {
        assert_eq!(sums.down_total_ms(), 0, "{sums:?}");
    }
    let of_agent = UnknownCause::Gap(GapCause::AgentRestart);
    assert!(near(restarted.unknown_ms.get(&of_agent).copied().unwrap()), "{restarted:?}");
    // The rest of each hour passed while nothing says that the server was recording.
    let observer = UnknownCause::Gap(GapCause::ObserverDown);
    assert!(restarted.unknown_ms.contains_key(&observer), "{restarted:?}");
}

/// 99.9 % of each GPU, whole minutes, and a tenth or a quarter back.
const OWN_CONTRACT: &str = r#"
schema = 1
id = "own-contract"
version = 1
provider = "Default"
product = "H100"
reviewed = false

[source]
url = "contract of 2026-09-01"
read_on = "2026-09-01"

[claim]
deadline = "days"
days = 30
after = "incident"

[[objective]]
id = "gpu-month"
unit = "gpu"
target = "99.9"
denominator = "contracted"

[objective.downtime]
predicates = ["gpu_lost", "gpu_count"]
min_consecutive_s = 60
partial_slice = "drop"
slice_s = 60

[objective.window]
kind = "calendar"
zone = "UTC"

[objective.credit]
kind = "tiers"
base = "unit-charge"
form = "money"
digits = 2
tiers = [{ below = "99.9", share = "10" }, { below = "99.0", share = "25" }]
"#;

#[tokio::test]
async fn a_proven_breach_owes_its_credit_and_what_was_judged_never_changes() {
    let contract = r#","profile":{"id":"own-contract","version":1}"#;
    let rented = Rented::new(48, 3, contract).await;
    rented.assign(0).await;
    rented.rig.clock.set(MONTH.plus_ms(MONTH_MS + HOUR_MS));
    // Ten hours lost of 72, from half a minute past to half a minute past.
    let lost = GapCause::GpuLost;
    rented.put_hour(HOUR, 1, &[(30_000, 3_600_000, lost)]).await;
    for hour in 1..10 {
        rented.put_hour(Hour(HOUR.0 + hour), 1, &[(0, 3_600_000, lost)]).await;
    }
    rented.put_hour(Hour(HOUR.0 + 10), 1, &[(0, 30_000, lost)]).await;
    rented.judge().await;
    let verdicts = rented.verdicts().await;
    let by = |basis| verdicts.iter().find(|row| row.judged.of.basis == basis).unwrap();
    let judged = &by(Basis::Contract).judged;
    assert_eq!((judged.outcome, judged.figures.whole_ms), (Outcome::Breached, 3 * DAY_MS));
    assert_eq!(judged.figures.proven_ms, 10 * HOUR_MS - 60_000, "whole minutes of the clock");
    assert_eq!(judged.credit.map(|(money, _)| money.to_string()).unwrap(), "36.00 USD");
    assert_eq!(judged.details.credit.share_ppm, Some(250_000));
    assert!(!judged.by.is_reviewed);
    assert_eq!(judged.details.outages.len(), 1);
    // Own objectives count exact time, and owe nothing.
    assert_eq!(by(Basis::Quality).judged.figures.proven_ms, 10 * HOUR_MS);
    assert_eq!(by(Basis::Quality).judged.credit, None);
    assert_eq!(rented.incidents().await.len(), 1, "one outage over eleven hours");

    claim_it(&rented, by(Basis::Contract)).await;
    let mut admin = rented.rig.database.db.begin(Scope::Worker).await.unwrap();
    let row = &by(Basis::Contract).judged;
    let changed =
        leasewatch_server::store::verdict::Judged { outcome: Outcome::Met, ..row.clone() };
    let at = rented.rig.clock.now();
    let is_new = verdict::put(&mut admin, rented.lease, &changed, (JudgeReason::Asked, at)).await;
    assert!(is_new.unwrap(), "a change is a revision, never a replacement");
    admin.rollback().await.unwrap();
    for statement in ["update verdict set outcome = 'met'", "delete from verdict"] {
        let refused = rented.as_worker(statement).await;
        assert_eq!(refused, "LW004", "{statement}");
    }
    for statement in ["update availability set up_ms = 0", "delete from availability"] {
        assert_eq!(rented.as_worker(statement).await, "42501", "{statement}");
    }
}

/// A hundred times the price of each hour, at most what the month before cost.
const BY_THE_MONTH_BEFORE: &str = r#"
schema = 1
id = "month-before"
version = 1
provider = "Default"
product = "H100"
reviewed = false

[source]
url = "contract of 2026-08-01"
read_on = "2026-08-01"

[claim]
deadline = "days"
days = 30
after = "incident"

[[objective]]
id = "each-outage"
unit = "gpu"
denominator = "contracted"

[objective.downtime]
predicates = ["gpu_lost", "gpu_count"]
partial_slice = "exact"

[objective.window]
kind = "calendar"
zone = "UTC"

[objective.credit]
kind = "multiplier"
factor = "100"
base = "prior-lease-charge"
cap = "100"
"#;

/// Ten hours lost in October, of a lease that began in September.
async fn lost_after_a_month() -> Rented {
    let rig = Rig::new().await;
    let mut agent = Agent::new(49, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    client.ack(rig.seal(&mut agent)).await;
    let september = MONTH.plus_ms(-30 * DAY_MS);
    let more = r#","kind":"reserved","profile":{"id":"month-before","version":1}"#;
    let lease = rent(&rig, &agent, (september, 61), more).await;
    let rented = Rented { rig, agent, lease };
    rented.assign(0).await;
    rented.rig.clock.set(MONTH.plus_ms(MONTH_MS + HOUR_MS));
    for hour in 0..10 {
        let lost = [(0, 3_600_000, GapCause::GpuLost)];
        rented.put_hour(Hour(HOUR.0 + hour), 1, &lost).await;
    }
    rented.judge().await;
    rented
}

/// The last word on October by the contract.
async fn owed(rented: &Rented) -> VerdictRow {
    let is_own = |row: &VerdictRow| {
        row.judged.of.basis == Basis::Contract && row.judged.of.window.start == MONTH
    };
    rented.verdicts().await.into_iter().rfind(is_own).unwrap()
}

/// Judges October again, because somebody asked.
async fn judge_again(rented: &Rented) {
    let mut tx = rented.tenant().await;
    let asked = (JudgeReason::Asked, rented.rig.clock.now());
    judge_work::add(&mut tx, rented.lease, HOUR.period(), asked).await.unwrap();
    tx.commit().await.unwrap();
    judge::turn(&jobs(&rented.rig)).await.unwrap();
}

/// The provider's bill of so many days of September.
async fn put_bill(rented: &Rented, days: i64, amount: &str) {
    let september = MONTH.plus_ms(-30 * DAY_MS);
    let mut tx = rented.tenant().await;
    let provider = provider::by_slug(&mut tx, &slug("default")).await.unwrap().unwrap();
    let line = BillLine {
        line: 2,
        key: rented.agent.name.clone(),
        period: Period::new(september, september.plus_ms(days * DAY_MS)),
        quantity: None,
        rate: None,
        amount: amount.parse().unwrap(),
    };
    let bill = NewBill {
        tenant: rented.lease.tenant,
        provider: provider.key,
        file_name: "september.csv",
        with_tax: false,
        bill: &ReadBill { lines: vec![line], refused: Vec::new() },
        at: rented.rig.clock.now(),
        by: None,
    };
    bill::put(&mut tx, bill).await.unwrap();
    tx.commit().await.unwrap();
    judge_again(rented).await;
}

#[tokio::test]
async fn a_cap_by_the_month_before_is_looked_up_and_says_where_from() {
    let rented = lost_after_a_month().await;
    let september = MONTH.plus_ms(-30 * DAY_MS);
    // 10 h x 100 x 2 USD are 2,000 USD; 720 h of September at 2 USD are 1,440.
    let by_terms = owed(&rented).await;
    let said = |row: &VerdictRow| {
        let used = &row.judged.details.credit.used;
        let used = used.iter().map(|of| (of.of.clone(), of.amount.clone(), of.source.clone()));
        (row.judged.credit.unwrap().0.to_string(), used.collect::<Vec<_>>())
    };
    let text = |of: [&str; 3]| (of[0].to_owned(), of[1].to_owned(), of[2].to_owned());
    let hourly = text(["hourly-price", "2.00 USD", "terms"]);
    let prior = text(["prior-lease-charge", "1440.00 USD", "terms"]);
    assert_eq!(said(&by_terms), ("1440.00 USD".to_owned(), vec![hourly.clone(), prior]));
    assert_eq!(by_terms.judged.details.credit.limits, ["cap"]);
    let window = by_terms.judged.details.credit.used[1].window;
    assert_eq!(window, (september.0, MONTH.0));

    // The provider's own bill over all of September is believed before the terms; one over a part
    // of it is not.
    put_bill(&rented, 20, "100 USD").await;
    assert_eq!(owed(&rented).await, by_terms, "a bill over a part would make the cap too low");
    put_bill(&rented, 30, "1200 USD").await;
    let prior = text(["prior-lease-charge", "1200.00 USD", "bill"]);
    let by_bill = owed(&rented).await;
    assert_eq!(said(&by_bill), ("1200.00 USD".to_owned(), vec![hourly, prior]));
    assert_eq!(by_bill.revision, by_terms.revision + 1);

    // What was claimed of single outages is claimed once; what was not counts on.
    claim_it(&rented, &by_bill).await;
    judge_again(&rented).await;
    let after = owed(&rented).await.judged;
    assert_eq!((after.figures.proven_ms, after.figures.claimed_ms), (0, 10 * HOUR_MS));
    assert_eq!(after.credit, None);
}

async fn claim_it(rented: &Rented, row: &VerdictRow) {
    let judged = &row.judged;
    let mut tx = rented.tenant().await;
    let draft = claim::ClaimDraft {
        objective: judged.of.objective.clone(),
        unit: judged.of.unit.clone(),
        window: judged.of.window,
        verdict: row.hash,
        profile: (judged.by.id.clone(), judged.by.version, judged.by.hash),
        intervals: judged
            .details
            .outages
            .iter()
            .map(|o| Period::new(Timestamp(o.counted.0), Timestamp(o.counted.1)))
            .collect(),
        asked: judged.credit.unwrap().0,
        deadline: Some(MONTH.plus_ms(40 * DAY_MS)),
        facts: None,
    };
    let number =
        claim::draft(&mut tx, rented.lease, &draft, rented.written()).await.unwrap().unwrap();
    let again = claim::draft(&mut tx, rented.lease, &draft, rented.written()).await.unwrap();
    assert_eq!(again.unwrap_err().by, number, "an interval is not claimed twice");
    let stored = claim::list(&mut tx, rented.lease.tenant, Some(rented.lease)).await.unwrap();
    assert_eq!(stored[0].draft, draft);
    let at = rented.rig.clock.now();
    let answer = ClaimStep::Refuse("out of time".to_owned());
    let early = claim::take(&mut tx, &stored[0], (&answer, at, None), rented.written()).await;
    assert!(early.unwrap().is_err(), "what was not filed cannot be refused");
    claim::take(&mut tx, &stored[0], (&ClaimStep::File, at, None), rented.written())
        .await
        .unwrap()
        .unwrap();
    let filed = claim::list(&mut tx, rented.lease.tenant, None).await.unwrap();
    assert_eq!((filed[0].claim.state.name(), filed[0].claim.filed_at), ("filed", Some(at)));
    tx.commit().await.unwrap();
}

impl Rented {
    /// The SQLSTATE with which the role of jobs is refused.
    async fn as_worker(&self, statement: &str) -> String {
        use sqlx::Connection as _;
        let mut login = sqlx::PgConnection::connect(&self.rig.database.url).await.unwrap();
        let text = format!("begin; set local role leasewatch_worker; {statement}");
        let error = sqlx::raw_sql(sqlx::AssertSqlSafe(text)).execute(&mut login).await.unwrap_err();
        error.as_database_error().and_then(|error| error.code()).unwrap().into_owned()
    }
}

#[tokio::test]
async fn law_s_holds_in_what_is_stored_of_random_histories() {
    let rented = Rented::new(49, 31, "").await;
    rented.rig.clock.set(Hour(HOUR.0 + 54).start().plus_ms(60_000));
    for slot in [0, 1] {
        let from = Hour(HOUR.0 - 18).start();
        assign(&rented.rig, &rented.agent, rented.lease, (slot, from)).await;
    }
    // The same numbers in each run.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut tx = rented.tenant().await;
    for hour in 0..36 {
        let mut cuts: Vec<u32> = (0..6).map(|_| u32::try_from(next(3_600_000)).unwrap()).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let gaps: Vec<_> = cuts
            .chunks_exact(2)
            .map(|pair| (pair[0], pair[1], GapCause::ALL[usize::try_from(next(15)).unwrap()]))
            .collect();
        rented.put_hour(Hour(HOUR.0 + hour), 1, &gaps).await;
        let start = Hour(HOUR.0 + hour).start().plus_ms(i64::try_from(next(4_000_000)).unwrap());
        let told = Period::new(start, start.plus_ms(1 + i64::try_from(next(5_000_000)).unwrap()));
        let (lease, written) = (rented.lease, rented.written());
        match next(4) {
            0 => {
                let received = start.plus_ms(-i64::try_from(next(200_000_000)).unwrap());
                notice::insert(&mut tx, lease, (told, received, "text"), written).await.unwrap();
            }
            1 => {
                let cause = DownCause::ALL[usize::try_from(next(9)).unwrap()];
                notice::insert_record(&mut tx, lease, (told, cause, "page", "text"), written)
                    .await
                    .unwrap();
            }
            2 => {
                notice::insert_stop(&mut tx, lease, (told, &StopKind::Stopped, None), written)
                    .await
                    .unwrap();
            }
            _ => {}
        }
    }
    tx.commit().await.unwrap();
    rented.judge().await;
    let rows = rented.all().await;
    assert_eq!(rows.len(), 2 * 72, "both slots, one of which was never seen");
    for row in &rows {
        let sums = sums(row);
        assert!(sums.is_conserved() && sums.contracted_ms == HOUR_MS, "{row:?}");
        let stretches = &row.judged.stretches;
        assert!(stretches.windows(2).all(|pair| pair[0].period.end == pair[1].period.start));
    }
    // Each state occurred, or the test shows nothing.
    let all = StateSums::of(rows.iter().flat_map(|row| &row.judged.stretches));
    let parts = [all.up_ms, all.down_total_ms(), all.unknown_total_ms(), all.excluded_total_ms()];
    assert!(parts.iter().all(|ms| *ms > 0), "{all:?}");
    assert_eq!(parts.iter().sum::<i64>(), 2 * 3 * DAY_MS);
    assert!(all.disputed_ms > 0);
}

#[tokio::test]
async fn costs_follow_the_judgement_and_add_up_to_contracted_time() {
    let rented = Rented::new(61, 31, "").await;
    rented.assign(0).await;
    let lost = (600_000, 1_500_000, GapCause::GpuLost);
    let silent = (1_800_000, 2_000_000, GapCause::Unexplained);
    rented.put_hour(HOUR, 1, &[lost, silent]).await;
    rented.put_hour(HOUR.next(), 1, &[]).await;
    rented.rig.clock.set(HOUR.next().end().plus_ms(HOUR_MS));
    rented.judge().await;
    let hours = (HOUR, Hour(HOUR.0 + 2));
    let spent = rented.spent(hours).await;
    assert_eq!(spent.len(), 2);
    let part = |row: &LeaseHour, part| row.spent.measures.parts.of(part);
    assert_eq!(part(&spent[0], Part::Unavailable), 900_000 * 100, "proven, and not unknown");
    assert_eq!(part(&spent[0], Part::Unknown), 200_000 * 100);
    assert_eq!(spent[0].spent.node_ms, HOUR_MS - 1_100_000);
    assert_eq!(part(&spent[1], Part::Unavailable) + part(&spent[1], Part::Unknown), 0);
    // The tenant's own maintenance takes its time out, down or not; the sums follow.
    let own = Period::new(HOUR.start().plus_ms(1_200_000), HOUR.start().plus_ms(2_400_000));
    let (lease, written) = (rented.lease, rented.written());
    let mut tx = rented.tenant().await;
    let maintenance = (own, &StopKind::Maintenance, Some("driver update"));
    notice::insert_stop(&mut tx, lease, maintenance, written).await.unwrap();
    let now = rented.rig.clock.now();
    judge_work::add(&mut tx, lease, HOUR.period(), (JudgeReason::Notice, now)).await.unwrap();
    tx.commit().await.unwrap();
    rented.judge().await;
    let spent = rented.spent(hours).await;
    assert_eq!(part(&spent[0], Part::Excluded), 1_200_000 * 100);
    assert_eq!(part(&spent[0], Part::Unavailable), 600_000 * 100);
    for row in &spent {
        assert!(row.spent.measures.is_conserved());
        assert_eq!(row.spent.measures.contracted_ms, HOUR_MS);
        let judged = &rented.rows(row.hour).await;
        let sums = sums(judged.last().unwrap());
        assert_eq!(part(row, Part::Unavailable), sums.down_total_ms() * 100);
        assert_eq!(part(row, Part::Excluded), sums.excluded_total_ms() * 100);
    }
    let mut tx = rented.tenant().await;
    let found = availability::lost(&mut tx, rented.lease, hours).await.unwrap();
    assert_eq!(found.iter().map(|row| row.hour).collect::<Vec<_>>(), [HOUR]);
}

#[tokio::test]
async fn a_tenant_sees_only_its_own_judgements() {
    let rented = Rented::new(50, 3, "").await;
    rented.assign(0).await;
    rented.rig.clock.set(HOUR.end().plus_ms(HOUR_MS));
    rented.put_hour(HOUR, 1, &[(0, 60_000, GapCause::GpuLost)]).await;
    let mut tx = rented.tenant().await;
    let told = (HOUR.next().period(), NOW, "text");
    notice::insert(&mut tx, rented.lease, told, rented.written()).await.unwrap();
    tx.commit().await.unwrap();
    rented.judge().await;
    let mut other = Agent::new(51, rented.rig.clock.now());
    other.tenant = slug("demo");
    rented.rig.join(&other).await.unwrap();
    let theirs = rented.rig.node(other.id()).await.unwrap().key.tenant;
    let seen = async |tenant| {
        let mut tx = rented.rig.database.db.begin(Scope::Tenant(tenant)).await.unwrap();
        let hours = (Hour(0), Hour(1_000_000));
        let rows = availability::current(&mut tx, rented.lease, hours).await.unwrap().len();
        let verdicts = verdict::current(&mut tx, rented.lease, ALWAYS).await.unwrap().len();
        let incidents = incident::of_lease(&mut tx, rented.lease, ALWAYS).await.unwrap().len();
        let notices = notice::notices(&mut tx, rented.lease, ALWAYS).await.unwrap().len();
        [rows, verdicts, incidents, notices]
    };
    let own = seen(rented.lease.tenant).await;
    assert!(own.iter().all(|count| *count > 0), "{own:?}");
    assert_eq!(seen(theirs).await, [0; 4]);
    let mut tx = rented.rig.database.db.begin(Scope::Tenant(theirs)).await.unwrap();
    let refused = notice::insert(&mut tx, rented.lease, told, rented.written()).await;
    assert!(matches!(refused, Err(StoreError::Denied(_))), "{refused:?}");
}
