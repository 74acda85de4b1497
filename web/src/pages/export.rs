//! The section that offers hours as CSV, shared by the pages of the fleet and of a node.
//!
//! Only links and a form: the file itself is `csv`, its range is checked by whoever serves it.

use leasewatch_core::time::{HOUR_MS, Period};

use crate::context::Context;
use crate::format;
use crate::i18n::Text;
use crate::path::{self, pattern};

/// What `export.html` shows.
pub(super) struct Export<'a> {
    pub(super) cx: &'a Context,
    /// The node whose hours are offered; `None` for those of every node.
    pub(super) node: Option<&'a str>,
    /// The days that the form begins with, and that the first preset takes.
    pub(super) days: Period,
}

/// A ready-made range.
pub(super) struct Preset {
    pub(super) words: &'static str,
    pub(super) href: String,
}

impl Export<'_> {
    pub(super) fn presets(&self) -> Vec<Preset> {
        let (zone, now) = (self.cx.zone, self.cx.now);
        let today = format::iso_date(now, zone);
        let preset = |text: Text, from: &str, to: &str| Preset {
            words: self.cx.t(text),
            href: path::hours_csv(from, to, zone, self.node),
        };
        let days = if self.node.is_some() { Text::ExportWeek } else { Text::NodeWeekNow };
        let mut out = vec![preset(days, &self.first(), &self.last())];
        // Noon, because days of 23 or 25 hours would otherwise end on a neighbour.
        let noon = zone.day(now).map(|day| day.start.plus_ms(12 * HOUR_MS));
        for (text, days) in
            [(Text::ExportToday, 0), (Text::ExportThirty, 29), (Text::ExportNinety, 89)]
        {
            let from = noon.map(|noon| format::iso_date(noon.plus_ms(-days * 24 * HOUR_MS), zone));
            out.extend(from.map(|from| preset(text, &from, &today)));
        }
        out
    }

    pub(super) fn action(&self) -> &'static str {
        pattern::HOURS_CSV
    }

    /// The first day, as `YYYY-MM-DD`.
    pub(super) fn first(&self) -> String {
        format::iso_date(self.days.start, self.cx.zone)
    }

    /// The last day, which is inside.
    pub(super) fn last(&self) -> String {
        format::iso_date(self.days.end.plus_ms(-1), self.cx.zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasewatch_core::time::Zone;

    fn hrefs(node: Option<&str>) -> Vec<String> {
        let cx = Context { zone: Zone::parse("Asia/Shanghai").unwrap(), ..Context::sample() };
        let days = path::week(None, cx.zone, cx.now).unwrap();
        let presets = Export { cx: &cx, node, days }.presets();
        presets.into_iter().map(|preset| preset.href).collect()
    }

    #[test]
    fn presets_end_today_and_hold_both_days() {
        let range = |from| format!("/hours.csv?from={from}&to=2026-08-01&tz=Asia%2FShanghai");
        let all: Vec<String> =
            ["2026-07-26", "2026-08-01", "2026-07-03", "2026-05-04"].map(range).into();
        assert_eq!(hrefs(None), all);
        let of_node: Vec<String> = all.iter().map(|href| format!("{href}&node=4b1f")).collect();
        assert_eq!(hrefs(Some("4b1f")), of_node);
    }
}
