//! The report of a bundle: one page in both languages, for somebody who has only the file.
//!
//! It says what is claimed, what was measured, and what is not proven, from what stands in the bundle
//! and nothing else: no script, no resource from elsewhere, and no moment of its own making, so that
//! the same request gives the same bytes. Not here: a judgement; what a rental owes is a verdict.

use leasewatch_core::metering::UtilizationSum;
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{Period, Timestamp, Zone, tz_database_version};

use crate::document::{Block, Column, Document, Table};
use crate::format::{Detail, Quantity, moment};
use crate::i18n::{Language, Text, phrase};

/// What a bundle holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportView {
    /// Whose.
    pub tenant: String,
    /// Who supplied it, by public name and by name for people.
    pub provider: (String, String),
    /// Rentals by name; none: every node of the provider.
    pub leases: Vec<String>,
    /// From when to when.
    pub window: Period,
    /// The zone of the times, beside UTC.
    pub zone: Zone,
    /// By id.
    pub nodes: Vec<ReportNode>,
    /// Name of the log, how many leaves it had, the root over them, when that was signed.
    pub log: (String, u64, String, Timestamp),
    /// The server's key as a verifier takes it.
    pub key_line: String,
    /// Heads and minutes in it.
    pub heads: u64,
    /// Minutes in it.
    pub minutes: u64,
    /// The longest time from the end of a segment to its arrival.
    pub lag_ms: Option<i64>,
    /// The log before this one, if this one succeeds another.
    pub is_successor: bool,
}

/// A node of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportNode {
    /// As it joined.
    pub name: String,
    /// Its id.
    pub id: String,
    /// Where its data comes from.
    pub origin: Origin,
    /// Hours of GPUs, each by its latest revision.
    pub hours: u64,
    /// Hours that have more than one revision.
    pub revised: u64,
    /// What was measured in them.
    pub sum: UtilizationSum,
}

/// The report as one HTML file, in English and in Chinese.
#[must_use]
pub fn render(view: &ReportView) -> String {
    let [english, chinese] = Language::ALL.map(|language| Page { view, language }.document());
    Document::html_of(&[&english, &chinese])
}

struct Page<'a> {
    view: &'a ReportView,
    language: Language,
}

impl Page<'_> {
    fn document(&self) -> Document {
        let heading = |text| Block::Heading(self.t(text));
        let mut blocks = vec![Block::Warning(self.t(Text::BundleSelfAttested))];
        blocks.extend(self.marks().map(Block::Warning));
        if self.view.is_successor {
            blocks.push(Block::Warning(self.t(Text::BundleSuccessor)));
        }
        blocks.push(heading(Text::BundleClaimTitle));
        blocks.push(Block::Paragraph(self.claim()));
        blocks.push(Block::Facts(self.facts()));
        blocks.push(heading(Text::BundleMeasured));
        blocks.push(self.nodes());
        blocks.push(Block::Paragraph(self.heads()));
        blocks.push(heading(Text::BundleCheck));
        blocks.push(Block::Paragraph(self.t(Text::BundleCheckText)));
        blocks.push(Block::Command("leasewatch-verify check FILE".to_owned()));
        blocks.push(heading(Text::BundleLimits));
        let limits = [
            Text::BundleLimitTrue,
            Text::BundleLimitGaps,
            Text::BundleLimitHistory,
            Text::BundleLimitVerdict,
        ];
        blocks.extend(limits.map(|text| Block::Paragraph(self.t(text))));
        Document {
            language: self.language,
            title: self.t(Text::BundleTitle),
            mark: None,
            foot: format!("{} {}", self.t(Text::LayoutTzdb), tz_database_version()),
            blocks,
        }
    }

    fn t(&self, text: Text) -> String {
        text.words(self.language).to_owned()
    }

    fn claim(&self) -> String {
        let (slug, name) = &self.view.provider;
        phrase::bundle_claim(self.language, format!("{name} ({slug})"), &self.view.tenant)
    }

    fn facts(&self) -> Vec<(String, String)> {
        let (name, size, root, at) = &self.view.log;
        let log = phrase::bundle_log_state(self.language, name, root, self.count(*size));
        let leases = &self.view.leases;
        let leases =
            if leases.is_empty() { self.t(Text::BundleAllNodes) } else { leases.join(", ") };
        vec![
            (self.t(Text::BundleRentals), leases),
            (self.t(Text::BundleFrom), self.moment(self.view.window.start)),
            (self.t(Text::BundleTo), self.moment(self.view.window.end)),
            (self.t(Text::BundleLog), format!("{log}, {}", self.moment(*at))),
            (self.t(Text::BundleKey), self.view.key_line.clone()),
        ]
    }

    fn nodes(&self) -> Block {
        if self.view.nodes.is_empty() {
            return Block::Paragraph(self.t(Text::BundleNothing));
        }
        let row = |node: &ReportNode| {
            let mut hours = self.count(node.hours);
            if node.revised > 0 {
                let revised = self.count(node.revised);
                hours.push_str(&format!(" ({} {revised})", self.t(Text::BundleRevised)));
            }
            let sum = &node.sum;
            let mean = sum.mean().map(|ppm| Quantity::ppm(ppm.0).text(self.language));
            vec![
                format!("{} {}", node.name, node.id),
                hours,
                self.hours(sum.enrolled_ms),
                self.hours(sum.measured_ms()),
                share(sum.measured_ms(), sum.enrolled_ms, self.language),
                mean.unwrap_or_else(|| self.t(Text::BundleNothing)),
                self.hours(sum.gaps.total_ms()),
            ]
        };
        let number = |text| Column::number(self.t(text), 2);
        Block::Table(Table {
            columns: vec![
                Column::text(self.t(Text::BundleNode), 4),
                number(Text::BundleHours),
                number(Text::BundleEnrolled),
                number(Text::BundleMeasuredTime),
                number(Text::BundleCoverage),
                number(Text::BundleBusy),
                number(Text::BundleGaps),
            ],
            rows: self.view.nodes.iter().map(row).collect(),
        })
    }

    fn heads(&self) -> String {
        let (heads, minutes) = (self.count(self.view.heads), self.count(self.view.minutes));
        let mut text = format!(
            "{} {heads}; {} {minutes}.",
            self.t(Text::BundleHeads),
            self.t(Text::BundleMinutes)
        );
        if let Some(ms) = self.view.lag_ms {
            let lag = Quantity::duration_ms(ms).text(self.language);
            text.push_str(&format!(" {}", phrase::bundle_lag(self.language, lag)));
        }
        text
    }

    /// In the zone, and in UTC where that is another.
    fn moment(&self, at: Timestamp) -> String {
        let zone = self.view.zone;
        let local = moment(at, zone, self.language, Detail::Minute);
        if zone == Zone::UTC {
            return local;
        }
        let utc = moment(at, Zone::UTC, self.language, Detail::Minute);
        format!("{local} {} ({utc})", zone.name())
    }

    fn marks(&self) -> impl Iterator<Item = String> {
        let has = |origin| self.view.nodes.iter().any(|node| node.origin == origin);
        let marks =
            [(Origin::Simulated, Text::BundleSimulated), (Origin::Imported, Text::BundleImported)];
        marks.into_iter().filter(move |(of, _)| has(*of)).map(|(_, text)| self.t(text))
    }

    fn count(&self, count: u64) -> String {
        Quantity::count(i64::try_from(count).unwrap_or(i64::MAX)).text(self.language)
    }

    fn hours(&self, ms: i64) -> String {
        Quantity::gpu_hours_ms(ms).text(self.language)
    }
}

