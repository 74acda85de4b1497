//! A lane: when something held, and for how much of the time. Each stretch is as high as its
//! share, so the share does not rest on colour.

use leasewatch_core::time::Period;

use super::backdrop::BACK;
use super::point::{Grid, Part};
use crate::format::div_half_even;
use crate::markup::{Markup, Writer};

/// Height of the lane, in pixels.
const HEIGHT: i64 = 16;

/// One lane over a page's time axis.
#[derive(Debug, Clone, Copy)]
pub struct Lane<'a> {
    /// The name that a screen reader reads.
    pub name: &'a str,
    /// The time axis.
    pub grid: Grid,
    /// When it held, and its share of that time in per mille.
    pub stretches: &'a [(Period, i64)],
    /// The class of its colour.
    pub class: &'a str,
}

impl Lane<'_> {
    /// The lane as SVG that fills its container's width.
    #[must_use]
    pub fn markup(&self) -> Markup {
        let mut out = Writer::default();
        let class = format!("lane-bars {}", self.class);
        out.open_chart(self.name, &[("class", &class), ("width", &"100%"), ("height", &HEIGHT)]);
        out.empty("use", &[("href", &format!("#{BACK}"))]);
        for (period, share) in self.stretches {
            let inside = period.intersect(self.grid.period);
            if inside.is_empty() || *share <= 0 {
                continue;
            }
            let left = self.grid.place(inside.start);
            let width = Part((self.grid.place(inside.end).0 - left.0).max(100));
            let high = div_half_even(i128::from(*share) * i128::from(HEIGHT), 1_000);
            let high = high.clamp(3, HEIGHT);
            out.empty(
                "rect",
                &[("x", &left), ("y", &(HEIGHT - high)), ("width", &width), ("height", &high)],
            );
        }
        out.close_chart();
        out.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasewatch_core::time::Timestamp;

    #[test]
    fn a_stretch_is_as_high_as_its_share() {
        let second =
            |from: i64, to: i64| Period::new(Timestamp(from * 1_000), Timestamp(to * 1_000));
        let stretches = [(second(10, 20), 1_000), (second(30, 40), 500), (second(90, 190), 1)];
        let grid = Grid { period: second(0, 100), bucket_ms: 1_000 };
        let lane = Lane { name: "cap", grid, stretches: &stretches, class: "r2" }.markup();
        let svg = lane.as_str();
        assert!(svg.contains(r#"<rect x="10%" y="0" width="10%" height="16"/>"#), "{svg}");
        assert!(svg.contains(r#"<rect x="30%" y="8" width="10%" height="8"/>"#));
        assert!(svg.contains(r#"<rect x="90%" y="13" width="10%" height="3"/>"#));
    }
}
