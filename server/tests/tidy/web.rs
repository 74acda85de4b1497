//! Pages and templates.

use super::code::line_of;
use super::tree::{SourceFile, Tree, Violations};

/// Units that pages print. Longer ones before those that they begin with.
const UNITS: [&str; 15] = [
    "%", "\u{b0}C", "kWh", "kW", "mW", "W", "MiB", "GiB", "MHz", "ms", "min", "GPU-h", "GPU", "s",
    "h",
];

/// Lengths in SVG are percentages too: nobody reads them. They have no space before the sign.
const SVG_LENGTHS: [&str; 2] = ["web/src/chart/strip.rs", "web/src/live.rs"];

#[test]
fn every_page_has_a_sample() {
    let tree = Tree::read();
    let mut found = Violations::default();
    let folder = "web/src/pages/";
    let pages = tree.rust(folder).filter(|file| !file.path[folder.len()..].contains('/'));
    let pages: Vec<_> = pages.filter(|file| file.code().contains("pub fn render(")).collect();
    assert!(!pages.is_empty(), "{folder}: no page is where tidy looks for it");
    for page in pages {
        if !page.code().contains("fn sample(") {
            let message = "a page has a `sample()`, which its snapshot test renders";
            found.add(&page.path, 1, message);
        }
    }
    found.report();
}

/// The content security policy refuses all three, so they would silently do nothing.
#[test]
fn templates_hold_no_inline_style_or_script() {
    let tree = Tree::read();
    let mut found = Violations::default();
    for file in tree.files.iter().filter(|file| file.path.starts_with("web/templates/")) {
        for (line, text) in file.text.lines().enumerate() {
            let lower = text.to_lowercase();
            if lower.contains(" style=") || lower.contains("<style") {
                found.add(&file.path, line + 1, "inline style: use a class");
            }
            if has_handler(&lower) {
                found.add(&file.path, line + 1, "inline handler: use a file in web/static");
            }
            if lower.contains("<script") && !lower.contains(" src=") {
                found.add(&file.path, line + 1, "inline script: use a file in web/static");
            }
        }
    }
    found.report();
}

/// A number is printed with its unit by `Quantity` (web/src/format), which knows digits, rounding,
/// languages and what a missing number looks like.
#[test]
fn numbers_get_their_units_from_quantity() {
    let tree = Tree::read();
    let mut found = Violations::default();
    for file in tree.files.iter().filter(|file| prints(file)) {
        for (line, unit) in units_by_hand(file) {
            let message = format!("`{unit}` written after a number: print a `Quantity`");
            found.add(&file.path, line, message);
        }
    }
    found.report();
}

/// Templates, and the sources of web but for the home of `Quantity`.
fn prints(file: &SourceFile) -> bool {
    file.path.starts_with("web/templates/")
        || (file.is_rust()
            && file.path.starts_with("web/src/")
            && !file.path.starts_with("web/src/format"))
}

/// Lines, from 1, with the unit that stands after an expression, or begins a text of its own.
fn units_by_hand(file: &SourceFile) -> Vec<(usize, &'static str)> {
    let text = &file.text;
    let is_rust = file.is_rust();
    let end = file.code_without_tests().chars().count();
    // What is blank in `code` and not in the text is a string or a comment.
    let code: Vec<char> = file.code().chars().collect();
    let in_string = |index: usize| index < end && code.get(index) == Some(&' ');
    let hits = text.char_indices().enumerate().filter_map(|(index, (at, c))| {
        let rest = &text[at + c.len_utf8()..];
        let unit = match (is_rust, c) {
            (true, '}') if in_string(index) => unit_after(rest)?,
            (true, '"') if in_string(index) && rest.starts_with(BLANKS) => unit_after(rest)?,
            (false, '}') if text[..at].ends_with('}') => unit_after(without_tags(rest))?,
            _ => return None,
        };
        let is_length = unit == "%" && rest.starts_with('%');
        (!is_length || !SVG_LENGTHS.contains(&file.path.as_str()))
            .then(|| (line_of(text, at), unit))
    });
    hits.collect()
}

const BLANKS: [char; 2] = [' ', '\u{a0}'];

fn unit_after(text: &str) -> Option<&'static str> {
    let mut rest = text;
    while let Some(next) = ["\\u{a0}", "\\u{202f}", "&nbsp;", " ", "\u{a0}", "\u{202f}"]
        .iter()
        .find_map(|blank| rest.strip_prefix(blank))
    {
        rest = next;
    }
    UNITS.into_iter().find(|unit| {
        let after = rest.strip_prefix(unit).map(|after| after.chars().next());
        after.is_some_and(|next| !next.is_some_and(|c| c.is_alphanumeric() || "-_=".contains(c)))
    })
}

/// `text` from behind the tags that it begins with.
fn without_tags(text: &str) -> &str {
    let mut rest = text;
    while let Some((_, after)) = rest.strip_prefix('<').and_then(|tag| tag.split_once('>')) {
        rest = after;
    }
    rest
}

#[test]
fn a_unit_by_hand_is_found_and_words_are_not() {
    let units = |path: &str, text: &str| -> Vec<&'static str> {
        units_by_hand(&SourceFile::new(path, text)).into_iter().map(|(_, unit)| unit).collect()
    };
    let template = |text: &str| units("web/templates/seed.html", text);
    assert_eq!(template("<td>{{ busy }} %</td>"), ["%"]);
    assert_eq!(template("<b>{{ power }}</b> W, {{ used }}&nbsp;MiB"), ["W", "MiB"]);
    assert_eq!(template("{{ a }} ms {{ b }}\u{a0}\u{b0}C {{ c }}%"), ["ms", "\u{b0}C", "%"]);
    assert!(template("{{ name }} was here <p>5 W</p> {% if x %} {{ y }} shows").is_empty());

    let page = |text: &str| units("web/src/pages/seed.rs", text);
    assert_eq!(page("fn f() { format!(\"{x} W\"); }"), ["W"]);
    assert_eq!(page("fn f() { format!(\"{}{SPACE}MiB\", y) }"), ["MiB"]);
    assert_eq!(page("fn f() {\n  write!(out,\n    \"{share:.1}%\") }"), ["%"]);
    assert_eq!(page("fn f() { out.push_str(\" \u{b0}C\"); }"), ["\u{b0}C"]);
    assert!(page("fn f() { if a { b } % c; format!(\"%{x:02X} {y} was\"); }").is_empty());
    assert!(page("#[cfg(test)]\nmod tests {\n const A: &str = \"{x} W\"; }").is_empty());
    // A length of SVG, and the same sign printed for people.
    assert!(units(SVG_LENGTHS[0], "fn f() { format!(\"{x}%\") }").is_empty());
    assert_eq!(units(SVG_LENGTHS[0], "fn f() { format!(\"{x} %\") }"), ["%"]);
}

/// ` onclick=` and its kin.
fn has_handler(line: &str) -> bool {
    line.match_indices(" on").any(|(at, _)| {
        let rest = &line[at + 3..];
        let letters = rest.chars().take_while(char::is_ascii_lowercase).count();
        letters > 0 && rest[letters..].starts_with('=')
    })
}