/// A share of time, never rounded to all of it.
fn share(part: i64, whole: i64, language: Language) -> String {
    match Quantity::open_share(part, whole) {
        Some(share) => share.text(language),
        None => Text::BundleNothing.words(language).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasewatch_core::time::HOUR_MS;

    fn view(zone: &str) -> ReportView {
        let start = Timestamp::parse_iso("2026-08-01T00:00:00Z").unwrap();
        let node = |name: &str, origin| ReportNode {
            name: name.to_owned(),
            id: "22".repeat(16),
            origin,
            hours: 1_234,
            revised: 2,
            sum: UtilizationSum::default(),
        };
        ReportView {
            tenant: "default".to_owned(),
            provider: ("acme".to_owned(), "Acme & Söhne".to_owned()),
            leases: Vec::new(),
            window: Period::new(start, start.plus_ms(24 * HOUR_MS)),
            zone: Zone::parse(zone).unwrap(),
            nodes: vec![node("a", Origin::Measured), node("<script>b", Origin::Imported)],
            log: ("leasewatch/0/default/acme".to_owned(), 70_080, "ab".repeat(32), start),
            key_line: "leasewatch/0/default/acme+00000000+AQ==".to_owned(),
            heads: 0,
            minutes: 0,
            lag_ms: Some(61_000),
            is_successor: false,
        }
    }

    #[test]
    fn it_says_first_that_nobody_else_has_seen_it_and_marks_what_is_no_measurement() {
        let html = render(&view("Asia/Shanghai"));
        for (first, then) in
            [("Self-attested", "What is claimed"), ("自证（无第三方见证）", "所主张的内容")]
        {
            assert!(html.find(first).unwrap() < html.find(then).unwrap(), "{html}");
        }
        for said in [
            "Imported data",
            "导入数据",
            "1,234",
            "70,080 leaves",
            "server of default",
            "nothing was measured",
            "08:00",
        ] {
            assert!(html.contains(said), "{said} is not in {html}");
        }
        assert!(!html.contains("Simulated data"), "{html}");
    }

    #[test]
    fn nothing_in_it_runs_or_is_loaded() {
        let html = render(&view("UTC"));
        assert!(html.contains("&lt;script&gt;b") && html.contains("Acme &amp; S"), "{html}");
        for banned in ["<script", "http:", "https:", "src=", "url(", "@import", "<link"] {
            assert!(!html.contains(banned), "{banned}");
        }
    }
}
