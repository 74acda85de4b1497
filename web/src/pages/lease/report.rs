//! A lease's month as a document: first what the provider needs to find it and what was found, then
//! the calendar, utilization, gaps, verdicts, method and limits.
//!
//! Times are those of the lease's zone with UTC beside them. Not here: the page's forms, and the
//! signed records, which are the evidence bundle's.

mod drawn;
mod words;

use leasewatch_core::metering::{GapCause, Ppm};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{Period, Timestamp};

use super::{LeaseView, NodeName, VerdictLine};
use crate::context::Context;
use crate::document::{Block, Column, Document, Table};
use crate::format::{self, Detail, Quantity};
use crate::i18n::{Text, phrase};
use crate::names;

/// A lease's month.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseReport {
    /// The page of the lease; its calendar holds the month's days, its verdicts those whose windows
    /// lie in the month.
    pub lease: LeaseView,
    /// The month, as far as it is over, in the lease's zone.
    pub window: Period,
    /// GPUs that the lease covered, by node and number.
    pub gpus: Vec<GpuDays>,
    /// Contracted time without a measurement by cause, in ms, of all GPUs together.
    pub gaps: Vec<(GapCause, i64)>,
}

/// A GPU's days.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuDays {
    /// The node.
    pub node: NodeName,
    /// The GPU's number on it.
    pub number: u16,
    /// UUIDs that were seen there, in the order of their first hour.
    pub uuids: Vec<String>,
    /// Days with contracted time, in order.
    pub days: Vec<DayUse>,
}

/// What was measured of a GPU on a day of the lease's zone, in whole hours that begin in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DayUse {
    /// The day's beginning.
    pub starts_at: Timestamp,
    /// Time that should have been measured.
    pub enrolled_ms: i64,
    /// Time that was.
    pub measured_ms: i64,
    /// Utilization times measured time, in percent x ms.
    pub busy_pct_ms: i64,
}

impl DayUse {
    /// Mean utilization over measured time.
    #[must_use]
    pub fn mean(self) -> Option<Ppm> {
        Ppm::of(i128::from(self.busy_pct_ms), i128::from(self.measured_ms) * 100)
    }

    /// Measured share of the time that should have been.
    #[must_use]
    pub fn coverage(self) -> Option<Ppm> {
        Ppm::of(i128::from(self.measured_ms), i128::from(self.enrolled_ms))
    }

    fn plus(self, other: Self) -> Self {
        Self {
            starts_at: self.starts_at,
            enrolled_ms: self.enrolled_ms + other.enrolled_ms,
            measured_ms: self.measured_ms + other.measured_ms,
            busy_pct_ms: self.busy_pct_ms + other.busy_pct_ms,
        }
    }
}

impl LeaseReport {
    /// The report in the context's language; the context's zone is the lease's.
    #[must_use]
    pub fn document(&self, cx: &Context) -> Document {
        let mut blocks = vec![Block::Facts(self.facts(cx))];
        blocks.push(Block::Heading(cx.t(Text::ReportInShort).to_owned()));
        blocks.extend(self.in_short(cx));
        blocks.push(Block::Heading(cx.t(Text::JudgedCalendar).to_owned()));
        blocks.push(Block::Note(cx.t(Text::JudgedCalendarLead).to_owned()));
        blocks.extend(drawn::calendar(&self.lease.judgement.days, cx).map(Block::Figure));
        blocks.push(Block::Heading(cx.t(Text::ReportUse).to_owned()));
        blocks.push(Block::Note(cx.t(Text::ReportUseLead).to_owned()));
        blocks.extend(drawn::lanes(&self.gpus, cx).into_iter().map(Block::Figure));
        blocks.push(self.gpu_table(cx));
        blocks.extend(self.gap_table(cx));
        blocks.extend(self.verdicts(cx));
        blocks.extend(words::closing(cx));
        let month = words::span(self.window, cx);
        Document {
            language: cx.language,
            title: phrase::report_title(cx.language, month, &self.lease.terms.name),
            mark: self.mark(cx),
            foot: phrase::report_foot(
                cx.language,
                format::moment(cx.now, cx.zone, cx.language, Detail::Minute),
                words::utc(cx.now),
                cx.version,
            ),
            blocks,
        }
    }

    fn mark(&self, cx: &Context) -> Option<String> {
        let covered = self.gpus.iter().map(|gpu| gpu.node.origin);
        let assigned = self.lease.assignments.iter().map(|line| line.node.origin);
        let origin: Origin = covered.chain(assigned).max()?;
        names::origin_mark(origin).map(|mark| cx.t(mark).to_owned())
    }

