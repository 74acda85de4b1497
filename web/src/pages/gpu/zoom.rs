//! Where to go from a range: presets, earlier and later, in and out. All of it is links and a
//! form; the script only adds dragging.

use leasewatch_core::time::{Period, Timestamp};

use super::{Detail, GpuView};
use crate::context::Context;
use crate::format::{self, Quantity};
use crate::i18n::{Text, phrase};
use crate::path::{Last, RANGE_MS_MAX, RANGE_MS_MIN, RangeState};

/// Half of the range that is shown around an event.
const AROUND_MS: i64 = 15 * 60_000;

/// A link to another range.
pub(super) struct Link {
    pub(super) href: String,
    pub(super) words: String,
    pub(super) current: bool,
}

/// The range of a page, and what lies around it.
pub(super) struct Zoom<'a> {
    pub(super) cx: &'a Context,
    pub(super) view: &'a GpuView,
}

impl Zoom<'_> {
    /// Now, or the end of a record that ended.
    pub(super) fn latest(&self) -> Timestamp {
        self.view.ended_at.unwrap_or(self.cx.now)
    }

    /// Whether the range moves on with the clock.
    pub(super) fn is_rolling(&self) -> bool {
        let range = &self.cx.here.state.range;
        self.view.ended_at.is_none() && range.from.is_none() && range.to.is_none()
    }

    pub(super) fn presets(&self) -> Vec<Link> {
        let state = &self.cx.here.state.range;
        let chosen =
            (state.from.is_none() && state.to.is_none()).then(|| state.last.unwrap_or_default());
        let link = |last: Last| Link {
            href: self.href(RangeState::last(last)),
            words: Quantity::duration_ms(last.ms()).text(self.cx.language),
            current: chosen == Some(last),
        };
        Last::ALL.into_iter().map(link).collect()
    }

    pub(super) fn moves(&self) -> Vec<Link> {
        let moves = [
            (Text::ZoomEarlier, self.earlier()),
            (Text::ZoomLater, self.later()),
            (Text::ZoomIn, self.inside()),
            (Text::ZoomOut, self.outside()),
        ];
        let link = |(text, state): (Text, Option<RangeState>)| {
            let words = self.cx.t(text).to_owned();
            Some(Link { href: self.href(state?), words, current: false })
        };
        moves.into_iter().filter_map(link).collect()
    }

    /// The range around an instant.
    pub(super) fn around(&self, at: Timestamp) -> String {
        let end = at.plus_ms(AROUND_MS).min(self.latest().max(at.plus_ms(RANGE_MS_MIN)));
        self.between(at.plus_ms(-AROUND_MS), end)
    }

    /// A gap with some time on both sides.
    pub(super) fn around_period(&self, period: Period) -> String {
        let margin = (period.ms() / 2).clamp(60_000, 6 * 3_600_000);
        let end = period.end.plus_ms(margin).min(self.latest().max(period.end));
        self.between(period.start.plus_ms(-margin), end)
    }

    pub(super) fn between(&self, start: Timestamp, end: Timestamp) -> String {
        self.href(RangeState::between(Period::new(start, end)))
    }

    pub(super) fn href(&self, range: RangeState) -> String {
        self.cx.here.in_range(range).href()
    }

    /// The ends for the form, as local clock readings.
    pub(super) fn ends(&self) -> (String, String) {
        let local = |at| format::iso_local(at, self.cx.zone);
        (local(self.view.range.start), local(self.view.range.end))
    }

    /// `1 Aug 2026, 08:25:00 – 14:25:00 UTC (6 h)`.
    pub(super) fn title(&self) -> String {
        let (zone, language) = (self.cx.zone, self.cx.language);
        let Period { start, end } = self.view.range;
        let whole = |at| {
            let date = format::local_date(at, zone, language);
            phrase::zoom_point(language, format::clock_second(at, zone), date)
        };
        let same_day = format::iso_date(start, zone) == format::iso_date(end, zone);
        let to = if same_day { format::clock_second(end, zone) } else { whole(end) };
        let title = phrase::zoom_title(language, whole(start), format::offset(start, zone), to);
        let length = Quantity::duration_ms(self.view.range.ms()).text(language);
        phrase::zoom_title_length(language, length, title)
    }

    /// How fine the points are, and where they come from.
    pub(super) fn detail(&self) -> String {
        let language = self.cx.language;
        let length = Quantity::duration_ms(self.view.bucket_ms).text(language);
        match self.view.detail {
            Detail::Readings => phrase::zoom_detail_readings(language, length),
            Detail::Minutes => phrase::zoom_detail_minutes(language, length),
            Detail::Hours => phrase::zoom_detail_hours(language, length),
        }
    }

    fn length(&self) -> i64 {
        self.view.range.ms()
    }

    fn earlier(&self) -> Option<RangeState> {
        let Period { start, .. } = self.view.range;
        let period = Period::new(start.plus_ms(-self.length()), start);
        (start > self.view.enrolled_at).then(|| RangeState::between(period))
    }

    fn later(&self) -> Option<RangeState> {
        let (end, latest) = (self.view.range.end, self.latest());
        if end >= latest {
            return None;
        }
        let next = end.plus_ms(self.length());
        if next < latest {
            return Some(RangeState::between(Period::new(end, next)));
        }
        let preset = Last::ALL.into_iter().find(|last| last.ms() == self.length());
        let clamped = Period::new(latest.plus_ms(-self.length()), latest);
        Some(preset.map_or_else(|| RangeState::between(clamped), RangeState::last))
    }

    /// The middle half.
    fn inside(&self) -> Option<RangeState> {
        let quarter = self.length() / 4;
        let Period { start, end } = self.view.range;
        let period = Period::new(start.plus_ms(quarter), end.plus_ms(-quarter));
        (period.ms() >= RANGE_MS_MIN).then(|| RangeState::between(period))
    }

    /// Three times as long around the same middle, but not beyond the record.
    fn outside(&self) -> Option<RangeState> {
        let length = self.length().saturating_mul(3).min(RANGE_MS_MAX);
        let Period { start, end } = self.view.range;
        let end = end.plus_ms((length - self.length()) / 2).min(self.latest().max(end));
        let begin = end.plus_ms(-length).max(self.view.enrolled_at.min(start));
        let wider = Period::new(begin, end);
        (wider.ms() > self.length()).then(|| RangeState::between(wider))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{Address, Route, UrlState};
    use leasewatch_core::time::HOUR_MS;

    fn hrefs(query: &str, edit: impl Fn(&mut GpuView)) -> Vec<String> {
        let mut view = GpuView::sample();
        let state = UrlState::parse(query).unwrap();
        let mut cx = Context::sample();
        view.range = state.range.period(cx.zone, cx.now).unwrap();
        edit(&mut view);
        cx.here = Address { route: Route::Gpu { node: "ab".to_owned(), slot: 1 }, state };
        let zoom = Zoom { cx: &cx, view: &view };
        let moves = zoom.moves().into_iter();
        moves.map(|link| link.href.split_once('?').unwrap().1.to_owned()).collect()
    }

    #[test]
    fn a_range_up_to_now_goes_back_in_and_out() {
        assert_eq!(
            hrefs("last=1h", |_| {}),
            [
                "from=2026-08-01T12:25:00Z&to=2026-08-01T13:25:00Z",
                "from=2026-08-01T13:40:00Z&to=2026-08-01T14:10:00Z",
                "from=2026-08-01T11:25:00Z&to=2026-08-01T14:25:00Z",
            ]
        );
    }

    #[test]
    fn later_ends_in_the_preset_of_that_length() {
        let links = hrefs("from=2026-08-01T12:25:00Z&to=2026-08-01T13:25:00Z", |_| {});
        assert_eq!(links[1], "last=1h");
        let links = hrefs("from=2026-08-01T13:00:00Z&to=2026-08-01T14:00:00Z&tz=UTC", |_| {});
        assert_eq!(links[1], "tz=UTC&last=1h");
        let links = hrefs("from=2026-08-01T13:00:00Z&to=2026-08-01T14:10:00Z", |_| {});
        assert_eq!(links[1], "from=2026-08-01T13:15:00Z&to=2026-08-01T14:25:00Z");
    }

    #[test]
    fn nothing_lies_before_the_node_joined_and_nothing_is_finer_than_seconds() {
        let joined = |view: &mut GpuView| view.enrolled_at = view.range.start;
        assert_eq!(hrefs("last=1h", joined).len(), 1);
        let links = hrefs("from=2026-08-01T13:00:00Z&to=2026-08-01T13:00:15Z", |_| {});
        assert_eq!(links.len(), 3, "{links:?}");
        let year =
            |view: &mut GpuView| view.enrolled_at = view.range.start.plus_ms(-9_000 * HOUR_MS);
        let links = hrefs("last=1y", year);
        assert_eq!(links.last().unwrap(), "from=2024-07-31T14:25:00Z&to=2026-08-01T14:25:00Z");
    }
}
