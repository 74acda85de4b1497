//! A drawing in whole points: the same shapes become SVG and PDF.
//!
//! States differ in pattern as well as in colour, so that a copy in black and white still says
//! what it says.

use crate::markup::{Markup, Writer};

/// Distance of the lines of a hatch, in points.
const HATCH_STEP: i64 = 4;

/// Left, top, width and height, in points from the upper left corner.
pub type Area = (i64, i64, i64, i64);

/// A drawing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// What it shows, for who cannot see it.
    pub name: String,
    /// In points.
    pub width: i64,
    /// In points.
    pub height: i64,
    /// What it is made of, the hindmost first.
    pub shapes: Vec<Shape>,
}

/// A part of a drawing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// A filled area.
    Area(Area, Fill),
    /// A straight line between two points.
    Line((i64, i64), (i64, i64), Fill),
    /// Words on a base line.
    Words((i64, i64), Anchor, String),
}

/// Where words stand beside their point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// They begin there.
    Start,
    /// They are centred there.
    Middle,
    /// They end there.
    End,
}

/// What an area is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Utilization: nothing, up to 20, 40, 60, 80 and 100 percent.
    Busy(u8),
    /// Shown to have worked.
    Up,
    /// Shown not to have worked.
    Down,
    /// Nothing is known.
    Missing,
    /// Taken out of the account.
    Excluded,
    /// Text and strokes.
    Ink,
    /// Thin rules.
    Rule,
}

impl Fill {
    /// Its colour as red, green and blue.
    #[must_use]
    pub fn colour(self) -> [u8; 3] {
        match self {
            Self::Busy(0) => [0xe2, 0xe8, 0xe9],
            Self::Busy(1) => [0xbc, 0xde, 0xdc],
            Self::Busy(2) => [0x8a, 0xc4, 0xc3],
            Self::Busy(3) => [0x54, 0xa4, 0xa7],
            Self::Busy(4) | Self::Up => [0x1e, 0x77, 0x80],
            Self::Busy(_) => [0x06, 0x50, 0x5a],
            Self::Down => [0xb3, 0x26, 0x1e],
            Self::Missing => [0xff, 0xff, 0xff],
            Self::Excluded => [0xec, 0xec, 0xec],
            Self::Ink => [0x14, 0x19, 0x1c],
            Self::Rule => [0x9a, 0xa5, 0xa9],
        }
    }

    /// The step of a utilization in ppm.
    #[must_use]
    pub fn busy(ppm: u32) -> Self {
        let step = ppm.div_ceil(200_000).min(5);
        Self::Busy(u8::try_from(step).unwrap_or(5))
    }

    fn hatch(self) -> Option<Hatch> {
        match self {
            Self::Missing => Some(Hatch::Falling),
            Self::Down => Some(Hatch::Rising),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hatch {
    Falling,
    Rising,
}

impl Figure {
    /// An empty drawing of this size in points.
    #[must_use]
    pub fn new(name: impl Into<String>, width: i64, height: i64) -> Self {
        Self { name: name.into(), width, height, shapes: Vec::new() }
    }

    /// Fills an area; missing time is hatched one way, proven downtime the other.
    pub fn area(&mut self, area: Area, fill: Fill) {
        if area.2 <= 0 || area.3 <= 0 {
            return;
        }
        self.shapes.push(Shape::Area(area, fill));
        let Some(hatch) = fill.hatch() else { return };
        let ink = if fill == Fill::Down { Fill::Missing } else { Fill::Ink };
        for (from, to) in hatch_lines(area, hatch) {
            self.shapes.push(Shape::Line(from, to, ink));
        }
    }

    /// Draws a line.
    pub fn line(&mut self, from: (i64, i64), to: (i64, i64)) {
        self.shapes.push(Shape::Line(from, to, Fill::Rule));
    }

    /// Sets words.
    pub fn words(&mut self, at: (i64, i64), anchor: Anchor, words: impl Into<String>) {
        self.shapes.push(Shape::Words(at, anchor, words.into()));
    }

    /// Its words.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.shapes.iter().filter_map(|shape| match shape {
            Shape::Words(_, _, words) => Some(words.as_str()),
            _ => None,
        })
    }

