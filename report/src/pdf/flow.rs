//! Blocks onto pages: what fits stays together, tables repeat their heads.

use leasewatch_web::document::figure::{Anchor, Figure, Fill, Shape};
use leasewatch_web::document::{Block, Column, Document, Table};

use super::font::Face;
use super::sheet::{Colour, HEIGHT, Mark, Sheet, WIDTH};

const MARGIN: f32 = 46.0;
/// Where text may stand, from top to bottom.
const TOP: f32 = 62.0;
const BOTTOM: f32 = HEIGHT - 54.0;
const INNER: f32 = WIDTH - 2.0 * MARGIN;
const BODY: f32 = 9.0;
const SMALL: f32 = 7.5;
/// Words in a drawing of its own size.
const FIGURE: f32 = 7.0;
/// Base line to base line, in parts of the size.
const LEADING: f32 = 1.42;
/// Between the columns of a table.
const GUTTER: f32 = 8.0;

const INK: Colour = [0x14, 0x19, 0x1c];
const MUTED: Colour = [0x56, 0x60, 0x67];
const ACCENT: Colour = [0x0b, 0x66, 0x6e];
const RULE: Colour = [0xd7, 0xdd, 0xdf];
const WARNING: Colour = [0x8a, 0x5a, 0x00];
const MARKED: Colour = [0x6a, 0x3a, 0xa2];

/// A document on its way onto pages.
pub(super) struct Flow<'a> {
    face: &'a Face,
    sheets: Vec<Sheet>,
    /// How far the page is filled.
    y: f32,
}

/// How a text is set.
#[derive(Clone, Copy)]
struct Style {
    size: f32,
    colour: Colour,
}

