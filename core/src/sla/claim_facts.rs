//! What a claim is written from, as it was known when it was drafted.
//!
//! A claim says the same for ever: later data, corrected terms or a newer profile change verdicts,
//! and what was sent to the provider stays what it was. So everything that its text needs is kept
//! with it. Not here: the words (`leasewatch_web::claim_text`), and whether it is in time
//! ([`super::claim`]).

use std::fmt;

use serde::{Deserialize, Serialize};

/// Everything that the text of a claim says beside its amount, window and intervals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimFacts {
    /// The provider, as its profile calls it.
    pub provider: String,
    /// What is rented, in the provider's words.
    pub product: String,
    /// The provider's id of the instance.
    pub instance: Option<String>,
    /// Its number of the machine.
    pub machine: Option<String>,
    /// The number of the order.
    pub order: Option<String>,
    /// Where it stands.
    pub region: Option<String>,
    /// The model as sold.
    pub gpu_model: String,
    /// GPUs that are paid for.
    pub gpu_count: u32,
    /// Name of the node that was down; `None` where the whole lease is one.
    pub node: Option<String>,
    /// The GPU's number on it; `None` where the node is one.
    pub gpu: Option<u16>,
    /// IANA name of the zone that the lease is billed in, which is the deadline's.
    pub zone: String,
    /// The least trustworthy source of what it rests on: `measured`, `simulated` or `imported`.
    pub origin: String,
    /// What was promised, in ppm; `None` where single outages are paid for.
    pub target_ppm: Option<i64>,
    /// Whether the window was over.
    pub is_over: bool,
    /// What downtime is divided by, in ms.
    pub whole_ms: i64,
    /// Downtime as the contract counts it, by what is proven, in ms.
    pub proven_ms: i64,
    /// Time of which the state is not known, in ms.
    pub unknown_ms: i64,
    /// Proven outages, in order.
    pub outages: Vec<OutageDetail>,
    /// How the amount came about.
    pub credit: CreditDetail,
    /// In what it is given: `money`, `voucher` or `hours`.
    pub form: String,
    /// Where the terms were read, and on which day.
    pub source: (String, String),
    /// Whether a person checked the profile against them.
    pub is_reviewed: bool,
    /// What the terms want to see, in the profile's words.
    pub demands: Vec<String>,
}

/// A proven outage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutageDetail {
    /// As it was: from and to, in ms.
    pub actual: (i64, i64),
    /// What of it counts: from and to, in ms.
    pub counted: (i64, i64),
    /// By which evidence: class and cause.
    pub grounds: Vec<(String, String)>,
}

/// How a credit came about.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreditDetail {
    /// The edge of the tier that availability fell below, in ppm.
    pub below_ppm: Option<i64>,
    /// The tier's share, in ppm.
    pub share_ppm: Option<i64>,
    /// Credited time, in ms.
    pub credited_ms: Option<i64>,
    /// What changed the amount after the formula: cap, floor, minimum.
    pub limits: Vec<String>,
    /// Why no credit could be computed although something is owed.
    pub missing: Option<String>,
    /// The amounts that it was computed from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<UsedAmount>,
}

/// An amount that a credit was computed from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsedAmount {
    /// What it is: a name of [`super::credit::CreditOf`].
    pub of: String,
    /// With its currency: `144.00 USD`.
    pub amount: String,
    /// Who says so: `terms` of the lease, or `bill` of the provider.
    pub source: String,
    /// The time that it is about: from and to, in ms.
    pub window: (i64, i64),
}

/// As derived, but that `used` is not said while it is empty: the hash of a verdict is over this
/// text, and that of a verdict which owes nothing stays what it was before there was the field.
impl fmt::Debug for CreditDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("CreditDetail");
        out.field("below_ppm", &self.below_ppm)
            .field("share_ppm", &self.share_ppm)
            .field("credited_ms", &self.credited_ms)
            .field("limits", &self.limits)
            .field("missing", &self.missing);
        if !self.used.is_empty() {
            out.field("used", &self.used);
        }
        out.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credit_that_names_no_amounts_reads_as_it_did_before_it_could() {
        let plain = CreditDetail { limits: vec!["cap".to_owned()], ..CreditDetail::default() };
        assert_eq!(
            format!("{plain:?}"),
            "CreditDetail { below_ppm: None, share_ppm: None, credited_ms: None, \
             limits: [\"cap\"], missing: None }"
        );
        let used = UsedAmount {
            of: "unit-charge".to_owned(),
            amount: "144.00 USD".to_owned(),
            source: "terms".to_owned(),
            window: (0, 1),
        };
        let said = CreditDetail { used: vec![used], ..plain };
        assert!(format!("{said:?}").contains("144.00 USD"));
    }
}
