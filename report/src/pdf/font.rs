//! Finding a font that can show a document, and the widths of its characters.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use krilla::text::{Font, GlyphId, KrillaGlyph};
use leasewatch_web::document::Document;
use skrifa::instance::{LocationRef, Size};
use skrifa::{FontRef, MetadataProvider as _};

use super::PdfError;

/// Files by preference: a plain Latin face where it suffices, then faces with Chinese characters.
const FILES: [&str; 8] = [
    "NotoSans-Regular.ttf",
    "DejaVuSans.ttf",
    "LiberationSans-Regular.ttf",
    "NotoSansCJK-Regular.ttc",
    "NotoSansCJKsc-Regular.otf",
    "NotoSansSC-Regular.otf",
    "wqy-microhei.ttc",
    "wqy-zenhei.ttc",
];
/// Folders below a font folder; more would be a loop of links.
const DEPTH: usize = 4;

/// A font, and what it knows of one document's characters.
pub(super) struct Face {
    pub(super) font: Font,
    /// Glyph and advance, in parts of the size.
    glyphs: BTreeMap<char, (GlyphId, f32)>,
}

/// The first font by preference that has every character; else, for a document in a Latin script,
/// the one that lacks fewest.
pub(super) fn find(document: &Document, dirs: &[&Path]) -> Result<Face, PdfError> {
    let needed: BTreeSet<char> =
        document.texts().flat_map(str::chars).chain('\u{20}'..='\u{7e}').collect();
    let mut found = BTreeMap::new();
    for dir in dirs {
        collect(dir, DEPTH, &mut found);
    }
    let mut best: Option<(usize, Face)> = None;
    for file in FILES.iter().filter_map(|name| found.get(*name)) {
        let Some(face) = Face::read(file, &needed) else { continue };
        let lacking = needed.iter().filter(|c| !face.glyphs.contains_key(c)).count();
        if best.as_ref().is_none_or(|(fewest, _)| lacking < *fewest) {
            best = Some((lacking, face));
        }
        if lacking == 0 {
            break;
        }
    }
    let none = || PdfError::NoFont(dirs.first().map_or_else(PathBuf::new, |dir| dir.to_path_buf()));
    let (_, face) = best.ok_or_else(none)?;
    let title_is_shown = document.title.chars().all(|c| face.glyphs.contains_key(&c));
    // A name from elsewhere may hold anything; the words of the report themselves must be readable.
    if title_is_shown { Ok(face) } else { Err(none()) }
}

fn collect(dir: &Path, depth: usize, found: &mut BTreeMap<String, PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if depth > 0 {
                collect(&path, depth - 1, found);
            }
        } else if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
            found.entry(name.to_owned()).or_insert(path);
        }
    }
}

impl Face {
    fn read(file: &Path, needed: &BTreeSet<char>) -> Option<Self> {
        let data = std::fs::read(file).ok()?;
        let reader = FontRef::from_index(&data, 0).ok()?;
        let charmap = reader.charmap();
        let metrics = reader.glyph_metrics(Size::new(1.0), LocationRef::default());
        let glyph = |c: &char| {
            let id = charmap.map(*c).filter(|id| id.to_u32() != 0)?;
            Some((*c, (GlyphId::new(id.to_u32()), metrics.advance_width(id)?)))
        };
        let glyphs = needed.iter().filter_map(glyph).collect();
        let font = Font::new(data.into(), 0)?;
        Some(Self { font, glyphs })
    }

    /// The text with each character that the font lacks written as its number. A space that only
    /// differs in width becomes a common one.
    pub(super) fn shown(&self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        for c in text.chars() {
            if self.glyphs.contains_key(&c) {
                shown.push(c);
            } else if c.is_whitespace() {
                shown.push(' ');
            } else {
                shown.push_str(&format!("{{U+{:04X}}}", u32::from(c)));
            }
        }
        shown
    }

    /// The width of a text that [`shown`](Self::shown) gave, in points.
    pub(super) fn width(&self, text: &str, size: f32) -> f32 {
        text.chars().map(|c| self.advance(c) * size).sum()
    }

    pub(super) fn advance(&self, c: char) -> f32 {
        self.glyphs.get(&c).map_or(0.0, |(_, advance)| *advance)
    }

    pub(super) fn glyphs(&self, text: &str) -> Vec<KrillaGlyph> {
        let glyph = |(start, c): (usize, char)| {
            let (glyph_id, x_advance) = self.glyphs.get(&c)?;
            Some(KrillaGlyph {
                glyph_id: *glyph_id,
                text_range: start..start + c.len_utf8(),
                x_advance: *x_advance,
                x_offset: 0.0,
                y_offset: 0.0,
                y_advance: 0.0,
                location: None,
            })
        };
        text.char_indices().filter_map(glyph).collect()
    }

    /// Lines that are not wider than `width` points. Breaks at spaces, after a hyphen or slash, and
    /// beside Chinese characters, but never before a closing mark; a word that is wider than a line
    /// is cut.
    pub(super) fn lines(&self, text: &str, size: f32, width: f32) -> Vec<String> {
        let mut lines = Vec::new();
        let (mut line, mut used) = (String::new(), 0.0);
        for piece in pieces(&self.shown(text)) {
            let needed = self.width(piece.trim_end(), size);
            if used + needed > width && !line.is_empty() {
                lines.push(std::mem::take(&mut line).trim_end().to_owned());
                used = 0.0;
            }
            for c in piece.chars() {
                let advance = self.advance(c) * size;
                if used + advance > width && !line.is_empty() && c != ' ' {
                    lines.push(std::mem::take(&mut line));
                    used = 0.0;
                }
                line.push(c);
                used += advance;
            }
        }
        lines.push(line.trim_end().to_owned());
        lines
    }
}

/// A text cut where a line may end.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let end = at + c.len_utf8();
        let Some((_, next)) = characters.peek() else { break };
        let may_end = match c {
            ' ' => *next != ' ',
            '-' | '/' => next.is_alphanumeric(),
            _ => is_wide(c) || is_wide(*next),
        };
        if may_end && !is_closing(*next) {
            pieces.push(&text[start..end]);
            start = end;
        }
    }
    pieces.push(&text[start..]);
    pieces
}

fn is_wide(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ff60}')
}

fn is_closing(c: char) -> bool {
    "、。，；：！？）」』】》〉”’…".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_end_where_a_reader_expects_it() {
        let cut = |text| pieces(text).join("|");
        assert_eq!(cut("up to 99.9 %"), "up |to |99.9 |%");
        assert_eq!(cut("已证实违约，可索赔。"), "已|证|实|违|约，|可|索|赔。");
        assert_eq!(cut("node-a/gpu"), "node-|a/|gpu");
        assert_eq!(cut("GPU 卡"), "GPU |卡");
    }

    proptest! {
        #[test]
        fn cutting_loses_nothing(text in "[a-c ，。中文/-]{0,40}") {
            prop_assert_eq!(pieces(&text).concat(), text);
        }
    }
}
