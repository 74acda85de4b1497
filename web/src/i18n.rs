//! The languages of the interface and its words.
//!
//! Words are looked up by a key that the compiler knows ([`Text`], [`phrase`]); the catalogues in
//! `i18n/` are compared at build time. Not here: numbers and times (`format`).

use serde::Serialize;

include!(concat!(env!("OUT_DIR"), "/catalogue.rs"));

/// A language of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
pub enum Language {
    /// English.
    #[default]
    #[serde(rename = "en")]
    En,
    /// Simplified Chinese.
    #[serde(rename = "zh-CN")]
    ZhCn,
}

impl Language {
    /// Every language, in the order of the switch.
    pub const ALL: [Self; 2] = [Self::En, Self::ZhCn];

    /// The BCP 47 tag, as in the `lang` attribute and the URL.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::ZhCn => "zh-CN",
        }
    }

    /// The language's name in itself.
    #[must_use]
    pub fn own_name(self) -> &'static str {
        match self {
            Self::En => "English",
            Self::ZhCn => "简体中文",
        }
    }

    /// The language that a tag asks for, if the interface has it: `zh*` or `en*`.
    #[must_use]
    pub fn from_tag(tag: &str) -> Option<Self> {
        let primary = tag.trim().split(['-', '_']).next()?;
        if primary.eq_ignore_ascii_case("zh") {
            Some(Self::ZhCn)
        } else if primary.eq_ignore_ascii_case("en") {
            Some(Self::En)
        } else {
            None
        }
    }

    /// The language for a request: the explicit choice if the interface has it, else the best of
    /// the `Accept-Language` header, else English.
    #[must_use]
    pub fn negotiate(accept_language: Option<&str>, explicit: Option<&str>) -> Self {
        explicit
            .and_then(Self::from_tag)
            .or_else(|| accept_language.and_then(best_of_header))
            .unwrap_or_default()
    }
}

/// The language with the highest weight; the first of equals. A weight of 0 means "not this one".
fn best_of_header(header: &str) -> Option<Language> {
    let mut best: Option<(u16, Language)> = None;
    for entry in header.split(',').take(32) {
        let mut parts = entry.split(';');
        let Some(language) = parts.next().and_then(Language::from_tag) else { continue };
        let weight = parts.find_map(|part| part.trim().strip_prefix("q=")).map_or(1_000, permille);
        if weight > 0 && best.is_none_or(|(highest, _)| weight > highest) {
            best = Some((weight, language));
        }
    }
    best.map(|(_, language)| language)
}

/// `0.8` as 800. What is not a weight counts as 0.
fn permille(text: &str) -> u16 {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    match (whole, digits.parse::<u16>()) {
        ("1", Ok(0)) => 1_000,
        ("0", Ok(value)) => value,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_explicit_choice_wins_then_the_header_then_english() {
        let negotiate = Language::negotiate;
        assert_eq!(negotiate(Some("zh-CN,zh;q=0.9"), Some("en")), Language::En);
        assert_eq!(negotiate(Some("en-GB,zh;q=0.9"), None), Language::En);
        assert_eq!(negotiate(Some("fr, zh-TW;q=0.8, en;q=0.5"), None), Language::ZhCn);
        assert_eq!(negotiate(Some("en;q=0.3, ZH-hans-cn;q=0.85"), None), Language::ZhCn);
        assert_eq!(negotiate(Some("zh;q=0, en;q=0.1"), None), Language::En);
        assert_eq!(negotiate(Some("fr"), None), Language::En);
        assert_eq!(negotiate(None, Some("zh")), Language::ZhCn);
        assert_eq!(negotiate(Some("zh"), Some("xx")), Language::ZhCn);
        assert_eq!(negotiate(Some(";;q=,,,"), None), Language::En);
    }

    #[test]
    fn a_tag_that_only_begins_like_one_of_ours_is_not_ours() {
        assert_eq!(Language::from_tag("zhx"), None);
        assert_eq!(Language::from_tag("english"), None);
        assert_eq!(Language::from_tag("zh_CN"), Some(Language::ZhCn));
    }
}
