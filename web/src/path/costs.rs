//! What the page of costs shows, as its URL says it: `month=2026-10&group=label:team&what_if=70`.

use super::{Address, QueryError, pattern, with_query};

/// By what costs are grouped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CostGroup {
    /// By lease.
    #[default]
    Lease,
    /// By tenant.
    Tenant,
    /// By model, as it is sold.
    Model,
    /// By day of the page's zone.
    Day,
    /// By the value of the label with this name.
    Label(String),
}

impl CostGroup {
    /// Those that need no name, in the order of the form.
    pub const PLAIN: [Self; 4] = [Self::Lease, Self::Tenant, Self::Model, Self::Day];

    /// Its name in the URL.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Lease => "lease".to_owned(),
            Self::Tenant => "tenant".to_owned(),
            Self::Model => "model".to_owned(),
            Self::Day => "day".to_owned(),
            Self::Label(name) => format!("label:{name}"),
        }
    }

    /// The group with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        if let Some(label) = name.strip_prefix("label:") {
            let fits = (1..=60).contains(&label.chars().count());
            return fits.then(|| Self::Label(label.to_owned()));
        }
        Self::PLAIN.into_iter().find(|group| group.name() == name)
    }
}

/// The part of a URL that is about costs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CostsState {
    /// The month, if chosen; else the one that runs.
    pub month: Option<(i32, u32)>,
    /// By what costs are grouped.
    pub group: CostGroup,
    /// The utilization that is asked about, in percent from 1 to 100.
    pub what_if_pct: Option<u8>,
}

impl CostsState {
    /// Takes a parameter of this name.
    pub(super) fn read(&mut self, name: &str, value: &str) -> Result<(), QueryError> {
        match name {
            "month" => self.month = Some(month(value).ok_or(QueryError::Month)?),
            "group" => self.group = CostGroup::from_name(value).ok_or(QueryError::Group)?,
            _ => {
                let percent = value.parse().ok().filter(|pct| (1..=100).contains(pct));
                self.what_if_pct = Some(percent.ok_or(QueryError::WhatIf)?);
            }
        }
        Ok(())
    }

    pub(super) fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        pairs.extend(self.month.map(|month| ("month", month_text(month))));
        if self.group != CostGroup::default() {
            pairs.push(("group", self.group.name()));
        }
        pairs.extend(self.what_if_pct.map(|pct| ("what_if", pct.to_string())));
        pairs
    }
}

impl Address {
    /// The page of costs as CSV.
    #[must_use]
    pub fn costs_csv(&self) -> String {
        with_query(pattern::COSTS_CSV.to_owned(), &self.state.pairs())
    }
}

/// `2026-10`.
#[must_use]
pub fn month_text((year, month): (i32, u32)) -> String {
    format!("{year:04}-{month:02}")
}

fn month(text: &str) -> Option<(i32, u32)> {
    let (year, month) = text.split_once('-')?;
    let digits =
        |text: &str, count| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(year, 4) || !digits(month, 2) {
        return None;
    }
    let (year, month) = (year.parse().ok()?, month.parse().ok()?);
    ((2000..2200).contains(&year) && (1..=12).contains(&month)).then_some((year, month))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_survives_its_url_and_nonsense_is_refused() {
        let mut state = CostsState::default();
        let given = [("month", "2026-10"), ("group", "label:团队"), ("what_if", "70")];
        for (name, value) in given {
            assert_eq!(state.read(name, value), Ok(()));
        }
        assert_eq!(state.pairs(), given.map(|(name, value)| (name, value.to_owned())));
        let wrong = [
            ("month", "2026-13"),
            ("month", "26-1"),
            ("group", "colour"),
            ("group", "label:"),
            ("what_if", "0"),
            ("what_if", "101"),
        ];
        for (name, value) in wrong {
            assert!(state.read(name, value).is_err(), "{value}");
        }
    }
}
