//! Tables of the page: rows become small sheets where it is narrow.

use std::fmt::Display;

use crate::markup::{Markup, Writer};

/// A cell.
pub(in crate::pages) enum Cell {
    /// Text.
    Text(String),
    /// What a writer made.
    Markup(Markup),
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Markup> for Cell {
    fn from(markup: Markup) -> Self {
        Self::Markup(markup)
    }
}

/// Writes a table; a row that counts no longer is grey. Each row has one cell for each head.
pub(in crate::pages) fn write(out: &mut Writer, heads: &[&str], rows: Vec<(bool, Vec<Cell>)>) {
    out.open("div", &[("class", &"imports stack")]);
    out.open("table", &[("role", &"table")]);
    out.open("thead", &[("role", &"rowgroup")]);
    out.open("tr", &[("role", &"row")]);
    for head in heads {
        out.element("th", &[("role", &"columnheader"), ("scope", &"col")], head);
    }
    out.close("tr");
    out.close("thead");
    out.open("tbody", &[("role", &"rowgroup")]);
    for (is_gone, cells) in rows {
        let class = if is_gone { "gone" } else { "row-of" };
        out.open("tr", &[("role", &"row"), ("class", &class)]);
        for (index, (head, cell)) in heads.iter().zip(cells).enumerate() {
            let head: &dyn Display = head;
            let first: &[(&str, &dyn Display)] = &[("role", &"rowheader"), ("scope", &"row")];
            let other: &[(&str, &dyn Display)] = &[("role", &"cell"), ("data-label", head)];
            let (name, attributes) = if index == 0 { ("th", first) } else { ("td", other) };
            out.open(name, attributes);
            match cell {
                Cell::Text(text) => out.text(text),
                Cell::Markup(markup) => out.add(&markup),
            }
            out.close(name);
        }
        out.close("tr");
    }
    out.close("tbody");
    out.close("table");
    out.close("div");
}
