//! A page as it will be printed: texts, areas and lines at their places.

use krilla::color::rgb;
use krilla::geom::{PathBuilder, Point, Rect};
use krilla::page::PageSettings;
use krilla::paint::{Fill as Paint, Stroke};

use super::font::Face;

/// A4, in points.
pub(super) const WIDTH: f32 = 595.0;
/// A4, in points.
pub(super) const HEIGHT: f32 = 842.0;

/// Red, green and blue.
pub(super) type Colour = [u8; 3];

/// A page.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    pub(super) marks: Vec<Mark>,
}

/// What is on a page; places are in points from the upper left corner.
#[derive(Debug)]
pub(super) enum Mark {
    /// Text on a base line.
    Text { x: f32, y: f32, size: f32, colour: Colour, text: String },
    /// A filled area.
    Area { x: f32, y: f32, width: f32, height: f32, colour: Colour },
    /// A line.
    Line { from: (f32, f32), to: (f32, f32), width: f32, colour: Colour },
}

impl Sheet {
    #[cfg(test)]
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.marks.iter().filter_map(|mark| match mark {
            Mark::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
    }

    pub(super) fn draw(&self, out: &mut krilla::Document, face: &Face) {
        let Some(settings) = PageSettings::from_wh(WIDTH, HEIGHT) else { return };
        let mut page = out.start_page_with(settings);
        let mut surface = page.surface();
        for mark in &self.marks {
            match mark {
                Mark::Text { x, y, size, colour, text } => {
                    surface.set_stroke(None);
                    surface.set_fill(Some(fill(*colour)));
                    let glyphs = face.glyphs(text);
                    let start = Point::from_xy(*x, *y);
                    surface.draw_glyphs(start, &glyphs, face.font.clone(), text, *size, false);
                }
                Mark::Area { x, y, width, height, colour } => {
                    surface.set_stroke(None);
                    surface.set_fill(Some(fill(*colour)));
                    let mut path = PathBuilder::new();
                    if let Some(rect) = Rect::from_xywh(*x, *y, *width, *height) {
                        path.push_rect(rect);
                    }
                    if let Some(path) = path.finish() {
                        surface.draw_path(&path);
                    }
                }
                Mark::Line { from, to, width, colour } => {
                    surface.set_fill(None);
                    let paint = rgb::Color::new(colour[0], colour[1], colour[2]).into();
                    surface.set_stroke(Some(Stroke { paint, width: *width, ..Stroke::default() }));
                    let mut path = PathBuilder::new();
                    path.move_to(from.0, from.1);
                    path.line_to(to.0, to.1);
                    if let Some(path) = path.finish() {
                        surface.draw_path(&path);
                    }
                }
            }
        }
        surface.finish();
        page.finish();
    }
}

fn fill([red, green, blue]: Colour) -> Paint {
    Paint { paint: rgb::Color::new(red, green, blue).into(), ..Paint::default() }
}
