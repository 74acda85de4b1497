//! What can be known of a provider without measuring it: closed kinds, each with one type of value.
//!
//! A fact is dated and has a source. Not here: what was measured of it, and how long tickets took.

/// What a fact is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FactKind {
    /// The company behind the name. Text.
    LegalName,
    /// A licence to run data centres or sell cloud services, with its number. Text.
    Licence,
    /// A certificate such as ISO 27001. Text.
    Certificate,
    /// The rooms are its own; else it resells.
    OwnRooms,
    /// The finest step of its panel's charts, in seconds.
    PanelGranularity,
    /// It hands out hourly history.
    HourlyHistory,
    /// There is access past the operating system: IPMI, Redfish, a serial console.
    OutOfBand,
    /// It shows network curves.
    NetworkCurves,
    /// It promises another card or machine within so many hours.
    Replacement,
    /// DCGM and its exporter can be run on its nodes.
    DcgmCompatible,
}

/// The value of a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactValue {
    /// Words: 1 to 200 characters without control characters.
    Text(String),
    /// Yes or no.
    Bool(bool),
    /// A number in the unit of its kind, 0 or above.
    Int(i64),
}

/// Which type of value a kind has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactType {
    /// Words.
    Text,
    /// Yes or no.
    Bool,
    /// A number.
    Int,
}

impl FactKind {
    /// Every kind, in the order of forms.
    pub const ALL: [Self; 10] = [
        Self::LegalName,
        Self::Licence,
        Self::Certificate,
        Self::OwnRooms,
        Self::PanelGranularity,
        Self::HourlyHistory,
        Self::OutOfBand,
        Self::NetworkCurves,
        Self::Replacement,
        Self::DcgmCompatible,
    ];

    /// Its name in forms, exports and the database.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LegalName => "legal_name",
            Self::Licence => "licence",
            Self::Certificate => "certificate",
            Self::OwnRooms => "own_rooms",
            Self::PanelGranularity => "panel_granularity_s",
            Self::HourlyHistory => "hourly_history",
            Self::OutOfBand => "out_of_band",
            Self::NetworkCurves => "network_curves",
            Self::Replacement => "replacement_h",
            Self::DcgmCompatible => "dcgm_compatible",
        }
    }

    /// The kind with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The type of its values.
    #[must_use]
    pub fn value_type(self) -> FactType {
        match self {
            Self::LegalName | Self::Licence | Self::Certificate => FactType::Text,
            Self::PanelGranularity | Self::Replacement => FactType::Int,
            Self::OwnRooms
            | Self::HourlyHistory
            | Self::OutOfBand
            | Self::NetworkCurves
            | Self::DcgmCompatible => FactType::Bool,
        }
    }

    /// A value as a person typed it: words, `yes` or `no`, a whole number.
    #[must_use]
    pub fn value(self, text: &str) -> Option<FactValue> {
        let text = text.trim();
        match self.value_type() {
            FactType::Text => {
                let fits = (1..=200).contains(&text.chars().count());
                let clean = fits && !text.chars().any(char::is_control);
                clean.then(|| FactValue::Text(text.to_owned()))
            }
            FactType::Bool => match text {
                "yes" => Some(FactValue::Bool(true)),
                "no" => Some(FactValue::Bool(false)),
                _ => None,
            },
            FactType::Int => {
                let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
                digits.then(|| text.parse().ok().map(FactValue::Int))?
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_come_back() {
        for kind in FactKind::ALL {
            assert_eq!(FactKind::from_name(kind.name()), Some(kind));
        }
    }

    #[test]
    fn a_value_is_of_its_kinds_type() {
        let value = |kind: FactKind, text| kind.value(text);
        assert_eq!(value(FactKind::OwnRooms, "yes"), Some(FactValue::Bool(true)));
        assert_eq!(value(FactKind::OwnRooms, "1"), None);
        assert_eq!(value(FactKind::Replacement, " 4 "), Some(FactValue::Int(4)));
        assert_eq!(value(FactKind::Replacement, "-4"), None);
        assert_eq!(value(FactKind::Replacement, ""), None);
        let name = Some(FactValue::Text("某某科技有限公司".to_owned()));
        assert_eq!(value(FactKind::LegalName, "某某科技有限公司"), name);
        assert_eq!(value(FactKind::LegalName, "a\u{7}"), None);
        assert_eq!(value(FactKind::LegalName, "  "), None);
    }
}
