//! The calendar: what each day was. A word and a pattern say it, never a colour alone.

use super::judgement::{DayState, DayStates};
use super::{LeaseView, Section};
use crate::context::Context;
use crate::format::{self, Quantity};
use crate::i18n::Text;
use crate::markup::Writer;

pub(super) fn section(view: &LeaseView, cx: &Context) -> Option<Section> {
    let days = &view.judgement.days;
    if days.is_empty() {
        return None;
    }
    let mut out = Writer::default();
    out.element("p", &[("class", &"quiet")], cx.t(Text::JudgedCalendarLead));
    out.open("ol", &[("class", &"days")]);
    for day in days {
        write(&mut out, *day, cx);
    }
    out.close("ol");
    Some(Section { id: "calendar", title: Text::JudgedCalendar, body: out.finish() })
}

fn write(out: &mut Writer, day: DayStates, cx: &Context) {
    let class = match day.state() {
        DayState::Down => "day-down",
        DayState::Unknown => "day-unknown",
        DayState::Up => "day-up",
        DayState::Excluded => "day-excluded",
    };
    out.open("li", &[("class", &class)]);
    out.element("b", &[], format::day(day.starts_at, cx.zone, cx.language));
    for (state, ms) in day.parts() {
        let time = Quantity::duration_ms(ms).text(cx.language);
        out.open("span", &[]);
        out.text(format_args!("{} {time}", cx.t(state)));
        out.close("span");
    }
    out.close("li");
}