    /// The drawing as SVG.
    #[must_use]
    pub fn svg(&self) -> Markup {
        let mut out = Writer::default();
        let size = format!("0 0 {} {}", self.width, self.height);
        out.open_chart(&self.name, &[("viewBox", &size), ("width", &self.width)]);
        for shape in &self.shapes {
            match shape {
                Shape::Area((x, y, width, height), fill) => out.empty(
                    "rect",
                    &[
                        ("x", x),
                        ("y", y),
                        ("width", width),
                        ("height", height),
                        ("fill", &hex(*fill)),
                    ],
                ),
                Shape::Line((x1, y1), (x2, y2), fill) => out.empty(
                    "path",
                    &[
                        ("d", &format_args!("M{x1} {y1}L{x2} {y2}")),
                        ("stroke", &hex(*fill)),
                        ("stroke-width", &".5"),
                    ],
                ),
                Shape::Words((x, y), anchor, words) => {
                    let anchor = match anchor {
                        Anchor::Start => "start",
                        Anchor::Middle => "middle",
                        Anchor::End => "end",
                    };
                    out.element("text", &[("x", x), ("y", y), ("text-anchor", &anchor)], words);
                }
            }
        }
        out.close_chart();
        out.finish()
    }
}

fn hex(fill: Fill) -> String {
    let [red, green, blue] = fill.colour();
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Lines at 45 degrees within an area; their ends are whole points too. They keep their places on
/// the sheet, so that neighbouring areas read as one.
fn hatch_lines((left, top, width, height): Area, hatch: Hatch) -> Vec<((i64, i64), (i64, i64))> {
    let (right, bottom) = (left + width, top + height);
    // Falling lines keep x - y, rising ones x + y.
    let (first, last) = match hatch {
        Hatch::Falling => (left - bottom, right - top),
        Hatch::Rising => (left + top, right + bottom),
    };
    let mut lines = Vec::new();
    let mut sum = first - first.rem_euclid(HATCH_STEP) + HATCH_STEP;
    while sum < last {
        lines.push(match hatch {
            Hatch::Falling => {
                let start = left.max(sum + top);
                let end = right.min(sum + bottom);
                ((start, start - sum), (end, end - sum))
            }
            Hatch::Rising => {
                let start = left.max(sum - bottom);
                let end = right.min(sum - top);
                ((start, sum - start), (end, sum - end))
            }
        });
        sum += HATCH_STEP;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Hatches stay inside of what they fill, and are at 45 degrees.
        #[test]
        fn a_hatch_stays_inside(
            left in -50_i64..500, top in -50_i64..500, width in 1_i64..90, height in 1_i64..90,
            is_rising: bool
        ) {
            let hatch = if is_rising { Hatch::Rising } else { Hatch::Falling };
            let lines = hatch_lines((left, top, width, height), hatch);
            prop_assert!(width + height <= 8 || !lines.is_empty());
            for ((x1, y1), (x2, y2)) in lines {
                for (x, y) in [(x1, y1), (x2, y2)] {
                    prop_assert!((left..=left + width).contains(&x));
                    prop_assert!((top..=top + height).contains(&y));
                }
                let rise = if is_rising { y1 - y2 } else { y2 - y1 };
                prop_assert_eq!(x2 - x1, rise);
            }
        }
    }

    #[test]
    fn utilization_has_six_steps_and_nothing_missing_looks_idle() {
        let steps = [0, 1, 200_000, 200_001, 999_999, 1_000_000].map(Fill::busy);
        let wanted = [0, 1, 1, 2, 5, 5].map(Fill::Busy);
        assert_eq!(steps, wanted);
        let mut figure = Figure::new("", 10, 10);
        figure.area((0, 0, 10, 10), Fill::Missing);
        assert!(figure.shapes.len() > 1, "missing time is hatched");
        figure.area((0, 0, 0, 10), Fill::Missing);
        assert_eq!(figure.shapes.iter().filter(|s| matches!(s, Shape::Area(..))).count(), 1);
    }
}
