//! The shape of a profile's file: tables and fields, with where they stand.
//!
//! Only shape: which names there are and of which type. What the texts mean is read in `read`.

use serde::Deserialize;
use toml::Spanned;

/// A text, and where it stands.
pub(super) type Text = Spanned<String>;
/// An integer, and where it stands.
pub(super) type Int = Spanned<i64>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProfileFile {
    pub(super) schema: Int,
    pub(super) id: Text,
    pub(super) version: Int,
    pub(super) provider: Text,
    pub(super) product: Text,
    pub(super) effective_from: Option<Text>,
    pub(super) effective_to: Option<Text>,
    pub(super) reviewed: Spanned<bool>,
    pub(super) reviewed_by: Option<Text>,
    #[serde(default)]
    pub(super) notes: Vec<Text>,
    pub(super) source: SourceFile,
    pub(super) notice: Option<NoticeFile>,
    pub(super) claim: ClaimFile,
    #[serde(default)]
    pub(super) support: SupportFile,
    #[serde(default)]
    pub(super) exclusion: Vec<ExclusionFile>,
    pub(super) objective: Vec<Spanned<ObjectiveFile>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceFile {
    pub(super) url: Text,
    pub(super) read_on: Text,
    pub(super) text_sha256: Option<Text>,
    #[serde(default)]
    pub(super) second_hand: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoticeFile {
    pub(super) lead_s: Int,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimFile {
    pub(super) deadline: Text,
    pub(super) days: Option<Int>,
    pub(super) after: Option<Text>,
    pub(super) cycles: Option<Int>,
    pub(super) months: Option<Int>,
    #[serde(default)]
    pub(super) evidence: Vec<Text>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct SupportFile {
    pub(super) response_within_s: Option<Int>,
    pub(super) replacement_within_s: Option<Int>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExclusionFile {
    pub(super) id: Text,
    pub(super) text: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ObjectiveFile {
    pub(super) id: Text,
    pub(super) unit: Text,
    pub(super) needs: Option<Text>,
    pub(super) target: Option<Text>,
    pub(super) denominator: Text,
    pub(super) downtime: DowntimeFile,
    pub(super) window: WindowFile,
    pub(super) credit: Option<Spanned<CreditFile>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DowntimeFile {
    pub(super) predicates: Spanned<Vec<Text>>,
    pub(super) min_consecutive_s: Option<Int>,
    pub(super) partial_slice: Text,
    pub(super) slice_s: Option<Int>,
    pub(super) buffer_s: Option<Int>,
    #[serde(default)]
    pub(super) from_notice: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WindowFile {
    pub(super) kind: Text,
    pub(super) zone: Option<Text>,
    pub(super) days: Option<Int>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CreditFile {
    pub(super) kind: Text,
    #[serde(default)]
    pub(super) tiers: Vec<TierFile>,
    pub(super) factor: Option<Text>,
    pub(super) round_up_s: Option<Int>,
    pub(super) cap_hours: Option<Int>,
    pub(super) base: Option<Text>,
    pub(super) form: Option<Text>,
    pub(super) cap: Option<Text>,
    pub(super) floor: Option<Text>,
    pub(super) minimum: Option<Text>,
    pub(super) digits: Option<Int>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TierFile {
    pub(super) below: Text,
    pub(super) share: Text,
}
