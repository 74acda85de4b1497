//! A strict reader of our own pages: it knows every element and attribute that may occur, so
//! anything that got in by another way is an error.

use super::{samples, templates};
use leasewatch_web::Language;

const ELEMENTS: &[&str] = &[
    "a", "article", "b", "body", "button", "caption", "circle", "code", "datalist", "dd", "defs",
    "details", "div", "dl", "dt", "footer", "form", "g", "h1", "h2", "h3", "head", "header",
    "html", "input", "label", "li", "line", "link", "main", "meta", "nav", "noscript", "option",
    "p", "path", "pattern", "pre", "progress", "rect", "script", "section", "select", "span",
    "strong", "summary", "svg", "symbol", "table", "tbody", "td", "text", "textarea", "th",
    "thead", "time", "title", "tr", "ol", "ul", "use",
];
const VOID: &[&str] = &["input", "link", "meta"];
/// What a paragraph cannot hold: the browser would close it silently.
const BLOCKS: &[&str] = &[
    "article", "details", "div", "dl", "form", "h1", "h2", "h3", "p", "pre", "section", "table",
    "ul",
];
const ATTRIBUTES: &[&str] = &[
    "action",
    "autocomplete",
    "charset",
    "checked",
    "class",
    "colspan",
    "content",
    "cx",
    "cy",
    "d",
    "dx",
    "datetime",
    "defer",
    "enctype",
    "fill",
    "for",
    "height",
    "hidden",
    "href",
    "hreflang",
    "http-equiv",
    "id",
    "lang",
    "list",
    "max",
    "maxlength",
    "min",
    "method",
    "name",
    "open",
    "patternUnits",
    "preserveAspectRatio",
    "r",
    "rel",
    "required",
    "role",
    "rows",
    "scope",
    "selected",
    "size",
    "spellcheck",
    "src",
    "step",
    "tabindex",
    "title",
    "type",
    "value",
    "viewBox",
    "width",
    "x",
    "x1",
    "x2",
    "y",
    "y1",
    "y2",
];

/// A piece of a page.
#[derive(Debug)]
pub(crate) enum Piece {
    Open { name: String, attributes: Vec<(String, String)>, closed: bool },
    Close(String),
    Text(String),
}

/// Cuts a page into pieces. Text holds no `<`, so every `<` must begin an element.
pub(crate) fn pieces(html: &str) -> Vec<Piece> {
    let body = html.strip_prefix("<!doctype html>").expect("a doctype");
    let mut out = Vec::new();
    let mut rest = body;
    while let Some(start) = rest.find('<') {
        out.push(Piece::Text(rest[..start].to_owned()));
        let (tag, after) = cut_tag(&rest[start + 1..]);
        out.push(tag);
        rest = after;
    }
    out.push(Piece::Text(rest.to_owned()));
    out
}

fn cut_tag(text: &str) -> (Piece, &str) {
    let mut quoted = false;
    let end = text
        .char_indices()
        .find(|(_, c)| {
            quoted ^= *c == '"';
            *c == '>' && !quoted
        })
        .expect("a tag ends")
        .0;
    let (inner, after) = (&text[..end], &text[end + 1..]);
    if let Some(name) = inner.strip_prefix('/') {
        return (Piece::Close(name.to_owned()), after);
    }
    let closed = inner.ends_with('/');
    let inner = inner.trim_end_matches('/');
    let (name, attributes) = inner.split_once([' ', '\n']).unwrap_or((inner, ""));
    (Piece::Open { name: name.to_owned(), attributes: cut_attributes(attributes), closed }, after)
}

fn cut_attributes(text: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = rest.find(['=', ' ']).unwrap_or(rest.len());
        let name = rest[..end].to_owned();
        rest = &rest[end..];
        let value = match rest.strip_prefix("=\"") {
            Some(quoted) => {
                let (value, after) = quoted.split_once('"').expect("a value ends");
                rest = after;
                value.to_owned()
            }
            None => String::new(),
        };
        rest = rest.trim_start();
        out.push((name, value));
    }
    out
}

