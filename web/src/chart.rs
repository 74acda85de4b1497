//! Charts as SVG of our own: strips of a day, hour grids of a week, lines with bands.
//!
//! All of them draw the same cells in the same colours, mark missing time by cause, and carry
//! their data as text for a pointer or a screen reader. Pages and reports share them. Colours are
//! classes, resolved by the stylesheet; patterns are defined once per page by [`patterns`].

mod axis;
mod cell;
mod hatch;
mod hour_grid;
mod legend;
mod line;
mod origin_band;
mod record_line;
mod strip;

pub use axis::{TimeTick, round_ticks, time_ticks};
pub use cell::{Cell, Step};
pub use hatch::{Hatch, patterns};
pub use hour_grid::{HourGrid, rows};
pub use legend::legend;
pub use line::{Band, LineChart, Point, downsample, sparkline};
pub use strip::{Strip, time_scale};
