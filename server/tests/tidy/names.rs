//! Sizes and names of Rust files.

use super::code::{is_name, line_of, words};
use super::tree::{Tree, Violations};

/// Lines of a file without its tests.
const LINES_MAX: usize = 400;
/// They say that something is there, not what it is.
const EMPTY_NAMES: [&str; 9] =
    ["utils", "util", "common", "helpers", "helper", "manager", "types", "models", "services"];

#[test]
fn files_are_short() {
    let tree = Tree::read();
    let mut found = Violations::default();
    for file in tree.rust("").filter(|file| !tree.is_test(file)) {
        let lines = file.lines_without_tests();
        if lines > LINES_MAX {
            let message =
                format!("{lines} lines before the tests, {LINES_MAX} are allowed: split it");
            found.add(&file.path, LINES_MAX, message);
        }
    }
    found.report();
}

#[test]
fn files_say_what_they_are() {
    let tree = Tree::read();
    let mut found = Violations::default();
    for file in tree.rust("").filter(|file| !file.path.ends_with("/tests.rs")) {
        if !file.text.starts_with("//! ") {
            let message = "begin with `//!`: what this file is, and what it deliberately is not";
            found.add(&file.path, 1, message);
        }
    }
    found.report();
}

#[test]
fn names_say_something() {
    let tree = Tree::read();
    let mut found = Violations::default();
    let is_empty = |name: &str| EMPTY_NAMES.contains(&name.to_lowercase().as_str());
    for file in tree.rust("") {
        for part in file.path.trim_end_matches(".rs").split('/').filter(|part| is_empty(part)) {
            found.add(&file.path, 1, format!("`{part}` is no name: say what it holds"));
        }
        for keyword in ["mod", "struct", "enum", "trait", "type"] {
            for at in words(file.code(), keyword) {
                let rest = file.code()[at + keyword.len()..].trim_start();
                let name: String = rest.chars().take_while(|c| is_name(*c)).collect();
                if is_empty(&name) || name.ends_with("Manager") || name.ends_with("Helper") {
                    let message = format!("`{name}` is no name: say what it is");
                    found.add(&file.path, line_of(file.code(), at), message);
                }
            }
        }
    }
    found.report();
}

#[test]
fn lints_are_expected_with_a_reason_and_never_just_allowed() {
    let tree = Tree::read();
    let mut found = Violations::default();
    for file in tree.rust("") {
        for attribute in ["#[allow(", "#![allow("] {
            for (at, _) in file.code().match_indices(attribute) {
                let message = "use `#[expect(.., reason = \"..\")]`";
                found.add(&file.path, line_of(file.code(), at), message);
            }
        }
    }
    found.report();
}
