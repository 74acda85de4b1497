//! Which crate may use which, and the lints that each has to keep.

use toml::Table;

use super::code::{line_of, words};
use super::tree::{Tree, Violations};

/// Crates of ours and what they may depend on. What is not listed is forbidden.
const MAY_USE: [(&str, &[&str]); 9] = [
    ("core", &[]),
    ("proto", &["leasewatch-core"]),
    ("web", &["leasewatch-core"]),
    ("report", &["leasewatch-core", "leasewatch-web"]),
    ("verify", &["leasewatch-core"]),
    ("nvml-sim", &["leasewatch-core"]),
    ("agent", &["leasewatch-core", "leasewatch-proto"]),
    ("server", &["leasewatch-core", "leasewatch-proto", "leasewatch-report", "leasewatch-web"]),
    ("bench", &["leasewatch-core", "leasewatch-proto"]),
];

/// The same, for tests alone: a library that tests load has to be built before they run.
const MAY_USE_IN_TESTS: [(&str, &str); 1] = [("agent", "nvml-sim")];

/// One outside thing, one place: a dependency, and the crates that may name it.
const HOMES: [(&str, &[&str]); 12] = [
    // In proto for the client's one connection, which agent and import share.
    ("tokio", &["proto", "agent", "server", "bench"]),
    ("tokio-rustls", &["proto", "server"]),
    ("sqlx", &["server"]),
    ("axum", &["server"]),
    ("askama", &["web"]),
    ("krilla", &["report"]),
    ("tonic", &["proto", "agent", "server", "bench"]),
    ("nvml-wrapper-sys", &["agent"]),
    // nvml-sim's tests call it through the wrapper that the agent uses.
    ("nvml-wrapper", &["agent", "nvml-sim"]),
    ("rustix", &["agent", "nvml-sim", "server", "bench"]),
    ("getrandom", &["agent", "server", "bench"]),
    ("procfs", &["agent", "bench"]),
];

/// The two places where `unsafe` may stand.
const UNSAFE_HOMES: [&str; 2] = ["agent/src/source/nvml_raw.rs", "nvml-sim/"];

/// What stops a sabotaged program from being optimised, as a release is.
const GUARD: &str = "#[cfg(all(feature = \"sabotage\", not(debug_assertions)))]\ncompile_error!";

const SECTIONS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

fn parsed(tree: &Tree, path: &str) -> Table {
    tree.text(path).parse().unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn members(tree: &Tree) -> Vec<String> {
    let root = parsed(tree, "Cargo.toml");
    let list = root.get("workspace").and_then(|w| w.get("members")).and_then(|m| m.as_array());
    let names = list.into_iter().flatten().filter_map(|m| m.as_str());
    names.map(str::to_owned).collect()
}

/// Something that a member depends on.
struct Dependency {
    name: String,
    section: &'static str,
    line: usize,
}

fn dependencies(tree: &Tree, path: &str) -> Vec<Dependency> {
    let manifest = parsed(tree, path);
    let line = |name: &str| {
        let starts = |line: &str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
        };
        tree.text(path).lines().position(starts).map_or(1, |line| line + 1)
    };
    let mut list = Vec::new();
    for section in SECTIONS {
        let names =
            manifest.get(section).and_then(|s| s.as_table()).into_iter().flat_map(Table::keys);
        list.extend(names.map(|name| Dependency { name: name.clone(), section, line: line(name) }));
    }
    list
}

#[test]
fn crates_depend_on_what_the_table_allows() {
    let tree = Tree::read();
    let mut found = Violations::default();
    for member in members(tree) {
        let path = format!("{member}/Cargo.toml");
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == member) else {
            found.add(
                "Cargo.toml",
                1,
                format!("`{member}` is not in the table of who may use whom"),
            );
            continue;
        };
        for Dependency { name, section, line } in dependencies(tree, &path) {
            let ours = name.starts_with("leasewatch-") || name == "nvml-sim";
            let for_tests = section == "dev-dependencies"
                && MAY_USE_IN_TESTS.contains(&(member.as_str(), name.as_str()));
            if ours && !for_tests && !allowed.contains(&name.as_str()) {
                found.add(&path, line, format!("`{member}` must not use `{name}`"));
            }
            let home = HOMES.iter().find(|(outside, _)| *outside == name);
            if home.is_some_and(|(_, homes)| !homes.contains(&member.as_str())) {
                found.add(&path, line, format!("`{name}` has no place in `{member}`"));
            }
        }
    }
    found.report();
}