impl<'a> Flow<'a> {
    pub(super) fn sheets(document: &Document, face: &'a Face) -> Vec<Sheet> {
        let mut flow = Self { face, sheets: vec![Sheet::default()], y: TOP };
        flow.text(&document.title, Style { size: 17.0, colour: INK }, (MARGIN, INNER));
        flow.y += 6.0;
        for block in &document.blocks {
            flow.block(block);
        }
        flow.frame(document);
        flow.sheets
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Heading(text) => {
                self.keep(70.0);
                self.y += 14.0;
                self.text(text, Style { size: 12.5, colour: ACCENT }, (MARGIN, INNER));
                self.rule();
            }
            Block::Subheading(text) => {
                self.keep(50.0);
                self.y += 6.0;
                self.text(text, Style { size: 10.5, colour: INK }, (MARGIN, INNER));
            }
            Block::Paragraph(text) => {
                self.text(text, Style { size: BODY, colour: INK }, (MARGIN, INNER));
                self.y += 4.0;
            }
            Block::Warning(text) => {
                self.text(text, Style { size: BODY, colour: WARNING }, (MARGIN, INNER));
                self.y += 4.0;
            }
            Block::Command(text) => {
                self.text(text, Style { size: BODY, colour: ACCENT }, (MARGIN, INNER));
                self.y += 4.0;
            }
            Block::Note(text) => {
                self.text(text, Style { size: SMALL, colour: MUTED }, (MARGIN, INNER));
                self.y += 4.0;
            }
            Block::Facts(facts) => self.facts(facts),
            Block::Table(table) => self.table(table),
            Block::Figure(figure) => self.figure(figure),
        }
    }

    /// Sets a text in lines.
    fn text(&mut self, text: &str, style: Style, (x, width): (f32, f32)) {
        for line in self.face.lines(text, style.size, width) {
            self.keep(style.size * LEADING);
            self.y += style.size * LEADING;
            let y = self.y;
            self.put(Mark::Text { x, y, size: style.size, colour: style.colour, text: line });
        }
    }

    fn facts(&mut self, facts: &[(String, String)]) {
        let name_width =
            facts.iter().map(|(name, _)| self.face.width(name, BODY)).fold(0.0, f32::max);
        let name_width = name_width.min(INNER * 0.4);
        for (name, value) in facts {
            let cells = [
                Cell { text: name, x: MARGIN, width: name_width, is_number: false },
                Cell {
                    text: value,
                    x: MARGIN + name_width + 12.0,
                    width: INNER - name_width - 12.0,
                    is_number: false,
                },
            ];
            self.row(&cells, BODY, |_| {});
        }
        self.y += 4.0;
    }

    fn table(&mut self, table: &Table) {
        self.keep(40.0);
        self.heads(&table.columns);
        for row in &table.rows {
            let cells = cells(&table.columns, row.iter().map(String::as_str));
            self.row(&cells, SMALL, |flow| flow.heads(&table.columns));
            self.y += 1.5;
            self.rule();
        }
        self.y += 6.0;
    }

    fn heads(&mut self, columns: &[Column]) {
        let cells = cells(columns, columns.iter().map(|column| column.head.as_str()));
        let start = self.sheets.last().map_or(0, |sheet| sheet.marks.len());
        self.row(&cells, SMALL, |_| {});
        for mark in self.sheets.iter_mut().flat_map(|sheet| sheet.marks.iter_mut().skip(start)) {
            if let Mark::Text { colour, .. } = mark {
                *colour = MUTED;
            }
        }
        self.y += 1.5;
        self.rule();
    }

    /// Cells beside each other. One that does not fit goes on at the next page, after `again`.
    fn row(&mut self, cells: &[Cell<'_>], size: f32, again: impl Fn(&mut Self)) {
        let step = size * LEADING;
        let lines: Vec<Vec<String>> =
            cells.iter().map(|cell| self.face.lines(cell.text, size, cell.width)).collect();
        let tallest = lines.iter().map(Vec::len).max().unwrap_or(0);
        let fits_a_page =
            f32::from(u16::try_from(tallest).unwrap_or(u16::MAX)) * step < BOTTOM - TOP - 60.0;
        if fits_a_page
            && self.would_leave(f32::from(u16::try_from(tallest).unwrap_or(u16::MAX)) * step)
        {
            self.turn();
            again(self);
        }
        for line in 0..tallest {
            if self.would_leave(step) {
                self.turn();
                again(self);
            }
            self.y += step;
            for (cell, lines) in cells.iter().zip(&lines) {
                let Some(text) = lines.get(line).cloned() else { continue };
                let indent =
                    if cell.is_number { cell.width - self.face.width(&text, size) } else { 0.0 };
                let (x, y) = (cell.x + indent, self.y);
                self.put(Mark::Text { x, y, size, colour: INK, text });
            }
        }
    }

    fn figure(&mut self, figure: &Figure) {
        let scale = (INNER / points(figure.width)).min(1.0);
        self.keep(points(figure.height) * scale + 6.0);
        let (left, top) = (MARGIN, self.y + 6.0);
        let place = |(x, y): (i64, i64)| (left + points(x) * scale, top + points(y) * scale);
        for shape in &figure.shapes {
            let mark = match shape {
                Shape::Area((x, y, width, height), fill) => {
                    let (x, y) = place((*x, *y));
                    let (width, height) = (points(*width) * scale, points(*height) * scale);
                    Mark::Area { x, y, width, height, colour: fill.colour() }
                }
                Shape::Line(from, to, fill) => Mark::Line {
                    from: place(*from),
                    to: place(*to),
                    width: 0.5 * scale,
                    colour: fill.colour(),
                },
                Shape::Words(at, anchor, words) => {
                    let size = FIGURE * scale;
                    let text = self.face.shown(words);
                    let width = self.face.width(&text, size);
                    let (x, y) = place(*at);
                    let x = match anchor {
                        Anchor::Start => x,
                        Anchor::Middle => x - width / 2.0,
                        Anchor::End => x - width,
                    };
                    Mark::Text { x, y, size, colour: Fill::Ink.colour(), text }
                }
            };
            self.put(mark);
        }
        self.y = top + points(figure.height) * scale + 4.0;
    }

    /// Title and mark above, foot and number below, on every page.
    fn frame(&mut self, document: &Document) {
        let face = self.face;
        let count = self.sheets.len();
        for (number, sheet) in self.sheets.iter_mut().enumerate() {
            let mut text = |x, y, colour, text: String| {
                sheet.marks.push(Mark::Text { x, y, size: SMALL, colour, text });
            };
            if let Some(mark) = &document.mark {
                text(MARGIN, 38.0, MARKED, face.shown(mark));
            }
            if number > 0 {
                let title = face.shown(&document.title);
                let x = WIDTH - MARGIN - face.width(&title, SMALL);
                text(x.max(WIDTH / 2.0), 38.0, MUTED, title);
            }
            let mut y = HEIGHT - 34.0;
            for line in face.lines(&document.foot, SMALL, INNER - 60.0).into_iter().take(2) {
                text(MARGIN, y, MUTED, line);
                y += SMALL * LEADING;
            }
            let place = format!("{} / {count}", number + 1);
            let x = WIDTH - MARGIN - face.width(&place, SMALL);
            text(x, HEIGHT - 34.0, MUTED, place);
        }
    }

    fn rule(&mut self) {
        let y = self.y + 2.0;
        let (from, to) = ((MARGIN, y), (WIDTH - MARGIN, y));
        self.put(Mark::Line { from, to, width: 0.5, colour: RULE });
        self.y += 2.0;
    }

    /// Begins a page unless this much fits on the one that is open.
    fn keep(&mut self, height: f32) {
        if self.would_leave(height) {
            self.turn();
        }
    }

    fn would_leave(&self, height: f32) -> bool {
        self.y + height > BOTTOM && self.y > TOP
    }

    fn turn(&mut self) {
        self.sheets.push(Sheet::default());
        self.y = TOP;
    }

    fn put(&mut self, mark: Mark) {
        if let Some(sheet) = self.sheets.last_mut() {
            sheet.marks.push(mark);
        }
    }
}

struct Cell<'a> {
    text: &'a str,
    x: f32,
    width: f32,
    is_number: bool,
}

fn cells<'a>(columns: &[Column], texts: impl Iterator<Item = &'a str>) -> Vec<Cell<'a>> {
    let shares: f32 = columns.iter().map(|column| f32::from(column.share)).sum();
    let gutters = GUTTER * f32::from(u16::try_from(columns.len()).unwrap_or(0).saturating_sub(1));
    let mut x = MARGIN;
    let mut cells = Vec::with_capacity(columns.len());
    for (column, text) in columns.iter().zip(texts) {
        let width = (INNER - gutters) * f32::from(column.share) / shares;
        cells.push(Cell { text, x, width, is_number: column.is_number });
        x += width + GUTTER;
    }
    cells
}

/// Drawings are a few hundred points wide, which `f32` holds exactly.
fn points(whole: i64) -> f32 {
    i16::try_from(whole).map_or(0.0, f32::from)
}
