//! A page that is a title over a body that was written piece by piece.

use askama::Template;
use leasewatch_core::segment::Origin;

use crate::context::{Context, SUGGESTED_ZONES};
use crate::i18n::{Language, Text};
use crate::markup::{Markup, Writer};
use crate::path::Route;

/// What stands over the body.
pub(super) struct Head {
    pub(super) title: String,
    /// Where it leads back to.
    pub(super) back: Option<(String, &'static str)>,
    /// The mark of all that is said.
    pub(super) origin: Option<Origin>,
}

pub(super) fn render(cx: &Context, head: Head, body: Markup) -> Result<String, askama::Error> {
    let Head { title, back, origin } = head;
    Ok(super::inert(&Page { cx, title, back, origin, body }.render()?))
}

#[derive(Template)]
#[template(path = "sheet.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    title: String,
    back: Option<(String, &'static str)>,
    origin: Option<Origin>,
    body: Markup,
}

impl Page<'_> {
    fn title(&self) -> &str {
        &self.title
    }
}

/// A select with its label; the chosen value is marked.
pub(super) fn choice(
    out: &mut Writer,
    (name, label): (&str, &str),
    chosen: &str,
    all: &[(String, String)],
) {
    out.open("div", &[("class", &"field")]);
    out.element("label", &[("for", &name)], label);
    out.open("select", &[("id", &name), ("name", &name)]);
    for (value, words) in all {
        if value == chosen {
            out.element("option", &[("value", value), ("selected", &"selected")], words);
        } else {
            out.element("option", &[("value", value)], words);
        }
    }
    out.close("select");
    out.close("div");
}

/// A line to type into with its label, and a hint under it.
pub(super) fn line(out: &mut Writer, (name, label): (&str, &str), value: &str, hint: &str) {
    let about = format!("about-{name}");
    out.open("div", &[("class", &"field")]);
    out.element("label", &[("for", &name)], label);
    out.open(
        "input",
        &[
            ("id", &name),
            ("name", &name),
            ("value", &value),
            ("maxlength", &"400"),
            ("autocomplete", &"off"),
            ("spellcheck", &"false"),
            ("aria-describedby", &about),
        ],
    );
    out.element("p", &[("class", &"note"), ("id", &about)], hint);
    out.close("div");
}

/// A box to tick.
pub(super) fn tick(out: &mut Writer, (name, label): (&str, &str), is_on: bool) {
    out.open("div", &[("class", &"choice")]);
    let plain: [(&str, &dyn std::fmt::Display); 4] =
        [("type", &"checkbox"), ("id", &name), ("name", &name), ("value", &"yes")];
    if is_on {
        let checked: (&str, &dyn std::fmt::Display) = ("checked", &"checked");
        out.open("input", &[&plain[..], &[checked]].concat());
    } else {
        out.open("input", &plain);
    }
    out.element("label", &[("for", &name)], label);
    out.close("div");
}

/// Where a file is chosen.
pub(super) fn file(out: &mut Writer, label: &str) {
    out.open("div", &[("class", &"field")]);
    out.element("label", &[("for", &"file")], label);
    out.open("input", &[("id", &"file"), ("name", &"file"), ("type", &"file")]);
    out.close("div");
}

/// A button that sends a form; several of a form differ in `action`.
pub(super) fn button(out: &mut Writer, action: &str, words: &str) {
    out.element("button", &[("type", &"submit"), ("name", &"action"), ("value", &action)], words);
}

/// A link in a paragraph of its own.
pub(super) fn link(out: &mut Writer, href: &str, words: &str) {
    out.open("p", &[]);
    out.element("a", &[("href", &href)], words);
    out.close("p");
}

/// Lines to type into with their label, and a hint under them.
pub(super) fn lines(out: &mut Writer, (name, label): (&str, &str), value: &str, hint: &str) {
    let about = format!("about-{name}");
    out.open("div", &[("class", &"field")]);
    out.element("label", &[("for", &name)], label);
    let attributes: [(&str, &dyn std::fmt::Display); 5] = [
        ("id", &name),
        ("name", &name),
        ("rows", &"3"),
        ("spellcheck", &"false"),
        ("aria-describedby", &about),
    ];
    out.element("textarea", &attributes, value);
    out.element("p", &[("class", &"note"), ("id", &about)], hint);
    out.close("div");
}
