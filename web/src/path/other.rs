//! The same page another way, and another page the same way.

use super::range::RangeState;
use super::{Address, Route, UrlState};
use crate::i18n::Language;

impl Address {
    /// Parameters that a form over `fields`, separated by spaces, has to keep, as hidden inputs.
    #[must_use]
    pub fn kept(&self, fields: &str) -> Vec<(&'static str, String)> {
        let mut pairs = self.state.pairs();
        pairs.retain(|(name, _)| fields.split(' ').all(|field| field != *name));
        pairs
    }

    /// The same page in another language.
    #[must_use]
    pub fn in_language(&self, language: Language) -> Self {
        let state = UrlState { language: Some(language), ..self.state.clone() };
        Self { route: self.route.clone(), state }
    }

    /// The same page over another week; `None` for the current one.
    #[must_use]
    pub fn in_week(&self, week: Option<String>) -> Self {
        let state = UrlState { week, ..self.state.clone() };
        Self { route: self.route.clone(), state }
    }

    /// The same page over another range.
    #[must_use]
    pub fn in_range(&self, range: RangeState) -> Self {
        let state = UrlState { range, ..self.state.clone() };
        Self { route: self.route.clone(), state }
    }

    /// The same table, sorted by another column.
    #[must_use]
    pub fn sorted(&self, sort: &str) -> Self {
        let state = UrlState { sort: Some(sort.to_owned()), ..self.state.clone() };
        Self { route: self.route.clone(), state }
    }

    /// The same page with or without refreshing itself.
    #[must_use]
    pub fn paused(&self, paused: bool) -> Self {
        let state = UrlState { paused, ..self.state.clone() };
        Self { route: self.route.clone(), state }
    }

    /// Another page with the same language and zone.
    #[must_use]
    pub fn to(&self, route: Route) -> Self {
        let UrlState { language, zone, paused, .. } = self.state;
        Self { route, state: UrlState { language, zone, paused, ..UrlState::default() } }
    }
}
