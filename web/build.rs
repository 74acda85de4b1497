//! Turns the two catalogues of `i18n/` into Rust: an enum of keys and one function per phrase.
//!
//! A key that one language lacks, or whose `{placeholders}` differ, stops the build here, so no
//! page can fall back silently. Nothing else is checked here: that the words are good is for
//! people, that no English is left in the Chinese catalogue is for `tests/pages/catalogue.rs`.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs, process};

type Catalogue = BTreeMap<String, String>;

fn main() {
    println!("cargo::rerun-if-changed=i18n");
    println!("cargo::rerun-if-changed=templates");
    println!("cargo::rerun-if-changed=static");
    if let Err(message) = generate() {
        println!("cargo::error={message}");
        process::exit(1);
    }
}

fn generate() -> Result<(), String> {
    let en = read("i18n/en.toml")?;
    let zh = read("i18n/zh-CN.toml")?;
    compare(&en, &zh)?;
    let out = env::var("OUT_DIR").map_err(|error| error.to_string())?;
    fs::write(Path::new(&out).join("catalogue.rs"), source(&en, &zh)?)
        .map_err(|error| error.to_string())
}

fn read(path: &str) -> Result<Catalogue, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let tables: toml::Table = text.parse().map_err(|error| format!("{path}: {error}"))?;
    let mut catalogue = Catalogue::new();
    for (table, entries) in tables {
        let entries = entries.as_table().ok_or(format!("{path}: {table} is not a table"))?;
        for (key, value) in entries {
            let value = value.as_str().ok_or(format!("{path}: {table}.{key} is not text"))?;
            if value.trim().is_empty() {
                return Err(format!("{path}: {table}.{key} is empty"));
            }
            catalogue.insert(format!("{table}.{key}"), value.to_owned());
        }
    }
    Ok(catalogue)
}

fn compare(en: &Catalogue, zh: &Catalogue) -> Result<(), String> {
    for key in en.keys().chain(zh.keys()) {
        let (Some(left), Some(right)) = (en.get(key), zh.get(key)) else {
            return Err(format!("i18n: {key} is missing in one of the catalogues"));
        };
        if placeholders(key, left)? != placeholders(key, right)? {
            return Err(format!("i18n: {key} has other placeholders in the other language"));
        }
    }
    Ok(())
}

/// The names in `{..}`, sorted, each once.
fn placeholders(key: &str, text: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for part in text.split('{').skip(1) {
        let (name, _) = part.split_once('}').ok_or(format!("i18n: {key} has a lone brace"))?;
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') {
            return Err(format!("i18n: {key} has the odd placeholder {{{name}}}"));
        }
        names.push(name.to_owned());
    }
    names.sort();
    names.dedup();
    Ok(names)
}

fn source(en: &Catalogue, zh: &Catalogue) -> Result<String, String> {
    let (mut variants, mut all, mut words) = (String::new(), String::new(), String::new());
    let (mut phrases, mut table) = (String::new(), String::new());
    for (key, left) in en {
        let right = &zh[key];
        table += &format!("({key:?}, {left:?}, {right:?}),\n");
        let names = placeholders(key, left)?;
        if !names.is_empty() {
            phrases += &phrase(key, &names, left, right);
            continue;
        }
        let name = pascal(key);
        variants += &format!("#[doc = {key:?}] {name},\n");
        all += &format!("Self::{name},");
        words += &format!("({left:?}, {right:?}),\n");
    }
    Ok(format!(
        "/// Words without a variable part, by key.\n\
         #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]\npub enum Text {{ {variants} }}\n\
         impl Text {{\n\
         /// Every key.\npub const ALL: &'static [Self] = &[{all}];\n\
         /// The words in `language`.\n#[must_use]\npub fn words(self, language: Language) -> &'static str {{\n\
         let (en, zh) = WORDS[self as usize];\n\
         match language {{ Language::En => en, Language::ZhCn => zh }} }} }}\n\
         /// English and Chinese, in the order of [`Text::ALL`].\nstatic WORDS: [(&str, &str); Text::ALL.len()] = [{words}];\n\
         /// Both catalogues: key, English, Chinese.\npub const CATALOGUE: &[(&str, &str, &str)] = &[{table}];\n\
         /// Words with variable parts: one function per key, its arguments in the alphabetical\n\
         /// order of their names.\npub mod phrase {{ use super::Language; {phrases} }}\n",
    ))
}

/// A function that fills a phrase in. Its documentation is the English words, so that the order of
/// arguments can be seen where it is called.
fn phrase(key: &str, names: &[String], left: &str, right: &str) -> String {
    let arguments: String =
        names.iter().map(|name| format!(", {name}: impl std::fmt::Display")).collect();
    format!(
        "#[doc = {left:?}] #[must_use] pub fn {name}(language: Language{arguments}) -> String {{ \
         match language {{ Language::En => format!({left:?}), Language::ZhCn => format!({right:?}) }} }}\n",
        name = key.replace('.', "_"),
    )
}

fn pascal(key: &str) -> String {
    key.split(['.', '_'])
        .map(|word| {
            let (head, tail) = word.split_at(word.len().min(1));
            head.to_uppercase() + tail
        })
        .collect()
}
