//! Which parameter of a query is wrong.

/// A parameter of a query that cannot be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryError {
    /// `lang` is not a language of the interface.
    Language,
    /// `tz` is not an IANA zone.
    Zone,
    /// `week` is not a date.
    Week,
    /// `from` is not a time.
    From,
    /// `to` is not a time.
    To,
    /// `last` is not one of [`Last::ALL`].
    Last,
    /// `month` is no month.
    Month,
    /// `group` is no group of costs.
    Group,
    /// `what_if` is not 1 to 100.
    WhatIf,
    /// `refresh` is not `on` or `off`.
    Refresh,
    /// `action` is no name.
    Action,
}

impl QueryError {
    /// The parameter's name.
    #[must_use]
    pub fn parameter(self) -> &'static str {
        match self {
            Self::Language => "lang",
            Self::Zone => "tz",
            Self::Week => "week",
            Self::From => "from",
            Self::To => "to",
            Self::Last => "last",
            Self::Month => "month",
            Self::Group => "group",
            Self::WhatIf => "what_if",
            Self::Refresh => "refresh",
            Self::Action => "action",
        }
    }
}
