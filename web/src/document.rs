//! A document to hand over: blocks in order, which HTML and PDF both show.
//!
//! Texts are finished here, in one language, so that a printed report and its HTML form cannot say
//! different things. Not here: which blocks a report has (the page that it belongs to), fonts and
//! pages (`leasewatch_report::pdf`).

pub mod figure;
mod html;

use figure::Figure;

use crate::i18n::Language;

/// A document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The language that it is written in.
    pub language: Language,
    /// What it is, in a line.
    pub title: String,
    /// Where its data come from, if they were not measured: stands on each page.
    pub mark: Option<String>,
    /// What stands at the foot of each page.
    pub foot: String,
    /// What it says.
    pub blocks: Vec<Block>,
}

/// A part of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// Begins a section.
    Heading(String),
    /// Begins a part of a section.
    Subheading(String),
    /// Sentences.
    Paragraph(String),
    /// Sentences that nobody should miss.
    Warning(String),
    /// What is typed into a terminal.
    Command(String),
    /// Sentences that say how to read what is beside them.
    Note(String),
    /// Names with their values.
    Facts(Vec<(String, String)>),
    /// Rows under heads.
    Table(Table),
    /// A drawing.
    Figure(Figure),
}

/// Rows under heads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its columns.
    pub columns: Vec<Column>,
    /// As many cells as columns in each.
    pub rows: Vec<Vec<String>>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its head.
    pub head: String,
    /// Its part of the width, beside those of the others.
    pub share: u16,
    /// Set against the right edge.
    pub is_number: bool,
}

impl Column {
    /// A column of text.
    #[must_use]
    pub fn text(head: impl Into<String>, share: u16) -> Self {
        Self { head: head.into(), share, is_number: false }
    }

    /// A column of numbers.
    #[must_use]
    pub fn number(head: impl Into<String>, share: u16) -> Self {
        Self { is_number: true, ..Self::text(head, share) }
    }
}

impl Document {
    /// The document as one HTML file: no script, nothing from elsewhere.
    #[must_use]
    pub fn html(&self) -> String {
        Self::html_of(&[self])
    }

    /// Documents one after another as one HTML file, such as one in each language.
    #[must_use]
    pub fn html_of(documents: &[&Self]) -> String {
        html::write(documents)
    }

    /// Every text in it, in order: what a font has to be able to show.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let own = [Some(self.title.as_str()), self.mark.as_deref(), Some(self.foot.as_str())];
        own.into_iter().flatten().chain(self.blocks.iter().flat_map(Block::texts))
    }
}

impl Block {
    fn texts(&self) -> Vec<&str> {
        match self {
            Self::Heading(text)
            | Self::Subheading(text)
            | Self::Paragraph(text)
            | Self::Warning(text)
            | Self::Command(text)
            | Self::Note(text) => vec![text],
            Self::Facts(facts) => {
                facts.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]).collect()
            }
            Self::Table(table) => {
                let heads = table.columns.iter().map(|column| column.head.as_str());
                heads.chain(table.rows.iter().flatten().map(String::as_str)).collect()
            }
            Self::Figure(figure) => figure.texts().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::figure::{Anchor, Fill};
    use super::*;

    fn sample() -> Document {
        let mut figure = Figure::new("Two days", 100, 20);
        figure.area((0, 0, 40, 10), Fill::Up);
        figure.area((40, 0, 40, 10), Fill::Missing);
        figure.words((2, 18), Anchor::Start, "<1>");
        Document {
            language: Language::ZhCn,
            title: "报告 <script>".to_owned(),
            mark: Some("模拟".to_owned()),
            foot: "foot".to_owned(),
            blocks: vec![
                Block::Heading("h".to_owned()),
                Block::Facts(vec![("name".to_owned(), "\"value\"".to_owned())]),
                Block::Table(Table {
                    columns: vec![Column::text("a", 1), Column::number("b", 2)],
                    rows: vec![vec!["x & y".to_owned(), "1".to_owned()]],
                }),
                Block::Figure(figure),
            ],
        }
    }

    #[test]
    fn the_html_form_stands_alone_and_escapes() {
        let html = sample().html();
        assert!(html.starts_with("<!doctype html><html lang=\"zh-CN\">"), "{html}");
        assert_eq!(html.matches("<meta charset=\"utf-8\">").count(), 1, "{html}");
        for forbidden in ["<script", " src=", "href=", "url(", "@import", "onload"] {
            assert!(!html.contains(forbidden), "{forbidden} in {html}");
        }
        assert!(html.contains("报告 &lt;script&gt;"));
        assert!(html.contains("<td class=\"number\">1</td>"));
        assert!(html.contains("&lt;1&gt;"));
        let mark = "<strong class=\"mark\">模拟</strong>";
        assert_eq!(html.matches(mark).count(), 1, "{html}");
    }

    #[test]
    fn every_text_is_named_for_the_fonts() {
        let document = sample();
        let texts: Vec<&str> = document.texts().collect();
        assert_eq!(
            texts,
            [
                "报告 <script>",
                "模拟",
                "foot",
                "h",
                "name",
                "\"value\"",
                "a",
                "b",
                "x & y",
                "1",
                "<1>"
            ]
        );
    }
}
