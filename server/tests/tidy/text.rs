//! Words that have no place in any file.

use super::tree::{Tree, Violations};

/// Files that are not ours to word.
const FOREIGN: [&str; 3] = ["LICENSE", "Cargo.lock", "package-lock.json"];

/// Built from halves, so that this file does not find itself.
const UNFINISHED: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("for", " now"), concat!("lorem", " ipsum")];

/// Folders of one machine: a path that means nothing on another.
const FOLDERS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Registries and their mirrors are set by each machine's own configuration.
const HOSTS: [&str; 6] = [
    concat!("static.crates", ".io"),
    concat!("index.crates", ".io"),
    concat!("registry.npmjs", ".org"),
    concat!("registry.npmmirror", ".com"),
    concat!("deb.debian", ".org"),
    concat!("files.pythonhosted", ".org"),
];

fn in_our_files(mut is_wrong: impl FnMut(&str) -> Option<String>) -> Violations {
    let tree = Tree::read();
    let mut found = Violations::default();
    for file in tree.files.iter().filter(|f| !FOREIGN.iter().any(|name| f.path.ends_with(name))) {
        for (line, text) in file.text.lines().enumerate() {
            if let Some(message) = is_wrong(text) {
                found.add(&file.path, line + 1, message);
            }
        }
    }
    found
}

#[test]
fn nothing_is_marked_as_unfinished() {
    let wrong = |line: &str| UNFINISHED.iter().find(|word| line.contains(**word));
    in_our_files(|line| {
        wrong(line).map(|word| format!("`{word}`: finish it, or say plainly what is missing"))
    })
    .report();
}

#[test]
fn no_path_of_one_machine() {
    let starts_word = |line: &str, at: usize| {
        !line[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || "._-~}".contains(c))
    };
    let wrong = |line: &str| {
        let hit =
            |folder: &&&str| line.match_indices(**folder).any(|(at, _)| starts_word(line, at));
        FOLDERS.iter().find(hit).copied()
    };
    in_our_files(|line| wrong(line).map(|folder| format!("`{folder}` exists on one machine only")))
        .report();
}

#[test]
fn no_host_of_a_package_registry() {
    let wrong = |line: &str| HOSTS.iter().find(|host| line.contains(**host));
    in_our_files(|line| {
        wrong(line).map(|host| format!("`{host}`: which registry is used is the machine's choice"))
    })
    .report();
}
