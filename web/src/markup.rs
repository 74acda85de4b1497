//! Markup that is safe to put into a page, and the only writer that makes it.
//!
//! Whatever goes through [`Writer`] is escaped, attribute or text, so hostile text cannot become
//! an element. There is no way to append raw text; templates never use the `safe` filter.

use std::fmt::{self, Display, Write as _};

/// Finished markup.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Markup(String);

impl Markup {
    /// A style sheet of our own, which is a constant of the program: the one text that is not
    /// escaped, because HTML does not read escapes in `style`.
    pub(crate) fn own_style(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// The markup as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for Markup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl askama::filters::HtmlSafe for Markup {}

/// Attributes of an element, in order.
pub(crate) type Attributes<'a> = &'a [(&'a str, &'a dyn Display)];

/// Writes elements one after another.
#[derive(Debug, Default)]
pub(crate) struct Writer(String);

impl Writer {
    /// `<name ..>`.
    pub(crate) fn open(&mut self, name: &str, attributes: Attributes<'_>) {
        self.start(name, attributes);
        self.0.push('>');
    }

    /// `<name ../>`.
    pub(crate) fn empty(&mut self, name: &str, attributes: Attributes<'_>) {
        self.start(name, attributes);
        self.0.push_str("/>");
    }

    /// `</name>`.
    pub(crate) fn close(&mut self, name: &str) {
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push('>');
    }

    /// Escaped text.
    pub(crate) fn text(&mut self, text: impl Display) {
        // Writing to a string cannot fail.
        let _ = write!(Escaped(&mut self.0), "{text}");
    }

    /// What another writer made.
    pub(crate) fn add(&mut self, markup: &Markup) {
        self.0.push_str(markup.as_str());
    }

    /// `<name ..>text</name>`.
    pub(crate) fn element(&mut self, name: &str, attributes: Attributes<'_>, text: impl Display) {
        self.open(name, attributes);
        self.text(text);
        self.close(name);
    }

    /// An `svg` that is one thing with one name to a screen reader: its parts, which may have
    /// titles for a pointer, are not read. `attributes` are those beside role and name.
    pub(crate) fn open_chart(&mut self, name: &str, attributes: Attributes<'_>) {
        let mut all: Vec<(&str, &dyn Display)> = vec![("role", &"img"), ("aria-label", &name)];
        all.extend(attributes);
        self.open("svg", &all);
        // The role alone does not hide the parts in every browser.
        self.open("g", &[("aria-hidden", &"true")]);
    }

    pub(crate) fn close_chart(&mut self) {
        self.close("g");
        self.close("svg");
    }

    pub(crate) fn finish(self) -> Markup {
        Markup(self.0)
    }

    fn start(&mut self, name: &str, attributes: Attributes<'_>) {
        self.0.push('<');
        self.0.push_str(name);
        for (key, value) in attributes {
            self.0.push(' ');
            self.0.push_str(key);
            self.0.push_str("=\"");
            self.text(value);
            self.0.push('"');
        }
    }
}

struct Escaped<'a>(&'a mut String);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // XML has no way to write these, escaped or not.
                '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' => {}
                _ => self.0.push(c),
            }
        }
        Ok(())
    }
}

/// Thousandths, written as a decimal without trailing zeros: 4167 is `4.167`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Milli(pub(crate) i64);

impl Display for Milli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        write!(f, "{}", magnitude / 1_000)?;
        match magnitude % 1_000 {
            0 => Ok(()),
            rest if rest % 100 == 0 => write!(f, ".{}", rest / 100),
            rest if rest % 10 == 0 => write!(f, ".{:02}", rest / 10),
            rest => write!(f, ".{rest:03}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_escapes_from_text_or_attribute() {
        let mut writer = Writer::default();
        writer.element("text", &[("class", &"\" onload=\"x")], "<script>\u{1b}[31m'&");
        assert_eq!(
            writer.finish().as_str(),
            "<text class=\"&quot; onload=&quot;x\">&lt;script&gt;[31m&#39;&amp;</text>"
        );
    }

    #[test]
    fn thousandths_are_short() {
        let text = |value| Milli(value).to_string();
        assert_eq!(
            [text(4_167), text(4_100), text(4_120), text(4_000)],
            ["4.167", "4.1", "4.12", "4"]
        );
        assert_eq!([text(-5), text(0)], ["-0.005", "0"]);
    }
}
