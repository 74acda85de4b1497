//! The band under a chart whose data was not measured by an agent. It is text of the page, not of
//! the drawing, so it keeps its size and stays legible however the drawing is scaled.

use leasewatch_core::segment::Origin;

use crate::i18n::{Language, phrase};
use crate::markup::Writer;
use crate::names;

/// Times the word is written: enough for the widest chart of a 4k screen.
const REPEATS: usize = 32;

/// The origin's word again and again, so that no cut of the chart loses it; nothing for measured
/// data. It is hidden from screen readers, which read the origin in the chart's name: [`named`].
pub(crate) fn origin_band(out: &mut Writer, origin: Origin, language: Language) {
    let Some(mark) = names::origin_mark(origin) else { return };
    let class = format!("origin-band {}", origin.name());
    let words = [mark.words(language); REPEATS].join(" · ");
    out.element("div", &[("class", &class), ("aria-hidden", &"true")], words);
}

/// The name of a chart, with the origin of its data unless that was measured.
pub(crate) fn named(title: &str, origin: Origin, language: Language) -> String {
    names::origin_mark(origin).map_or_else(
        || title.to_owned(),
        |mark| phrase::chart_named(language, mark.words(language), title),
    )
}
