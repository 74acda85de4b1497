//! The files of the repository, and the list of violations that a rule finds in them.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};

use super::code::{self, code_only};

/// Folders that hold no source of ours. Folders whose name begins with a dot are looked into only
/// where [`HIDDEN`] says so.
const SKIPPED: [&str; 3] = ["target", "node_modules", "proptest-regressions"];
const HIDDEN: [&str; 3] = [".ci", ".config", ".cargo"];

/// One text file.
pub(crate) struct SourceFile {
    /// Relative to the repository, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    code: OnceLock<String>,
}

impl SourceFile {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into(), code: OnceLock::new() }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// For Rust: `text` with comments and the contents of strings blanked.
    pub(crate) fn code(&self) -> &str {
        self.code.get_or_init(|| code_only(&self.text))
    }

    /// Lines before the inline test module; all of them where there is none.
    pub(crate) fn lines_without_tests(&self) -> usize {
        code::first_test_line(self.code()).unwrap_or_else(|| self.text.lines().count())
    }

    /// The code before the inline test module.
    pub(crate) fn code_without_tests(&self) -> &str {
        let end = match code::first_test_line(self.code()) {
            Some(line) => self.code().split_inclusive('\n').take(line).map(str::len).sum(),
            None => self.code().len(),
        };
        &self.code()[..end]
    }
}

/// Every text file of the repository, by path.
pub(crate) struct Tree {
    root: PathBuf,
    pub(crate) files: Vec<SourceFile>,
    test_modules: OnceLock<Vec<String>>,
}

impl Tree {
    /// The tree, read once.
    pub(crate) fn read() -> &'static Self {
        static TREE: LazyLock<Tree> = LazyLock::new(Tree::load);
        &TREE
    }

    fn load() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut files = Vec::new();
        collect(&root, &root, &mut files);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { root, files, test_modules: OnceLock::new() }
    }

    /// The text of a file that has to exist.
    pub(crate) fn text(&self, path: &str) -> &str {
        let found = self.files.iter().find(|file| file.path == path);
        found.map_or_else(|| panic!("{path}: the file is missing"), |file| &file.text)
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Rust files below `prefix`.
    pub(crate) fn rust<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a SourceFile> {
        self.files.iter().filter(move |file| file.is_rust() && file.path.starts_with(prefix))
    }

    /// True for integration tests and for files that only `#[cfg(test)] mod name;` includes.
    pub(crate) fn is_test(&self, file: &SourceFile) -> bool {
        file.path.contains("/tests/")
            || file.path.contains("/benches/")
            || self.test_modules().iter().any(|module| {
                file.path
                    .strip_prefix(module)
                    .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            })
    }

    /// Paths without `.rs` of modules that are included in tests only.
    fn test_modules(&self) -> &[String] {
        let find = || self.rust("").flat_map(test_modules_of).collect();
        self.test_modules.get_or_init(find)
    }
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<SourceFile>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            let hidden = name.starts_with('.') && !HIDDEN.contains(&name.as_str());
            if !hidden && !SKIPPED.contains(&name.as_str()) {
                collect(root, &entry.path(), files);
            }
        } else if kind.is_file() {
            // Pictures and other bytes are no text and have no rules here.
            let Ok(text) = fs::read_to_string(entry.path()) else { continue };
            let path = relative(root, &entry.path());
            files.push(SourceFile::new(path, text));
        }
    }
}

fn relative(root: &Path, path: &Path) -> String {
    let parts = path.strip_prefix(root).unwrap_or(path).components();
    parts.map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// Paths without `.rs` of the modules that `file` includes in tests only.
fn test_modules_of(file: &SourceFile) -> Vec<String> {
    let stem = file.path.strip_suffix(".rs").unwrap_or(&file.path);
    let folder = match stem.rsplit_once('/') {
        Some((folder, "lib" | "main" | "mod")) => folder,
        _ => stem,
    };
    let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
    lines
        .windows(2)
        .filter(|pair| pair[0] == "#[cfg(test)]")
        .filter_map(|pair| pair[1].strip_prefix("mod ")?.strip_suffix(';'))
        .map(|name| format!("{folder}/{name}"))
        .collect()
}

/// What a rule found.
#[derive(Default)]
pub(crate) struct Violations(Vec<String>);

impl Violations {
    /// `line` counts from 1.
    pub(crate) fn add(&mut self, path: &str, line: usize, message: impl Display) {
        self.0.push(format!("{path}:{line}: {message}"));
    }

    /// Fails the test with everything that was found.
    pub(crate) fn report(self) {
        let count = self.0.len();
        assert!(count == 0, "{count} violation(s)\n{}\n", self.0.join("\n"));
    }
}
