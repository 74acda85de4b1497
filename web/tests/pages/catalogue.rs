//! That a page in Chinese is in Chinese, key by key and as a whole.

use std::collections::HashMap;

use super::markup::{Piece, pieces};
use super::samples;
use leasewatch_web::Language;
use leasewatch_web::i18n::CATALOGUE;

/// Keys whose words are the same in both languages, or have none.
const SAME: &[&str] = &[
    "live.of",
    "col.gpu",
    "totals.of",
    "gpu.label",
    "lease.gpu",
    "cell.range",
    "cell.when",
    "legend.busy",
    "wiring.cpus",
    "wiring.disk_nvme",
    "wiring.to_cpu",
    "wiring.to_gpu",
    "wiring.word_cpus",
    "wiring.word_numa",
    "wiring.word_nvlink",
];

pub(super) fn has_han(text: &str) -> bool {
    text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c))
}

fn words(text: &str) -> String {
    let mut out = String::new();
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

#[test]
fn every_key_is_translated() {
    for (key, en, zh) in CATALOGUE {
        if SAME.contains(key) || !words(en).chars().any(char::is_alphabetic) {
            continue;
        }
        if *key == "list.separator" {
            continue;
        }
        assert!(has_han(zh), "{key}: {zh}");
        assert!(!has_han(en), "{key}: {en}");
    }
}

#[test]
fn internal_words_stay_out() {
    for (key, en, _) in CATALOGUE {
        let lower = format!(" {} ", en.to_lowercase().replace(['.', ',', ':', ';', '(', ')'], " "));
        for word in ["head", "epoch", "chain", "spool", "segment", "slot", "tick", "nvml"] {
            assert!(!lower.contains(&format!(" {word} ")), "{key}: {en}");
            assert!(!lower.contains(&format!(" {word}s ")), "{key}: {en}");
        }
    }
}

#[test]
fn no_english_sentence_is_left_on_a_chinese_page() {
    let english: HashMap<&str, &str> = CATALOGUE
        .iter()
        .filter(|(key, en, _)| {
            !SAME.contains(key) && words(en).chars().filter(|c| c.is_alphabetic()).count() > 1
        })
        .map(|(key, en, _)| (*en, *key))
        .collect();
    for (page, html) in samples(Language::ZhCn) {
        for text in texts(&html) {
            let run = longest_run_of_words(&text);
            // Three words in a row are a sentence, or the name of a product.
            assert!(run < 3 || text.starts_with("NVIDIA "), "{page}: {text}");
            if let Some(key) = english.get(text.trim()) {
                panic!("{page}: {key} is in English");
            }
        }
    }
}

/// Texts that a person reads: text nodes outside of code, and attributes that are read out.
fn texts(html: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut code = 0;
    for piece in pieces(html) {
        match piece {
            Piece::Open { name, attributes, closed } => {
                code += usize::from(name == "code" && !closed);
                let spoken =
                    ["title", "aria-label", "data-label", "data-done", "data-on", "data-off"];
                let read = attributes.into_iter().filter(|(key, _)| spoken.contains(&key.as_str()));
                out.extend(read.map(|(_, value)| value));
            }
            Piece::Close(name) => code -= usize::from(name == "code"),
            Piece::Text(text) if code == 0 => out.push(text),
            Piece::Text(_) => {}
        }
    }
    // Names of languages are in their own language.
    out.retain(|text| text != "English");
    out
}

pub(super) fn longest_run_of_words(text: &str) -> usize {
    let mut longest = 0;
    let mut run = 0;
    for word in text.split(|c: char| c.is_whitespace() || c == '-' || c == '.') {
        let is_word = word.len() > 1 && word.chars().all(|c| c.is_ascii_alphabetic());
        run = if is_word { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}