/// Checks nesting, elements, attributes and ids of a page.
pub(crate) fn check(page: &str, html: &str) {
    let mut open: Vec<String> = Vec::new();
    let mut ids: Vec<String> = Vec::new();
    let mut references: Vec<String> = Vec::new();
    for piece in pieces(html) {
        match piece {
            Piece::Open { name, attributes, closed } => {
                assert!(ELEMENTS.contains(&name.as_str()), "{page}: element {name}");
                let in_paragraph = open.last().is_some_and(|parent| parent == "p");
                assert!(!(in_paragraph && BLOCKS.contains(&name.as_str())), "{page}: {name} in p");
                check_attributes(page, &name, &attributes);
                for (key, value) in &attributes {
                    match key.as_str() {
                        "id" => ids.push(value.clone()),
                        "for" | "list" | "data-copy" => references.push(value.clone()),
                        "href" => references.extend(value.strip_prefix('#').map(str::to_owned)),
                        "fill" => references.extend(
                            value
                                .strip_prefix("url(#")
                                .map(|id| id.trim_end_matches(')').to_owned()),
                        ),
                        _ => {}
                    }
                }
                if !closed && !VOID.contains(&name.as_str()) {
                    open.push(name);
                }
            }
            Piece::Close(name) => assert_eq!(open.pop().as_deref(), Some(name.as_str()), "{page}"),
            Piece::Text(text) => assert!(!text.contains('>'), "{page}: stray text {text}"),
        }
    }
    assert!(open.is_empty(), "{page}: {open:?}");
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "{page}: an id occurs twice");
    for reference in references {
        assert!(ids.contains(&reference), "{page}: nothing has the id {reference}");
    }
}

fn check_attributes(page: &str, element: &str, attributes: &[(String, String)]) {
    for (name, value) in attributes {
        let known = ATTRIBUTES.contains(&name.as_str())
            || name.starts_with("data-")
            || name.starts_with("aria-");
        assert!(known, "{page}: attribute {name} of {element}");
        if matches!(name.as_str(), "href" | "src" | "action") {
            assert!(value.starts_with(['/', '#']) && !value.starts_with("//"), "{page}: {value}");
        }
    }
    if element == "script" {
        assert!(attributes.iter().any(|(name, _)| name == "src"), "{page}: an inline script");
    }
    let has = |wanted: &str| attributes.iter().any(|(name, _)| name == wanted);
    match element {
        "th" => assert!(has("scope"), "{page}: a th without scope"),
        "svg" => assert!(has("role") || has("aria-hidden"), "{page}: an svg without role"),
        "button" => assert!(has("type"), "{page}: a button without type"),
        _ => {}
    }
}

#[test]
fn every_page_is_well_formed_and_holds_nothing_inline() {
    for language in Language::ALL {
        for (page, html) in samples(language) {
            check(page, &html);
            assert!(!html.contains("style="), "{page}");
            assert_eq!(html.matches("<h1").count(), 1, "{page}");
        }
    }
}

#[test]
fn every_chart_has_one_name() {
    for (page, html) in samples(Language::En) {
        for tag in html.split("role=\"img\"").skip(1) {
            let (tag, inside) = tag.split_once('>').unwrap();
            let (_, name) = tag.split_once("aria-label=\"").expect("a name");
            assert!(!name.starts_with('"'), "{page}");
            // Its parts have titles for a pointer, which must not be read out one by one.
            assert!(inside.starts_with("<g aria-hidden=\"true\">"), "{page}: {name}");
        }
    }
}

#[test]
fn templates_write_no_unit_and_no_unescaped_value() {
    for (name, source) in templates() {
        assert!(!source.contains("safe }}") && !source.contains("|safe"), "{name}");
        for after in source.split("}}").skip(1) {
            let next = after.trim_start_matches([' ', '\u{a0}', '\u{202f}']);
            for unit in
                ["%", "W<", "W ", "kW", "MiB", "GiB", "MHz", "°C", "ms", "s<", "h<", "GPU h"]
            {
                let is_block = next.starts_with("%}");
                assert!(is_block || !next.starts_with(unit), "{name}: a bare number before {unit}");
            }
        }
    }
}

#[test]
fn templates_hold_no_words() {
    for (name, source) in templates() {
        let mut text = source.clone();
        for (open, close) in [("{%", "%}"), ("{{", "}}"), ("<", ">")] {
            while let Some(start) = text.find(open) {
                let end = text[start..].find(close).expect("closed") + start + close.len();
                text.replace_range(start..end, " ");
            }
        }
        let words: Vec<&str> = text
            .split_whitespace()
            .filter(|word| word.chars().any(char::is_alphabetic) && *word != "leasewatch")
            .collect();
        assert!(words.is_empty(), "{name}: {words:?}");
    }
}