#[test]
fn every_member_keeps_the_lints_of_the_workspace() {
    let tree = Tree::read();
    let mut found = Violations::default();
    for member in members(tree) {
        let path = format!("{member}/Cargo.toml");
        let lints = parsed(tree, &path).get("lints").and_then(|l| l.get("workspace")?.as_bool());
        if lints != Some(true) {
            found.add(&path, 1, "`[lints] workspace = true` is missing");
        }
        // A program alone has no library.
        let roots = ["lib.rs", "main.rs"].map(|root| format!("{member}/src/{root}"));
        let is_there = |path: &&String| tree.files.iter().any(|file| file.path == **path);
        let library = roots.iter().find(is_there).unwrap_or(&roots[0]).clone();
        let has_exception = UNSAFE_HOMES.iter().any(|home| home.starts_with(&format!("{member}/")));
        if !has_exception && !tree.text(&library).contains("#![forbid(unsafe_code)]") {
            found.add(&library, 1, "`#![forbid(unsafe_code)]` is missing");
        }
    }
    found.report();
}

#[test]
fn unsafe_stands_in_two_places_only() {
    let tree = Tree::read();
    let mut found = Violations::default();
    for file in tree.rust("") {
        if UNSAFE_HOMES.iter().any(|home| file.path.starts_with(home)) {
            continue;
        }
        for at in words(file.code(), "unsafe") {
            let line = line_of(file.code(), at);
            found.add(
                &file.path,
                line,
                "`unsafe` is for agent/src/source/nvml_raw.rs and nvml-sim",
            );
        }
    }
    found.report();
}

/// The file of a crate replaces the root's, so it has to repeat the thresholds.
#[test]
fn clippy_thresholds_are_the_same_everywhere() {
    let tree = Tree::read();
    let root = parsed(tree, "clippy.toml");
    let mut found = Violations::default();
    for file in tree.files.iter().filter(|file| file.path.ends_with("/clippy.toml")) {
        let own = parsed(tree, &file.path);
        let thresholds = root.iter().filter(|(key, _)| *key != "disallowed-methods");
        for (key, value) in thresholds.filter(|(key, value)| own.get(*key) != Some(value)) {
            found.add(&file.path, 1, format!("`{key}` must be {value}, as in clippy.toml"));
        }
    }
    found.report();
}

#[test]
fn lock_files_name_the_public_registry_and_no_mirror() {
    let tree = Tree::read();
    let mut found = Violations::default();
    let public = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    for (line, text) in tree.text("Cargo.lock").lines().enumerate() {
        if text.starts_with("source = ") && text != public {
            found.add("Cargo.lock", line + 1, "a source other than the public index");
        }
    }
    for file in tree.files.iter().filter(|file| file.path.ends_with("package-lock.json")) {
        for (line, text) in
            file.text.lines().enumerate().filter(|(_, t)| t.contains("\"resolved\""))
        {
            let message = format!("a download address: {}", text.trim());
            found.add(&file.path, line + 1, message);
        }
    }
    found.report();
}

/// What breaks promises on purpose is built for tests alone, and each of its faults is used by one.
#[test]
fn sabotage_is_in_no_default_and_in_no_release() {
    let tree = Tree::read();
    let mut found = Violations::default();
    for member in members(tree) {
        let path = format!("{member}/Cargo.toml");
        let manifest = parsed(tree, &path);
        let features = manifest.get("features").and_then(|f| f.as_table());
        for (name, turns_on) in features.into_iter().flatten() {
            let is_plain = turns_on.as_array().is_some_and(Vec::is_empty);
            if name != "sabotage" && turns_on.to_string().contains("sabotage") {
                found.add(&path, 1, format!("`{name}` turns sabotage on"));
            }
            let module = format!("{member}/src/sabotage.rs");
            if name == "sabotage" && !(is_plain && tree.text(&module).contains(GUARD)) {
                found.add(&path, 1, "sabotage turns on nothing, and stops an optimised build");
            }
        }
        for (line, text) in tree.text(&path).lines().enumerate() {
            if text.contains("features") && text.contains("\"sabotage\"") {
                found.add(&path, line + 1, "no dependency asks for sabotage");
            }
        }
    }
    for file in tree.files.iter().filter(|file| file.path != "scripts/sabotage") {
        let is_text = file.is_rust() || file.path.ends_with(".md");
        for (line, text) in file.text.lines().enumerate().filter(|_| !is_text) {
            if text.contains("-server/sabotage") || text.contains("-agent/sabotage") {
                found.add(&file.path, line + 1, "only scripts/sabotage builds with sabotage");
            }
        }
    }
    let is_test = |path: &str| path.contains("/tests/");
    for file in tree.rust("").filter(|file| !is_test(&file.path)) {
        for rest in file.text.split("sabotage::is(\"").skip(1) {
            let fault = format!("\"{}\"", rest.split('"').next().unwrap_or_default());
            let used = tree.rust("").any(|file| is_test(&file.path) && file.text.contains(&fault));
            if !used {
                found.add(&file.path, 1, format!("no test sees {fault} broken"));
            }
        }
    }
    found.report();
}
