//! Who may use whom inside a crate.

use super::code::{is_name, line_of, words};
use super::tree::{SourceFile, Tree, Violations};

/// Modules of the server and the modules beside them that they may name. `serve.rs`, which puts
/// them together, sees all, as `lib.rs` and `main.rs` do. What is not listed is forbidden; a new
/// module needs a row.
const SERVER: [(&str, &[&str]); 23] = [
    ("apply", &["clock", "config", "embedded_postgres", "serve", "store"]),
    ("bundle", &["clock", "config", "embedded_postgres", "export", "identity", "serve", "store"]),
    ("clock", &[]),
    // Asked where a promise is kept.
    ("sabotage", &[]),
    // It knows where the embedded database lives unless told otherwise.
    ("config", &["embedded_postgres"]),
    ("identity", &[]),
    ("live", &["clock"]),
    ("store", &["sabotage"]),
    ("embedded_postgres", &["store"]),
    ("jobs", &["store", "clock", "live"]),
    ("grpc", &["store", "clock", "live", "identity", "config", "sabotage"]),
    (
        "http",
        &[
            "store",
            "apply",
            "clock",
            "live",
            "installer",
            "intake",
            "enrollment",
            "password",
            "secret",
            "tenancy",
            "demo",
        ],
    ),
    ("installer", &[]),
    ("password", &[]),
    ("secret", &[]),
    ("accounts", &["clock", "config", "embedded_postgres", "secret", "serve", "store"]),
    // The client side of `import`: it talks to a running server like any agent.
    ("import", &["clock", "identity", "config", "intake", "enrollment"]),
    // What http puts in, import takes out.
    ("intake", &[]),
    ("demo", &["apply", "clock", "config", "embedded_postgres", "serve", "store"]),
    ("enrollment", &["clock", "config", "embedded_postgres", "identity", "serve", "store"]),
    ("export", &["clock", "config", "embedded_postgres", "serve", "store"]),
    ("tenancy", &["clock", "config", "embedded_postgres", "serve", "store"]),
    ("error", &[]),
];

/// Names of crates, and the modules of the server that may say them.
const SERVER_CRATES: [(&str, &[&str]); 5] = [
    ("sqlx", &["store"]),
    // live keeps a frame as it was converted and checked.
    ("leasewatch_proto", &["grpc", "import", "live"]),
    ("tonic", &["grpc", "import"]),
    // Documents of a bundle.
    ("leasewatch_web", &["http", "bundle"]),
    // grpc makes the router that is merged with the pages'.
    ("axum", &["http", "grpc"]),
];

/// The top-level module of a file below `src/`; `None` for the roots.
fn module_of<'a>(file: &'a SourceFile, source: &str) -> Option<&'a str> {
    let path = file.path.strip_prefix(source)?.strip_suffix(".rs")?;
    let module = path.split('/').next()?;
    (!matches!(module, "lib" | "main" | "serve")).then_some(module)
}

/// Names that follow the crate's root in paths of `code`: `crate::name`, `crate::{a, b}`, and as
/// many `super::` as lead there. `depth` is how many modules deep the file's own module lies.
fn uses_of_root(code: &str, depth: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let supers = "super::".repeat(depth);
    for start in ["crate::", supers.as_str()] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            let rest = &code[at + start.len()..];
            if before.is_some_and(|c| is_name(c) || c == ':') || rest.starts_with("super::") {
                continue;
            }
            found.extend(first_names(rest).into_iter().map(|name| (line_of(code, at), name)));
        }
    }
    found
}

/// `a::b` -> a; `{a::{b, c}, d}` -> a, d.
fn first_names(rest: &str) -> Vec<String> {
    let Some(group) = rest.strip_prefix('{') else {
        return vec![rest.chars().take_while(|c| is_name(*c)).collect()];
    };
    let (mut depth, mut names, mut current) = (1_u32, Vec::new(), String::new());
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => names.push(std::mem::take(&mut current)),
            c if depth == 1 => current.push(c),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names.push(current);
    names
        .iter()
        .map(|name| name.trim().chars().take_while(|c| is_name(*c)).collect::<String>())
        .filter(|name| !name.is_empty())
        .collect()
}

fn depth_of(file: &SourceFile, source: &str) -> usize {
    file.path.strip_prefix(source).map_or(0, |path| path.split('/').count())
}

#[test]
fn server_modules_use_what_the_table_allows() {
    let tree = Tree::read();
    let mut found = Violations::default();
    let source = "server/src/";
    for file in tree.rust(source) {
        let Some(module) = module_of(file, source) else { continue };
        let Some((_, allowed)) = SERVER.iter().find(|(name, _)| *name == module) else {
            found.add(&file.path, 1, format!("`{module}` is not in the table of who may use whom"));
            continue;
        };
        for (line, name) in uses_of_root(file.code_without_tests(), depth_of(file, source)) {
            if name != module && !allowed.contains(&name.as_str()) {
                found.add(&file.path, line, format!("`{module}` must not use `{name}`"));
            }
        }
        for (name, _) in SERVER_CRATES.iter().filter(|(_, homes)| !homes.contains(&module)) {
            for at in words(file.code_without_tests(), name) {
                let message = format!("`{name}` has no place in `{module}`");
                found.add(&file.path, line_of(file.code(), at), message);
            }
        }
    }
    found.report();
}

#[test]
fn nvml_is_called_in_one_place_of_the_agent() {
    let tree = Tree::read();
    let mut found = Violations::default();
    let outside = tree.rust("agent/src/").filter(|f| !f.path.starts_with("agent/src/source/nvml"));
    for file in outside {
        for name in ["nvml_wrapper", "nvml_wrapper_sys"] {
            for at in words(file.code(), name) {
                let line = line_of(file.code(), at);
                found.add(&file.path, line, format!("`{name}` is for agent/src/source/nvml*"));
            }
        }
    }
    found.report();
}

/// `core/src/lib.rs` lists the modules in groups; a module may use its own group and those above.
#[test]
fn core_modules_use_only_what_stands_above_them() {
    let tree = Tree::read();
    let mut found = Violations::default();
    let groups: Vec<Vec<&str>> = tree
        .text("core/src/lib.rs")
        .split("\n\n")
        .map(|group| {
            let names = group.lines().filter_map(|l| l.strip_prefix("pub mod ")?.strip_suffix(';'));
            names.collect::<Vec<_>>()
        })
        .filter(|names| !names.is_empty())
        .collect();
    let rank = |name: &str| groups.iter().position(|group| group.contains(&name));
    let source = "core/src/";
    for file in tree.rust(source).filter(|file| !tree.is_test(file)) {
        let Some(own) = module_of(file, source).and_then(rank) else { continue };
        for (line, name) in uses_of_root(file.code_without_tests(), depth_of(file, source)) {
            if rank(&name).is_some_and(|used| used > own) {
                let message = format!("`{name}` stands further down in core/src/lib.rs");
                found.add(&file.path, line, message);
            }
        }
    }
    found.report();
}

#[test]
fn paths_to_the_root_are_seen_in_every_form() {
    let code = "use crate::store::Db;\nuse crate::{clock, grpc::{a, b}, live};\nsuper::super::http::x; super::own";
    let names: Vec<_> = uses_of_root(code, 2).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["store", "clock", "grpc", "live", "http"]);
}
