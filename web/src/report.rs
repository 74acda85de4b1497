//! The report of a bundle: one page in both languages, for somebody who has only the file.
//!
//! It says what is claimed, what was measured, and what is not proven, from what stands in the bundle
//! and nothing else: no script, no resource from elsewhere, and no moment of its own making, so that
//! the same request gives the same bytes. Not here: a judgement; what a rental owes is a verdict.

use std::borrow::Borrow;

use askama::Template;
use leasewatch_core::metering::UtilizationSum;
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{Period, Timestamp, Zone, tz_database_version};

use crate::RenderError;
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

/// Renders the page.
///
/// # Errors
/// [`RenderError`] when a value cannot be formatted.
pub fn render(view: &ReportView) -> Result<String, RenderError> {
    Page { view }.render()
}

#[derive(Template)]
#[template(path = "report.html", whitespace = "minimize")]
struct Page<'a> {
    view: &'a ReportView,
}

impl Page<'_> {
    fn t(&self, language: impl Borrow<Language>, text: impl Borrow<Text>) -> &'static str {
        text.borrow().words(*language.borrow())
    }

    fn claim(&self, language: &Language) -> String {
        let (slug, name) = &self.view.provider;
        phrase::bundle_claim(*language, format!("{name} ({slug})"), &self.view.tenant)
    }

    fn rentals(&self, language: &Language) -> String {
        match self.view.leases.is_empty() {
            true => Text::BundleAllNodes.words(*language).to_owned(),
            false => self.view.leases.join(", "),
        }
    }

    /// In the zone, and in UTC where that is another.
    fn moment(&self, at: &Timestamp, language: &Language) -> String {
        let zone = self.view.zone;
        let local = moment(*at, zone, *language, Detail::Minute);
        if zone == Zone::UTC {
            return local;
        }
        let utc = moment(*at, Zone::UTC, *language, Detail::Minute);
        format!("{local} {} ({utc})", zone.name())
    }

    fn marks(&self, language: &Language) -> Vec<&'static str> {
        let has = |origin| self.view.nodes.iter().any(|node| node.origin == origin);
        let marks =
            [(Origin::Simulated, Text::BundleSimulated), (Origin::Imported, Text::BundleImported)];
        marks
            .into_iter()
            .filter(|(of, _)| has(*of))
            .map(|(_, text)| text.words(*language))
            .collect()
    }

    fn lag(&self, language: &Language) -> Option<String> {
        let lag = self.view.lag_ms.map(|ms| Quantity::duration_ms(ms).text(*language))?;
        Some(phrase::bundle_lag(*language, &lag))
    }

    fn count(&self, count: &u64, language: &Language) -> String {
        Quantity::count(i64::try_from(*count).unwrap_or(i64::MAX)).text(*language)
    }

    fn hours(&self, ms: impl Borrow<i64>, language: &Language) -> String {
        Quantity::gpu_hours_ms(*ms.borrow()).text(*language)
    }

    fn coverage(&self, node: &ReportNode, language: &Language) -> String {
        share(node.sum.measured_ms(), node.sum.enrolled_ms, *language)
    }

    fn busy(&self, node: &ReportNode, language: &Language) -> String {
        let mean = node.sum.mean().map(|ppm| Quantity::ppm(ppm.0).text(*language));
        mean.unwrap_or_else(|| Text::BundleNothing.words(*language).to_owned())
    }

    fn log_state(&self, language: &Language) -> String {
        let (name, size, root, _) = &self.view.log;
        phrase::bundle_log_state(*language, name, root, self.count(size, language))
    }

    fn tz_version(&self) -> &'static str {
        tz_database_version()
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
        let html = render(&view("Asia/Shanghai")).unwrap();
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
        let html = render(&view("UTC")).unwrap();
        assert!(html.contains("&#60;script&#62;b") && html.contains("Acme &#38; S"), "{html}");
        for banned in ["<script", "http:", "https:", "src=", "url(", "@import", "<link"] {
            assert!(!html.contains(banned), "{banned}");
        }
    }
}
