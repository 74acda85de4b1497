//! Why a line of a log is not recorded, in words.
//!
//! The match is exhaustive: a new kind in core needs its words here. Text of the log is shown
//! behind the words, as code; only names that are short and of known characters stand in them.

use leasewatch_core::log_fault::{LineFault, LogNotice};
use leasewatch_core::time::Timestamp;

use crate::context::Context;
use crate::format::{self, Detail, Quantity};
use crate::i18n::{Language, Text, phrase};

/// What is wrong, in a sentence; it ends with a colon when [`evidence`] follows.
pub(super) fn words(fault: &LineFault, cx: &Context) -> String {
    let language = cx.language;
    let plain = |text: Text| text.words(language).to_owned();
    let moment = |at: &Timestamp| format::moment(*at, cx.zone, language, Detail::Second);
    let notice = |notice: &LogNotice| notice_words(notice, language);
    match fault {
        LineFault::NotText { .. } => plain(Text::LineFaultNotText),
        LineFault::Columns { .. } => plain(Text::ImportWrongColumns),
        LineFault::NoHeader { .. } => plain(Text::LineFaultNoHeader),
        LineFault::MaybeCut { .. } => plain(Text::LineFaultMaybeCut),
        LineFault::CellCount { got, want, .. } => {
            phrase::line_fault_cell_count(language, count(*got, language), count(*want, language))
        }
        LineFault::QuoteNotClosed => plain(Text::LineFaultQuoteNotClosed),
        LineFault::BehindQuote { .. } => plain(Text::LineFaultBehindQuote),
        LineFault::NotATime { .. } => plain(Text::LineFaultNotATime),
        LineFault::NotAUtilization { .. } => plain(Text::LineFaultNotAUtilization),
        LineFault::NotAReading { column: name, .. } | LineFault::NotAValue { key: name, .. } => {
            phrase::line_fault_not_a_value(language, name)
        }
        LineFault::Impossible { .. } => plain(Text::LineFaultImpossible),
        LineFault::RowWithoutTime => plain(Text::LineFaultRowWithoutTime),
        LineFault::ClockNotSet { at, credible } => {
            let (from, to) = (moment(&credible.start), moment(&credible.end));
            phrase::line_fault_clock_not_set(language, moment(at), from, to)
        }
        LineFault::TooManyGpus { most } => {
            phrase::line_fault_too_many_gpus(language, count(*most, language))
        }
        LineFault::GpuName { .. } => plain(Text::LineFaultGpuName),
        LineFault::RepeatedHour { zone, at } => {
            phrase::line_fault_repeated_hour(language, moment(at), zone.name())
        }
        LineFault::OutOfOrder { at } => phrase::line_fault_out_of_order(language, moment(at)),
        LineFault::PlaceTaken { gpu, place, owner } => {
            phrase::line_fault_place_taken(language, gpu, owner, place)
        }
        LineFault::NoticeBeforeRows { notice: said } => {
            phrase::line_fault_notice_before_rows(language, notice(said))
        }
        LineFault::NoticeBehindUnread { notice: said } => {
            phrase::line_fault_notice_behind_unread(language, notice(said))
        }
        LineFault::NoticesTooMany { notice: said, most } => {
            phrase::line_fault_notices_too_many(language, count(*most, language), notice(said))
        }
        LineFault::NoticeOfNoGpu { notice: said } => {
            phrase::line_fault_notice_of_no_gpu(language, notice(said))
        }
        LineFault::SnapshotCut => plain(Text::LineFaultSnapshotCut),
        LineFault::XmlBroken { .. } => plain(Text::LineFaultXmlBroken),
        LineFault::XmlTooDeep => plain(Text::LineFaultXmlTooDeep),
        LineFault::SnapshotShort { says, lists } => {
            let (says, lists) = (count(*says, language), count(*lists, language));
            phrase::line_fault_snapshot_short(language, lists, says)
        }
        LineFault::SnapshotWithoutTime => plain(Text::LineFaultSnapshotWithoutTime),
        LineFault::NoJsonObject { .. } => plain(Text::LineFaultNoJsonObject),
        LineFault::NoJson { byte, .. } => {
            phrase::line_fault_no_json(language, count(*byte, language))
        }
        LineFault::ObjectWithoutTime => plain(Text::LineFaultObjectWithoutTime),
        LineFault::NoUtilization => plain(Text::LineFaultNoUtilization),
    }
}

fn notice_words(notice: &LogNotice, language: Language) -> String {
    match notice {
        LogNotice::GpuLost { place } => phrase::line_fault_said_gpu_lost(language, place),
        LogNotice::NeedsReset { gpu } => phrase::line_fault_said_needs_reset(language, gpu),
        LogNotice::NoGpu => Text::LineFaultSaidNoGpu.words(language).to_owned(),
        LogNotice::DriverAway => Text::LineFaultSaidDriverAway.words(language).to_owned(),
    }
}

/// Text of the log, or of a parser, which has no translation.
pub(super) fn evidence(fault: &LineFault) -> Option<String> {
    match fault {
        LineFault::NotText { text }
        | LineFault::Columns { found: text }
        | LineFault::NoHeader { text }
        | LineFault::MaybeCut { text }
        | LineFault::CellCount { text, .. }
        | LineFault::BehindQuote { text }
        | LineFault::NotATime { text }
        | LineFault::NotAUtilization { text }
        | LineFault::NotAReading { text, .. }
        | LineFault::NotAValue { text, .. }
        | LineFault::GpuName { text, .. }
        | LineFault::XmlBroken { said: text }
        | LineFault::NoJsonObject { text }
        | LineFault::NoJson { text, .. } => Some(text.to_string()),
        LineFault::Impossible { metric, number } => Some(format!("{metric}: {number}")),
        LineFault::QuoteNotClosed
        | LineFault::RowWithoutTime
        | LineFault::ClockNotSet { .. }
        | LineFault::TooManyGpus { .. }
        | LineFault::RepeatedHour { .. }
        | LineFault::OutOfOrder { .. }
        | LineFault::PlaceTaken { .. }
        | LineFault::NoticeBeforeRows { .. }
        | LineFault::NoticeBehindUnread { .. }
        | LineFault::NoticesTooMany { .. }
        | LineFault::NoticeOfNoGpu { .. }
        | LineFault::SnapshotCut
        | LineFault::XmlTooDeep
        | LineFault::SnapshotShort { .. }
        | LineFault::SnapshotWithoutTime
        | LineFault::ObjectWithoutTime
        | LineFault::NoUtilization => None,
    }
}

fn count(count: usize, language: Language) -> String {
    Quantity::count(i64::try_from(count).unwrap_or(i64::MAX)).text(language)
}