    fn facts(&self, cx: &Context) -> Vec<(String, String)> {
        let terms = &self.lease.terms;
        let fact = |name: Text, value: String| (cx.t(name).to_owned(), value);
        let mut facts = Vec::new();
        facts.extend(terms.instance.clone().map(|text| fact(Text::LeaseInstance, text)));
        facts.extend(terms.machine.clone().map(|text| fact(Text::LeaseMachine, text)));
        facts.extend(terms.order.clone().map(|text| fact(Text::LeaseOrder, text)));
        facts.push(fact(Text::ReportProvider, format!("{} · {}", terms.provider, terms.product)));
        facts.extend(terms.region.clone().map(|text| fact(Text::ReportRegion, text)));
        let gpus = format!(
            "{} × {}",
            Quantity::count(terms.gpu_count.into()).text(cx.language),
            terms.gpu_model
        );
        facts.push(fact(Text::ReportGpus, gpus));
        facts.push(fact(Text::ReportTenant, self.lease.tenant.clone()));
        facts.push(fact(Text::ReportWindow, words::window(self.window, cx)));
        facts
    }

    /// One row for what was judged, or why nothing was.
    fn in_short(&self, cx: &Context) -> Vec<Block> {
        let verdicts = &self.lease.judgement.verdicts;
        let states =
            self.lease.judgement.days.iter().fold([0_i64; 4], |[up, down, unknown, out], d| {
                [up + d.up_ms, down + d.down_ms, unknown + d.unknown_ms, out + d.excluded_ms]
            });
        let named = [Text::JudgedUp, Text::JudgedDown, Text::JudgedUnknown, Text::JudgedExcluded];
        let facts = named.iter().zip(states).map(|(name, ms)| {
            (cx.t(name).to_owned(), Quantity::gpu_hours_ms(ms).text(cx.language))
        });
        let mut blocks = vec![Block::Facts(facts.collect())];
        if verdicts.is_empty() {
            blocks.push(Block::Paragraph(cx.t(Text::JudgedNothing).to_owned()));
            return blocks;
        }
        let worst: Vec<&VerdictLine> = words::worst_of_each(verdicts);
        let rows = worst.into_iter().map(|line| {
            vec![
                words::outcome(line, cx),
                words::objective(line, cx),
                words::unit(&line.unit, cx),
                words::bounds(line, cx),
                words::credit(line, cx),
            ]
        });
        blocks.push(Block::Table(Table {
            columns: vec![
                Column::text(cx.t(Text::JudgedOutcome), 3),
                Column::text(cx.t(Text::ReportObjective), 4),
                Column::text(cx.t(Text::JudgedUnit), 3),
                Column::text(cx.t(Text::JudgedBounds), 4),
                Column::text(cx.t(Text::JudgedCredit), 3),
            ],
            rows: rows.collect(),
        }));
        blocks.push(Block::Note(cx.t(Text::ReportWorst).to_owned()));
        blocks
    }

    fn gpu_table(&self, cx: &Context) -> Block {
        let say = |ppm: Option<Ppm>| {
            ppm.map_or_else(|| "–".to_owned(), |ppm| Quantity::ppm(ppm.0).text(cx.language))
        };
        let rows = self.gpus.iter().map(|gpu| {
            let sum = gpu.days.iter().fold(DayUse::default(), |sum, day| sum.plus(*day));
            vec![
                format!("{} · {}", gpu.node.name, phrase::gpu_label(cx.language, gpu.number)),
                gpu.uuids.join(" "),
                say(sum.mean()),
                say(sum.coverage()),
                Quantity::gpu_hours_ms(sum.measured_ms).text(cx.language),
            ]
        });
        Block::Table(Table {
            columns: vec![
                Column::text("GPU", 4),
                Column::text("UUID", 6),
                Column::number(cx.t(Text::ColMean), 2),
                Column::number(cx.t(Text::ColCoverage), 2),
                Column::number(cx.t(Text::ColHours), 3),
            ],
            rows: rows.collect(),
        })
    }

    fn gap_table(&self, cx: &Context) -> Vec<Block> {
        let mut blocks = vec![Block::Heading(cx.t(Text::ReportGaps).to_owned())];
        let with_time = self.gaps.iter().filter(|(_, ms)| *ms > 0);
        let rows: Vec<Vec<String>> = with_time
            .map(|(cause, ms)| {
                let time = Quantity::gpu_hours_ms(*ms).text(cx.language);
                vec![cx.t(names::gap_cause(*cause)).to_owned(), time]
            })
            .collect();
        if rows.is_empty() {
            blocks.push(Block::Paragraph(cx.t(Text::ReportNoGap).to_owned()));
            return blocks;
        }
        let columns = vec![
            Column::text(cx.t(Text::ReportCause), 4),
            Column::number(cx.t(Text::ReportUnmeasured), 2),
        ];
        blocks.push(Block::Table(Table { columns, rows }));
        blocks
    }

