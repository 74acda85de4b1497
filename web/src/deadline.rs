//! Deadlines of claims, as every page shows them: how much is left, and the exact instant in the
//! rental's zone and in UTC. A deadline that passed says so.

use leasewatch_core::sla::claim::Urgency;
use leasewatch_core::time::{Period, Timestamp, Zone};
use serde::{Serialize, Serializer};

use crate::context::Context;
use crate::format::{self, Detail, Quantity};
use crate::i18n::{Language, Text, phrase};
use crate::markup::{Markup, Writer};
use crate::path::{LeasePart, Route};
use crate::wire;

/// The deadline of a claim that was not filed, or of a breach that nobody claims yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadlineLine {
    /// The tenant's public name.
    pub tenant: String,
    /// The rental.
    pub lease: String,
    /// The objective that was missed.
    pub objective: String,
    /// The window that was judged.
    #[serde(serialize_with = "wire::period")]
    pub window: Period,
    /// How many units were down, each a claim of its own.
    pub units: i64,
    /// The claim that was drafted; `None` while there is none.
    pub claim: Option<i32>,
    /// The last instant at which it is in time.
    #[serde(serialize_with = "wire::at")]
    pub at: Timestamp,
    /// The zone whose days are counted.
    #[serde(serialize_with = "zone")]
    pub zone: Zone,
    /// How near it is.
    #[serde(serialize_with = "urgency")]
    pub urgency: Urgency,
}

/// What the head of every page says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deadlines {
    /// Those within seven days.
    pub near: i64,
    /// The nearest of them.
    pub next_at: Option<Timestamp>,
    /// Those that passed not long ago.
    pub missed: i64,
}

fn zone<S: Serializer>(zone: &Zone, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(zone.name())
}

fn urgency<S: Serializer>(urgency: &Urgency, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(urgency.name())
}

impl Deadlines {
    /// Of these lines.
    #[must_use]
    pub fn of(lines: &[DeadlineLine]) -> Self {
        let near = lines.iter().filter(|line| line.is_near());
        let missed = lines.iter().filter(|line| line.urgency == Urgency::Missed).count();
        Self {
            near: i64::try_from(near.clone().count()).unwrap_or(i64::MAX),
            next_at: near.map(|line| line.at).min(),
            missed: i64::try_from(missed).unwrap_or(i64::MAX),
        }
    }

    /// `2 due, 1 d 3 h left; 1 missed`; nothing where nothing is due.
    pub(crate) fn words(self, now: Timestamp, language: Language) -> Option<String> {
        let near = self.next_at.map(|at| {
            let left = Quantity::duration_ms(at.since(now).max(0)).text(language);
            phrase::deadline_badge(language, self.near, left)
        });
        let missed =
            (self.missed > 0).then(|| phrase::deadline_badge_missed(language, self.missed));
        let both: Vec<String> = near.into_iter().chain(missed).collect();
        (!both.is_empty()).then(|| both.join(" · "))
    }
}

impl DeadlineLine {
    /// A deadline in a day and a half, and one that passed.
    #[must_use]
    pub fn samples() -> Vec<Self> {
        let now = crate::pages::sample::NOW;
        let hours = |count: i64| now.plus_ms(count * 3_600_000);
        let line = |claim, at, urgency| Self {
            tenant: "default".to_owned(),
            lease: "h100-train".to_owned(),
            objective: "gpu-month".to_owned(),
            window: Period::new(hours(-720), now),
            units: 2,
            claim,
            at,
            zone: Zone::UTC,
            urgency,
        };
        vec![line(None, hours(36), Urgency::Days), line(Some(3), hours(-30), Urgency::Missed)]
    }

    /// Within seven days, and not over.
    #[must_use]
    pub fn is_near(&self) -> bool {
        matches!(self.urgency, Urgency::Week | Urgency::Days | Urgency::Day)
    }

    /// The class of its element, which is never the only sign.
    pub(crate) fn class(&self) -> &'static str {
        class(self.urgency)
    }

    /// `1 d 12 h left`, or how long ago it passed.
    pub(crate) fn left(&self, cx: &Context) -> String {
        left(self.at, cx)
    }

    /// The instant in its zone, then in UTC.
    pub(crate) fn instants(&self, cx: &Context) -> Markup {
        let mut out = Writer::default();
        out.element("time", &[("datetime", &self.at)], instants(self.at, self.zone, cx.language));
        out.finish()
    }

    /// The claim, or the page where it is drafted.
    pub(crate) fn href(&self, cx: &Context) -> String {
        let (tenant, lease) = (self.tenant.clone(), self.lease.clone());
        let to_lease = Route::Lease { tenant, lease, part: LeasePart::Page };
        cx.here.to(self.claim.map_or(to_lease, Route::Claim)).href()
    }

    /// What to do about it.
    pub(crate) fn advice(&self, cx: &Context) -> &'static str {
        cx.t(match (self.urgency, self.claim) {
            (Urgency::Missed, _) => Text::DeadlineAdviceMissed,
            (_, None) => Text::DeadlineAdviceDraft,
            (_, Some(_)) => Text::DeadlineAdviceFile,
        })
    }

    /// Everything in one line: how much is left, and until when.
    pub(crate) fn markup(&self, cx: &Context) -> Markup {
        let mut out = Writer::default();
        out.element("strong", &[("class", &self.class())], self.left(cx));
        out.text(" ");
        out.add(&self.instants(cx));
        out.finish()
    }
}

/// Class of a deadline's element.
pub(crate) fn class(urgency: Urgency) -> &'static str {
    match urgency {
        Urgency::Later => "due",
        Urgency::Week | Urgency::Days => "due near",
        Urgency::Day => "due today",
        Urgency::Missed => "due missed",
    }
}

/// `1 d 12 h left`, or how long ago it passed.
pub(crate) fn left(at: Timestamp, cx: &Context) -> String {
    let ms = at.since(cx.now);
    let time = Quantity::duration_ms(ms.abs()).text(cx.language);
    if ms < 0 {
        phrase::deadline_missed(cx.language, time)
    } else {
        phrase::deadline_left(cx.language, time)
    }
}

/// `4 Sep 2026, 00:00 UTC+08:00 (3 Sep 2026, 16:00 UTC)`.
pub(crate) fn instants(at: Timestamp, zone: Zone, language: Language) -> String {
    let local = format::moment(at, zone, language, Detail::Minute);
    if zone == Zone::UTC {
        return local;
    }
    let utc = format::moment(at, Zone::UTC, language, Detail::Minute);
    phrase::deadline_both(language, local, utc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_counts_what_is_near_and_says_what_passed() {
        let lines = DeadlineLine::samples();
        let head = Deadlines::of(&lines);
        let now = crate::pages::sample::NOW;
        assert_eq!((head.near, head.missed), (1, 1));
        let words = head.words(now, Language::En).unwrap();
        assert!(words.contains("1 due, 1") && words.contains("1 missed"), "{words}");
        assert_eq!(Deadlines::of(&[]).words(now, Language::En), None);
        let later = DeadlineLine { urgency: Urgency::Later, ..lines[0].clone() };
        assert_eq!(Deadlines::of(&[later]), Deadlines::default());
    }

    #[test]
    fn an_instant_stands_in_its_zone_and_in_utc() {
        let at = Timestamp::parse_iso("2026-09-03T16:00:00Z").unwrap();
        let zone = Zone::parse("Asia/Shanghai").unwrap();
        let text = instants(at, zone, Language::En);
        assert!(text.starts_with("4 Sep 2026") && text.contains("3 Sep 2026"), "{text}");
    }
}
