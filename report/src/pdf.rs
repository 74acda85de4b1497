//! A document as PDF: A4, one font, numbered pages, each with the mark of its data's origin.
//!
//! Text is set a character at a time without kerning, ligatures or scripts that join their letters;
//! the two languages of the reports need none of them. A character that the font lacks is written as
//! its number, `{U+1F600}`, never left blank.

mod flow;
mod font;
mod sheet;

use std::path::{Path, PathBuf};

use krilla::metadata::Metadata;
use leasewatch_web::document::Document;

use flow::Flow;

/// Folders that fonts are looked for in.
pub const FONT_DIRS: [&str; 2] = ["/usr/share/fonts", "/usr/local/share/fonts"];

/// Why there is no PDF.
#[derive(Debug, thiserror::Error)]
pub enum PdfError {
    /// No font was found that can show the document.
    #[error(
        "no font on this machine can show this report: {} was looked through. Install one with Chinese \
         characters, on Debian and Ubuntu: apt-get install fonts-wqy-microhei (or fonts-noto-cjk)",
        .0.display()
    )]
    NoFont(PathBuf),
    /// The writer of PDF refused the document.
    #[error("the PDF cannot be written: {0}")]
    Write(String),
}

/// The document as PDF. The same document and font give the same bytes.
///
/// # Errors
/// [`PdfError::NoFont`] when no font in `font_dirs` has its characters.
pub fn write(document: &Document, font_dirs: &[&Path]) -> Result<Vec<u8>, PdfError> {
    let face = font::find(document, font_dirs)?;
    let sheets = Flow::sheets(document, &face);
    let mut out = krilla::Document::new();
    let metadata = Metadata::new()
        .title(document.title.clone())
        .language(document.language.tag().to_owned())
        .creator("leasewatch".to_owned());
    out.set_metadata(metadata);
    for sheet in &sheets {
        sheet.draw(&mut out, &face);
    }
    out.finish().map_err(|error| PdfError::Write(format!("{error:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasewatch_web::Language;
    use leasewatch_web::document::{Block, Column, Table};

    fn dirs() -> Vec<&'static Path> {
        FONT_DIRS.iter().map(|dir| Path::new(*dir)).collect()
    }

    fn document(rows: usize) -> Document {
        let cells = |n: usize| vec![format!("节点-{n}"), format!("{n} 小时")];
        Document {
            language: Language::ZhCn,
            title: "租用单 lease-a 的报告".to_owned(),
            mark: Some("模拟数据".to_owned()),
            foot: "leasewatch".to_owned(),
            blocks: vec![
                Block::Heading("判定".to_owned()),
                Block::Paragraph("一个月。".repeat(90)),
                Block::Table(Table {
                    columns: vec![Column::text("节点", 2), Column::number("时间", 1)],
                    rows: (0..rows).map(cells).collect(),
                }),
            ],
        }
    }

    fn pages(pdf: &[u8]) -> usize {
        let text = String::from_utf8_lossy(pdf);
        text.matches("/Type /Page\n").count() + text.matches("/Type/Page/").count()
    }

    #[test]
    fn the_same_document_gives_the_same_bytes() {
        let document = document(300);
        let pdf = write(&document, &dirs()).unwrap();
        assert!(pdf.starts_with(b"%PDF-"));
        assert_eq!(pdf, write(&document, &dirs()).unwrap());
        assert!(pdf.len() < 400_000, "the font is subset: {} bytes", pdf.len());
    }

    #[test]
    fn each_page_carries_the_mark_and_its_number_and_no_row_is_lost() {
        let document = document(200);
        let face = font::find(&document, &dirs()).unwrap();
        let sheets = Flow::sheets(&document, &face);
        assert!(sheets.len() > 3, "{}", sheets.len());
        let texts: Vec<Vec<&str>> = sheets.iter().map(|sheet| sheet.texts().collect()).collect();
        for (number, texts) in texts.iter().enumerate() {
            assert!(texts.contains(&"模拟数据"), "page {number}");
            let place = format!("{} / {}", number + 1, sheets.len());
            assert!(texts.contains(&place.as_str()), "{place}");
            assert!(number == 0 || texts.contains(&"节点"), "heads are repeated on page {number}");
        }
        for row in 0..200 {
            let name = format!("节点-{row}");
            let count = texts.iter().flatten().filter(|text| **text == name).count();
            assert_eq!(count, 1, "{name}");
        }
        assert_eq!(pages(&write(&document, &dirs()).unwrap()), sheets.len());
    }

    #[test]
    fn a_machine_without_fonts_is_told_what_to_install() {
        let empty = tempfile::tempdir().unwrap();
        let error = write(&document(1), &[empty.path()]).unwrap_err().to_string();
        assert!(error.contains("fonts-wqy-microhei"), "{error}");
    }

    #[test]
    fn what_no_font_has_is_written_as_its_number() {
        let mut document = document(1);
        document.blocks = vec![Block::Paragraph("a\u{1F9FF}b".to_owned())];
        document.language = Language::En;
        document.title = "Report".to_owned();
        let face = font::find(&document, &dirs()).unwrap();
        let sheets = Flow::sheets(&document, &face);
        assert!(sheets[0].texts().any(|text| text == "a{U+1F9FF}b"));
    }
}