    fn verdicts(&self, cx: &Context) -> Vec<Block> {
        let verdicts = &self.lease.judgement.verdicts;
        if verdicts.is_empty() {
            return Vec::new();
        }
        let rows = verdicts.iter().map(|line| {
            vec![
                words::outcome(line, cx),
                format!("{} · {}", words::objective(line, cx), words::unit(&line.unit, cx)),
                words::window(line.window, cx),
                words::bounds(line, cx),
                words::known(line, cx),
                words::credit(line, cx),
                words::remedies(line, cx),
            ]
        });
        let table = Table {
            columns: vec![
                Column::text(cx.t(Text::JudgedOutcome), 3),
                Column::text(cx.t(Text::ReportObjective), 5),
                Column::text(cx.t(Text::JudgedWindow), 5),
                Column::text(cx.t(Text::JudgedBounds), 3),
                Column::text(cx.t(Text::JudgedKnown), 2),
                Column::text(cx.t(Text::JudgedCredit), 3),
                Column::text(cx.t(Text::JudgedToDo), 5),
            ],
            rows: rows.collect(),
        };
        vec![Block::Heading(cx.t(Text::JudgedVerdicts).to_owned()), Block::Table(table)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::i18n::Language;
    use leasewatch_core::time::{DAY_MS, HOUR_MS, Zone};

    pub(super) fn sample() -> LeaseReport {
        let lease = LeaseView::sample();
        let window = Period::new(
            Timestamp::parse_iso("2026-06-30T16:00:00Z").unwrap(),
            Timestamp::parse_iso("2026-07-31T16:00:00Z").unwrap(),
        );
        let day = |n: i64| DayUse {
            starts_at: window.start.plus_ms(n * DAY_MS),
            enrolled_ms: DAY_MS,
            measured_ms: if n == 3 { 0 } else { DAY_MS - HOUR_MS },
            busy_pct_ms: if n == 3 { 0 } else { (DAY_MS - HOUR_MS) * n * 3 },
        };
        let gpu = |number| GpuDays {
            node: lease.assignments[0].node.clone(),
            number,
            uuids: vec![format!("GPU-{number}")],
            days: (0..31).map(day).collect(),
        };
        LeaseReport {
            window,
            gpus: (0..18).map(gpu).collect(),
            gaps: vec![(GapCause::GpuLost, 0), (GapCause::NodeReboot, 90 * 60_000)],
            lease,
        }
    }

    fn texts(report: &LeaseReport, language: Language) -> String {
        let zone = Zone::parse("Asia/Shanghai").unwrap();
        let cx = Context { language, zone, ..Context::sample() };
        report.document(&cx).texts().collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_first_page_says_who_when_and_what_in_both_languages() {
        let report = sample();
        let instance = report.lease.terms.instance.clone().unwrap();
        for (language, breach, zone) in [
            (Language::En, "breach proven", "UTC+08:00"),
            (Language::ZhCn, "已证实违约", "UTC+08:00"),
        ] {
            let texts = texts(&report, language);
            let place =
                |needle: &str| texts.find(needle).unwrap_or_else(|| panic!("{needle}: {texts}"));
            let use_begins = place(Text::ReportUse.words(language));
            for needle in [&instance, breach, zone, "2026-06-30T16:00:00Z", "2026-07-31T16:00:00Z"]
            {
                assert!(place(needle) < use_begins, "{needle} comes first");
            }
        }
    }

    #[test]
    fn what_was_not_measured_is_no_number() {
        let mut report = sample();
        report.gpus.truncate(1);
        report.gpus[0].days.iter_mut().for_each(|day| {
            (day.measured_ms, day.busy_pct_ms) = (0, 0);
        });
        let document = report.document(&Context::sample());
        let table = document.blocks.iter().find_map(|block| match block {
            Block::Table(table) if table.columns[1].head == "UUID" => Some(table),
            _ => None,
        });
        assert_eq!(table.unwrap().rows[0][2..4], ["–", "0\u{202f}%"]);
    }

    #[test]
    fn causes_without_time_have_no_row() {
        let texts = texts(&sample(), Language::En);
        assert!(texts.contains(Text::GapNodeReboot.words(Language::En)));
        assert!(!texts.contains(Text::GapGpuLost.words(Language::En)));
    }

    #[test]
    fn simulated_data_mark_the_document() {
        let mut report = sample();
        let cx = Context::sample();
        assert_eq!(report.document(&cx).mark, None);
        report.gpus[0].node.origin = Origin::Simulated;
        let mark = cx.t(names::origin_mark(Origin::Simulated).unwrap());
        assert_eq!(report.document(&cx).mark.as_deref(), Some(mark));
    }
}
