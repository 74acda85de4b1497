//! Every reason why a line of a log is not recorded, and every foreign output, in both languages.

use std::collections::BTreeSet;

use super::catalogue::{has_han, longest_run_of_words};
use super::{context, markup};
use leasewatch_core::id::{BusId, GpuUuid};
use leasewatch_core::log_fault::{ForeignOutput, LineFault, LogNotice, LogText};
use leasewatch_core::sample::Metric;
use leasewatch_core::time::{Period, Timestamp, Zone};
use leasewatch_web::Language;
use leasewatch_web::i18n::CATALOGUE;
use leasewatch_web::pages::import_run::{
    self, ImportRunView, LineProblem, LineProblems, RunFailure, RunState,
};
use leasewatch_web::path::Route;

/// Where a fault quotes the log.
const QUOTED: &str = "quoted <b>text</b>";

fn of_text() -> Vec<LineFault> {
    let text = || LogText::quote(QUOTED);
    let name = || LogText::quote("memory.used");
    let error = GpuUuid::new(QUOTED).unwrap_err();
    vec![
        LineFault::NotText { text: text() },
        LineFault::Columns { found: text() },
        LineFault::NoHeader { text: text() },
        LineFault::MaybeCut { text: text() },
        LineFault::CellCount { got: 3, want: 7, text: text() },
        LineFault::BehindQuote { text: text() },
        LineFault::NotATime { text: text() },
        LineFault::NotAUtilization { text: text() },
        LineFault::NotAReading { column: name(), metric: Metric::MemoryUsed, text: text() },
        LineFault::NotAValue { key: name(), text: text() },
        LineFault::GpuName { text: text(), error },
        LineFault::XmlBroken { said: text() },
        LineFault::NoJsonObject { text: text() },
        LineFault::NoJson { said: LogText::quote("EOF"), byte: 39, text: text() },
    ]
}

fn of_the_rest() -> Vec<LineFault> {
    let at = Timestamp(1_785_556_780_000);
    let credible = Period::new(Timestamp(0), at);
    let zone = Zone::parse("Europe/Berlin").unwrap();
    let gpu = |name| GpuUuid::new(name).unwrap();
    let place = BusId::new("00000000:07:00.0").unwrap();
    let lost = || LogNotice::GpuLost { place: LogText::quote("0000:07") };
    vec![
        LineFault::QuoteNotClosed,
        LineFault::Impossible { metric: Metric::PowerDraw, number: 42_949_672_950 },
        LineFault::RowWithoutTime,
        LineFault::ClockNotSet { at, credible },
        LineFault::TooManyGpus { most: 32 },
        LineFault::RepeatedHour { zone, at },
        LineFault::OutOfOrder { at },
        LineFault::PlaceTaken { gpu: gpu("GPU-1f"), place, owner: gpu("GPU-1e") },
        LineFault::NoticeBeforeRows { notice: LogNotice::NeedsReset { gpu: gpu("GPU-1f") } },
        LineFault::NoticeBehindUnread { notice: LogNotice::NoGpu },
        LineFault::NoticesTooMany { notice: LogNotice::DriverAway, most: 500 },
        LineFault::NoticeOfNoGpu { notice: lost() },
        LineFault::SnapshotCut,
        LineFault::XmlTooDeep,
        LineFault::SnapshotShort { says: 4, lists: 1 },
        LineFault::SnapshotWithoutTime,
        LineFault::ObjectWithoutTime,
        LineFault::NoUtilization,
    ]
}

fn page(state: RunState, language: Language) -> String {
    let view = ImportRunView { state, ..ImportRunView::sample() };
    let context = context(language, Route::ImportRun(view.id.clone()));
    let html = import_run::render(&view, &context).unwrap();
    markup::check("import_run", &html);
    html
}

/// The cell that says why, as HTML.
fn reason(fault: &LineFault, language: Language) -> String {
    let first = vec![LineProblem { line: 5, fault: fault.clone() }];
    let html =
        page(RunState::Failed(RunFailure::Strict(LineProblems { first, count: 1 })), language);
    let (_, rest) = html.rsplit_once("<td role=\"cell\">").unwrap();
    rest.split_once("</td>").unwrap().0.to_owned()
}

/// The keys of a table whose words stand in one of the texts.
fn keys_found(table: &str, language: Language, texts: &[String]) -> BTreeSet<&'static str> {
    let is_found = |words: &str| {
        let parts = || words.split(['{', '}']).step_by(2);
        texts.iter().any(|text| parts().all(|part| text.contains(part)))
    };
    let of_table = CATALOGUE.iter().filter(|(key, ..)| key.starts_with(table));
    let words = |en, zh| if language == Language::En { en } else { zh };
    of_table.filter(|(_, en, zh)| is_found(words(*en, *zh))).map(|(key, ..)| *key).collect()
}

fn keys(table: &str) -> BTreeSet<&'static str> {
    CATALOGUE.iter().map(|(key, ..)| *key).filter(|key| key.starts_with(table)).collect()
}

#[test]
fn every_reason_is_said_in_both_languages_and_quotes_the_log_as_code() {
    let faults = [of_text(), of_the_rest()].concat();
    let names: BTreeSet<_> = faults.iter().map(LineFault::name).collect();
    assert_eq!(names.len(), faults.len(), "each kind has a name of its own");
    for language in Language::ALL {
        let cells: Vec<_> = faults.iter().map(|fault| reason(fault, language)).collect();
        for (fault, cell) in faults.iter().zip(&cells) {
            let said = cell.split(" <code>").next().unwrap();
            assert_eq!(has_han(said), language == Language::ZhCn, "{}: {said}", fault.name());
            let colon = if language == Language::En { ":" } else { "：" };
            assert_eq!(said.ends_with(colon), cell.contains("<code>"), "{cell}");
            let run = longest_run_of_words(said);
            assert!(language == Language::En || run < 3, "{}: {said}", fault.name());
        }
        let quoting =
            cells.iter().filter(|c| c.contains("<code>quoted &#60;b&#62;text&#60;/b&#62;</code>"));
        assert_eq!(quoting.count(), of_text().len(), "{language:?}");
        assert_eq!(keys_found("line_fault.", language, &cells), keys("line_fault."));
    }
}

#[test]
fn every_foreign_output_is_named_in_both_languages() {
    let foreign = [
        ForeignOutput::Json,
        ForeignOutput::Xml,
        ForeignOutput::NotJson,
        ForeignOutput::Prometheus,
        ForeignOutput::Pmon,
        ForeignOutput::Dmon,
        ForeignOutput::FullText,
        ForeignOutput::Table,
        ForeignOutput::List,
        ForeignOutput::ComputeApps,
    ];
    for language in Language::ALL {
        let pages = foreign.map(|found| {
            let instead = "nvidia-smi -q -x".to_owned();
            page(RunState::Failed(RunFailure::OtherTool { found, instead }), language)
        });
        assert_eq!(keys_found("foreign_output.", language, &pages), keys("foreign_output."));
    }
}

#[test]
fn json_names_the_kind_and_says_what_the_command_line_says() {
    let fault = LineFault::CellCount { got: 1, want: 7, text: LogText::quote("+--+") };
    let json = serde_json::to_value(LineProblem { line: 704, fault }).unwrap();
    let expected = serde_json::json!({
        "line": 704, "fault": "cell_count", "what": "1 cells where the header has 7: +--+"
    });
    assert_eq!(json, expected);
}
