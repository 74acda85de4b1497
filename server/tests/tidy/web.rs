//! Pages and templates.

use super::tree::{Tree, Violations};

#[test]
fn every_page_has_a_sample() {
    let tree = Tree::read();
    let mut found = Violations::default();
    let folder = "web/src/pages/";
    let pages = tree.rust(folder).filter(|file| !file.path[folder.len()..].contains('/'));
    // `sample.rs` holds what the samples are made of.
    for page in pages.filter(|page| !page.path.ends_with("/sample.rs")) {
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

/// ` onclick=` and its kin.
fn has_handler(line: &str) -> bool {
    line.match_indices(" on").any(|(at, _)| {
        let rest = &line[at + 3..];
        let letters = rest.chars().take_while(char::is_ascii_lowercase).count();
        letters > 0 && rest[letters..].starts_with('=')
    })
}
