//! Text and cells of a file that a spreadsheet program wrote, whatever its encoding and delimiter.

use csv::ReaderBuilder;
use encoding_rs::{Encoding, GB18030, UTF_8};

use super::table::NoTable;

/// Rows that are shown before anything is stored.
const SHOWN: usize = 5;
/// Columns of a file that is looked at.
const COLUMNS_MAX: usize = 100;

/// A file that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spreadsheet {
    /// All of it in UTF-8, with commas, on the same lines.
    pub text: String,
    /// Names of its columns.
    pub header: Vec<String>,
    /// Its first rows.
    pub rows: Vec<Vec<String>>,
}

/// Looks at a file.
///
/// # Errors
/// [`NoTable`] when it has no header, or no text.
pub fn look(bytes: &[u8]) -> Result<Spreadsheet, NoTable> {
    let text = decode(bytes)?;
    let text = match delimiter(&text) {
        b',' => text,
        mark => with_commas(&text, mark)?,
    };
    let mut reader =
        ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(text.as_bytes());
    let cells = |record: &csv::StringRecord| -> Vec<String> {
        record.iter().take(COLUMNS_MAX).map(str::to_owned).collect()
    };
    let header = cells(reader.headers().map_err(|_| NoTable::Csv { line: 1 })?);
    if header.iter().all(String::is_empty) {
        return Err(NoTable::Empty);
    }
    let rows = reader.records().take(SHOWN).filter_map(Result::ok);
    let rows = rows.map(|record| cells(&record)).collect();
    Ok(Spreadsheet { header, rows, text })
}

/// The mark that parts most cells of the first line.
pub(super) fn delimiter(text: &str) -> u8 {
    let first = text.lines().next().unwrap_or_default();
    let marks = [b',', b';', b'\t'];
    let count = |mark: &u8| first.bytes().filter(|byte| byte == mark).count();
    marks.into_iter().rev().max_by_key(count).unwrap_or(b',')
}

/// The same rows on the same lines, so that what is wrong is named by the line of the file.
fn with_commas(text: &str, mark: u8) -> Result<String, NoTable> {
    let mut reader = ReaderBuilder::new()
        .delimiter(mark)
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut out = Vec::new();
    let mut at = 1;
    for record in reader.records() {
        let line = |error: &csv::Error| error.position().map_or(1, csv::Position::line);
        let record = record.map_err(|error| NoTable::Csv { line: line(&error) })?;
        let wanted = record.position().map_or(at, |place| place.line() + blank_lines(text, place));
        while at < wanted {
            out.push(b'\n');
            at += 1;
        }
        let mut writer = csv::Writer::from_writer(Vec::new());
        let written = writer.write_record(&record).map_err(|_| NoTable::Csv { line: wanted });
        written?;
        let bytes = writer.into_inner().map_err(|_| NoTable::Csv { line: wanted })?;
        at += bytes.iter().fold(0, |lines, byte| lines + u64::from(*byte == b'\n'));
        out.extend(bytes);
    }
    String::from_utf8(out).map_err(|_| NoTable::Encoding)
}

/// Empty lines at this place: the reader passes over them, and gives a row the place before them.
fn blank_lines(text: &str, place: &csv::Position) -> u64 {
    let from = usize::try_from(place.byte()).unwrap_or(usize::MAX);
    let rest = text.as_bytes().get(from..).unwrap_or_default();
    let blank = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
    blank.fold(0, |lines, byte| lines + u64::from(*byte == b'\n'))
}

/// UTF-8 and UTF-16 by their marks, UTF-8 where it is, else what spreadsheet programs write in
/// Chinese.
pub(super) fn decode(bytes: &[u8]) -> Result<String, NoTable> {
    let (encoding, skipped) = Encoding::for_bom(bytes).unwrap_or((UTF_8, 0));
    let text = bytes.get(skipped..).unwrap_or_default();
    let decoded = encoding.decode_without_bom_handling_and_without_replacement(text);
    let decoded = decoded.or_else(|| {
        (skipped == 0).then(|| GB18030.decode_without_bom_handling_and_without_replacement(text))?
    });
    decoded.map(std::borrow::Cow::into_owned).ok_or(NoTable::Encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stay_on_their_lines_whatever_parts_their_cells() {
        let sheet = look(b"a;b\n\n1;\"x,\ny\"\n2;z\n").unwrap();
        assert_eq!(sheet.header, ["a", "b"]);
        assert_eq!(sheet.text, "a,b\n\n1,\"x,\ny\"\n2,z\n");
        assert_eq!(sheet.rows, [["1", "x,\ny"], ["2", "z"]]);
        let (gb, _, _) = GB18030.encode("开始,金额\n1,2\n");
        assert_eq!(look(&gb).unwrap().header, ["开始", "金额"]);
        assert_eq!(look(b"\n\n"), Err(NoTable::Empty));
    }
}
