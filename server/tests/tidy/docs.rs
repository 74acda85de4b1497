//! Documents that would silently fall behind the code.

use leasewatch_core::metering::GapCause;

use super::tree::{Tree, Violations};

/// One word per thing.
const GLOSSARY: [&str; 40] = [
    "node",
    "gpu",
    "slot",
    "partition",
    "sample",
    "cadence",
    "reading",
    "epoch",
    "chain",
    "sequence",
    "segment",
    "block",
    "head",
    "live frame",
    "spool",
    "gap",
    "coverage",
    "utilization",
    "hour record",
    "GPU-hour",
    "enrolled time",
    "contracted time",
    "assignment",
    "billing session",
    "xid",
    "provider",
    "tenant",
    "lease",
    "objective",
    "verdict",
    "claim",
    "finding",
    "incident",
    "attribution",
    "alert",
    "statement",
    "checkpoint",
    "bundle",
    "witness",
    "enrollment",
];

#[test]
fn the_glossary_defines_every_word() {
    let tree = Tree::read();
    let text = tree.text("docs/GLOSSARY.md");
    let mut found = Violations::default();
    for word in GLOSSARY.iter().filter(|word| !text.contains(&format!("**{word}**"))) {
        found.add("docs/GLOSSARY.md", 1, format!("**{word}** is not defined"));
    }
    found.report();
}

#[test]
fn every_gap_cause_is_explained() {
    let tree = Tree::read();
    let text = tree.text("docs/METERING.md");
    let mut found = Violations::default();
    for cause in GapCause::ALL {
        if !text.contains(&format!("| `{}` |", cause.name())) {
            let message = format!("the table of causes lacks `{}`", cause.name());
            found.add("docs/METERING.md", 1, message);
        }
    }
    let row = |cause: GapCause| text.find(&format!("| `{}` |", cause.name()));
    for pair in GapCause::ALL.windows(2).filter(|pair| row(pair[0]) > row(pair[1])) {
        let message = format!("`{}` takes precedence over `{}`", pair[0].name(), pair[1].name());
        found.add("docs/METERING.md", 1, message);
    }
    found.report();
}

/// Public functions of `impl NAME` in a source text.
fn functions_of<'a>(source: &'a str, name: &str) -> Vec<&'a str> {
    let Some((_, rest)) = source.split_once(&format!("impl {name} {{")) else {
        panic!("`impl {name}` is not where tidy looks for it")
    };
    let body = rest.split("\n}").next().unwrap_or_default();
    let starts = body.lines().filter_map(|line| line.strip_prefix("    pub fn "));
    starts.filter_map(|line| line.split('(').next()).collect()
}

#[test]
fn every_formula_is_written_down() {
    let tree = Tree::read();
    let text = tree.text("docs/METERING.md");
    let mut found = Violations::default();
    let formulas = functions_of(tree.text("core/src/metering/sum.rs"), "UtilizationSum");
    for name in formulas.iter().filter(|name| !["add", "merge"].contains(name)) {
        if !text.contains(&format!("`UtilizationSum::{name}`")) {
            let message = format!("the formula of `UtilizationSum::{name}` is missing");
            found.add("docs/METERING.md", 1, message);
        }
    }
    found.report();
}

/// Rows of SECURITY.md that begin with an id: `| D8 | promise | `file.rs`: `test` |`. Files and
/// tests stand between backticks; a test belongs to the file named before it.
#[test]
fn every_promise_names_a_test_that_exists() {
    let tree = Tree::read();
    let path = "docs/SECURITY.md";
    let mut found = Violations::default();
    let mut promises = 0;
    for (index, row) in tree.text(path).lines().enumerate() {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, id, _, tests, _] = cells[..] else { continue };
        if !is_promise_id(id) {
            continue;
        }
        promises += 1;
        let (mut file, mut named) = (None, 0);
        for name in tests.split('`').skip(1).step_by(2) {
            if name.ends_with(".rs") {
                file = Some(name);
                if !tree.exists(name) {
                    found.add(path, index + 1, format!("{id}: {name} does not exist"));
                }
                continue;
            }
            named += 1;
            let holds = |text: &str| text.contains(&format!("fn {name}("));
            if !file.is_some_and(|file| tree.exists(file) && holds(tree.text(file))) {
                let message = format!("{id}: no test `{name}` in {}", file.unwrap_or("any file"));
                found.add(path, index + 1, message);
            }
        }
        if named == 0 {
            found.add(path, index + 1, format!("{id}: a promise without a test is a wish"));
        }
    }
    assert!(promises > 0, "{path}: no row begins with the id of a promise");
    found.report();
}

/// Numbers that nobody can measure again are stories.
#[test]
fn every_command_of_the_performance_document_exists() {
    let tree = Tree::read();
    let (path, program) = ("docs/PERFORMANCE.md", tree.text("bench/src/main.rs"));
    let mut found = Violations::default();
    let mut named = 0;
    for (line, text) in tree.text(path).lines().enumerate() {
        for rest in text.split("leasewatch-bench ").skip(1) {
            let command: String = rest.chars().take_while(char::is_ascii_lowercase).collect();
            named += 1;
            if !program.to_lowercase().contains(&format!("    {command}({command}::")) {
                found.add(path, line + 1, format!("`leasewatch-bench {command}` does not exist"));
            }
        }
        for script in text.split('`').filter(|word| word.starts_with("scripts/")) {
            let file = script.split(' ').next().unwrap_or_default();
            if !tree.exists(file) {
                found.add(path, line + 1, format!("{file} does not exist"));
            }
        }
    }
    assert!(named > 4, "{path} does not say how its numbers are measured");
    found.report();
}

/// `D8`, `R2`.
fn is_promise_id(cell: &str) -> bool {
    let mut chars = cell.chars();
    chars.next().is_some_and(|c| c.is_ascii_uppercase())
        && cell.len() >= 2
        && chars.all(|c| c.is_ascii_digit())
}

#[test]
fn both_readmes_have_the_same_sections() {
    let tree = Tree::read();
    let levels = |path: &str| -> Vec<usize> {
        let (mut levels, mut in_code) = (Vec::new(), false);
        for line in tree.text(path).lines() {
            in_code ^= line.starts_with("```");
            if !in_code && line.starts_with('#') {
                levels.push(line.chars().take_while(|c| *c == '#').count());
            }
        }
        levels
    };
    assert_eq!(
        levels("README.md"),
        levels("README.zh-CN.md"),
        "headings of README.md and README.zh-CN.md"
    );
}

/// Relative links of every document, and paths between backticks that look like ours.
#[test]
fn links_lead_somewhere() {
    let tree = Tree::read();
    let mut found = Violations::default();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (line, text) in file.text.lines().enumerate() {
            for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let target = target.split('#').next().unwrap_or_default();
                let relative = format!("{folder}/{target}");
                let exists = tree.exists(relative.trim_start_matches('/'));
                if !target.is_empty() && !target.contains("://") && !exists {
                    found.add(&file.path, line + 1, format!("{target} does not exist"));
                }
            }
        }
    }
    found.report();
}
