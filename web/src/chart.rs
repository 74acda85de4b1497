//! Charts as SVG of our own: strips of a day, hour grids of a week, lines with bands and lanes.
//!
//! All of them draw missing time by cause with the same patterns, and carry their data as text for
//! a pointer or a screen reader. Pages and reports share them. Colours are classes, resolved by the
//! stylesheet; patterns are defined once per page by [`patterns`].

mod axis;
mod backdrop;
mod cell;
mod hatch;
mod hour_grid;
mod lane;
mod legend;
mod origin_band;
mod plot;
mod point;
mod record_line;
mod strip;
mod words;

pub use axis::{TimeTick, binary_ticks, round_ticks, time_ticks};
pub use backdrop::{Backdrop, Mark, Share};
pub use cell::{Cell, Step};
pub use hatch::{Hatch, patterns};
pub use hour_grid::{HourGrid, rows};
pub use lane::Lane;
pub use legend::{hatch_legend, legend};
pub(crate) use origin_band::{named, origin_band};
pub(crate) use plot::style_class;
pub use plot::{Line, Plot, Rule, Scale, Shape};
pub use point::{Band, Grid, Point};
pub use strip::{Strip, time_scale};
pub use words::{column_words, lane_words, series_words};
