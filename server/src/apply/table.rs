//! CSV tables of leases, billing sessions, own stops and provider's records, as people and providers
//! keep them.
//!
//! Columns are known by their names, in English or Chinese, or by what somebody says they hold. A
//! row that cannot be taken is named by its line, field and reason. A lease that is there already is
//! never changed by a table, which says too little of it.

mod column;

use leasewatch_core::id::{Slug, clean_text};
use leasewatch_core::lease::written::{ProviderRecordEntry, SessionEntry, TenantStopEntry};
use leasewatch_core::lease::{LeaseTerms, SessionSource};
use leasewatch_core::time::Zone;

use super::entered::{self, Entered};
use super::spreadsheet::{decode, delimiter};
use super::{Change, Fault, Run, Verb, Wrong, lease, session, told};
use crate::store::audit::Who;
use crate::store::lease::{self as leases, Written};
use crate::store::{Db, Scope, StoreError, TenantKey};

pub use column::{Mapping, TableKind};

/// Rows of a table.
const ROWS_MAX: usize = 20_000;

/// A row as it was read, or why it was not.
#[derive(Debug, Clone)]
pub struct TableRow {
    line: u64,
    read: Result<Entry, Vec<Wrong>>,
}

#[derive(Debug, Clone)]
enum Entry {
    Lease(Box<LeaseTerms>),
    Session(SessionEntry),
    Stop(TenantStopEntry),
    Record(Box<ProviderRecordEntry>),
}

/// A row that was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRow {
    /// Its line in the file, from 1.
    pub line: u64,
    /// Each field with what is wrong with it.
    pub wrong: Vec<Wrong>,
}

impl RefusedRow {
    /// `gpu_count: must be 1 to 16384; price: is missing`.
    #[must_use]
    pub fn said(&self) -> String {
        let one = |wrong: &Wrong| match wrong.field.as_str() {
            "" => wrong.matter.clone(),
            field => format!("{field}: {}", wrong.matter),
        };
        self.wrong.iter().map(one).collect::<Vec<_>>().join("; ")
    }
}

/// What is kept of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// It is only looked at.
    Nothing,
    /// Everything, or nothing when a row is refused.
    All,
    /// The rows that are right.
    Right,
}

impl Keep {
    /// What `--partial` says.
    #[must_use]
    pub fn of(partial: bool) -> Self {
        if partial { Self::Right } else { Self::All }
    }
}

/// What became of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What was done, or would be, in the order of rows.
    pub changes: Vec<Change>,
    /// Rows that were not taken.
    pub refused: Vec<RefusedRow>,
    /// Whether anything was kept.
    pub is_stored: bool,
}

/// Why a file is no table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoTable {
    /// Neither UTF-8, UTF-16 with its mark, nor GB 18030.
    #[error("the text is neither UTF-8 nor UTF-16 nor GB 18030")]
    Encoding,
    /// A line that is no row.
    #[error("line {line}: is no row of a CSV table")]
    Csv {
        /// From 1.
        line: u64,
    },
    /// Columns that have to be there.
    #[error("no column for {missing}; the file has: {found}")]
    Columns {
        /// Names of fields.
        missing: String,
        /// Names of columns in the file.
        found: String,
    },
    /// A named column is not there.
    #[error("no column {0:?}")]
    NoColumn(String),
    /// More rows than are taken at once.
    #[error("more than {ROWS_MAX} rows")]
    TooLong,
    /// No row below the names.
    #[error("no rows")]
    Empty,
}

/// Reads a table; a semicolon, a tab or a comma parts its cells.
///
/// # Errors
/// [`NoTable`].
pub fn read(bytes: &[u8], mapping: &Mapping) -> Result<Vec<TableRow>, NoTable> {
    let text = decode(bytes)?;
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter(&text))
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let line_of = |error: &csv::Error| error.position().map_or(1, csv::Position::line);
    let header = reader.headers().map_err(|error| NoTable::Csv { line: line_of(&error) })?.clone();
    let columns = mapping.columns(&header)?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| NoTable::Csv { line: line_of(&error) })?;
        if rows.len() >= ROWS_MAX {
            return Err(NoTable::TooLong);
        }
        let cell = |(field, column): &(&'static str, usize)| {
            let text = clean_text(record.get(*column).unwrap_or_default(), 400);
            ((*field).to_owned(), column::value(field, &text))
        };
        let cells = Entered(columns.iter().map(cell).collect());
        let line = record.position().map_or(0, csv::Position::line);
        rows.push(TableRow { line, read: entry(&cells, mapping) });
    }
    if rows.is_empty() { Err(NoTable::Empty) } else { Ok(rows) }
}

fn entry(cells: &Entered, mapping: &Mapping) -> Result<Entry, Vec<Wrong>> {
    match mapping.kind {
        TableKind::Leases => {
            entered::terms(cells, mapping.zone).map(|terms| Entry::Lease(Box::new(terms)))
        }
        TableKind::Sessions => session_entry(cells, mapping.zone).map(Entry::Session),
        TableKind::Stops => {
            let entry = told::typed::stop(&of_lease(cells)?, cells, mapping.zone)?;
            Ok(Entry::Stop(entry))
        }
        TableKind::Records => {
            let entry = told::typed::record(&of_lease(cells)?, cells, mapping.zone)?;
            Ok(Entry::Record(Box::new(entry)))
        }
    }
}

/// The name of the lease that a row is about.
fn of_lease(cells: &Entered) -> Result<Slug, Vec<Wrong>> {
    let wrong = || vec![Wrong::new("lease", "must be the name of a lease")];
    Slug::new(cells.get("lease")).map_err(|_| wrong())
}

fn session_entry(cells: &Entered, zone: Zone) -> Result<SessionEntry, Vec<Wrong>> {
    let mut wrong = Vec::new();
    let lease = of_lease(cells).map_err(|faults| wrong.extend(faults));
    let mut time = |field: &str, needed: bool| {
        let text = cells.get(field);
        let at = entered::moment(text, zone);
        if at.is_none() && (needed || !text.is_empty()) {
            wrong.push(Wrong::new(field, "must be a time such as 2026-08-01 08:00"));
        }
        at
    };
    let (starts_at, ends_at) = (time("starts_at", true), time("ends_at", false));
    match (lease, starts_at) {
        (Ok(lease), Some(starts_at)) if wrong.is_empty() => {
            let source = SessionSource::Csv;
            Ok(SessionEntry { lease, starts_at, ends_at, source, withdrawn: false })
        }
        _ => Err(wrong),
    }
}

/// Stores rows of a tenant.
///
/// # Errors
/// [`StoreError`] of the database; then nothing is stored.
pub async fn store(
    db: &Db,
    tenant: TenantKey,
    rows: Vec<TableRow>,
    (written, keep, who): (Written<'_>, Keep, &Who),
) -> Result<Outcome, StoreError> {
    let mut refused = Vec::new();
    let mut entries = Vec::new();
    for row in rows {
        match row.read {
            Ok(entry) => entries.push((row.line, entry)),
            Err(wrong) => refused.push(RefusedRow { line: row.line, wrong }),
        }
    }
    loop {
        let mut tx = db.begin(Scope::Tenant(tenant)).await?;
        let mut run = Run::new(&mut tx, tenant, written);
        let mut new = Vec::new();
        for (line, entry) in &entries {
            match apply(&mut run, entry).await {
                Ok(()) => {}
                Err(Fault::Wrong(wrong)) => new.push(RefusedRow { line: *line, wrong }),
                Err(Fault::Store(error)) => return Err(error),
            }
        }
        let changes = run.changes;
        // A refused row may have left something behind: the others are done again without it.
        if !new.is_empty() {
            tx.rollback().await?;
            entries.retain(|(line, _)| new.iter().all(|row| row.line != *line));
            refused.extend(new);
            continue;
        }
        let is_stored = match keep {
            Keep::Nothing => false,
            Keep::All => refused.is_empty(),
            Keep::Right => true,
        };
        if is_stored {
            super::note(&mut tx, tenant, (written.at, who), &changes).await?;
            tx.commit().await?
        } else {
            tx.rollback().await?
        }
        refused.sort_by_key(|row| row.line);
        return Ok(Outcome { changes, refused, is_stored });
    }
}

async fn apply(run: &mut Run<'_>, entry: &Entry) -> Result<(), Fault> {
    match entry {
        Entry::Session(entry) => session::apply(run, entry).await,
        Entry::Stop(entry) => told::stop(run, entry).await,
        Entry::Record(entry) => told::record(run, entry).await,
        Entry::Lease(terms) => match leases::by_name(run.tx, run.tenant, &terms.name).await? {
            None => lease::apply(run, terms).await,
            Some(row) if row.terms == **terms => {
                run.did(Verb::Keep, format!("lease {}", terms.name));
                Ok(())
            }
            Some(_) => {
                let matter = "another lease has this name, with other terms";
                Err(Wrong::new("name", matter).into())
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use encoding_rs::GB18030;
    use leasewatch_core::lease::PriceUnit;

    use super::*;

    fn mapping(kind: TableKind, columns: &[&str]) -> Mapping {
        let columns: Vec<_> = columns.iter().map(|text| (*text).to_owned()).collect();
        Mapping::parse(kind, &columns, Zone::parse("Asia/Shanghai").unwrap()).unwrap()
    }

    fn leases(text: &[u8], columns: &[&str]) -> Result<Vec<Result<LeaseTerms, String>>, NoTable> {
        let rows = read(text, &mapping(TableKind::Leases, columns))?;
        let of_row = |row: TableRow| match row.read {
            Ok(Entry::Lease(terms)) => Ok(*terms),
            Ok(_) => Err("no lease".to_owned()),
            Err(wrong) => Err(format!("{}: {}", row.line, RefusedRow { line: 0, wrong }.said())),
        };
        Ok(rows.into_iter().map(of_row).collect())
    }

    const ENGLISH: &str = "Name,Provider,GPU model,GPUs,Start,End,Price,Per,Currency,Note\n\
        h100-a,acme,H100,8,2026-08-01 08:00,,2.49,gpu_hour,USD,x\n\
        h100-b,acme,H100,0,2026-08-01,2026-07-01,2.49,gpu_hour,USD,x\n\
        h100-c,acme,,8,2026-08-01,,2.49,,USD,x\n";
    const CHINESE: &str = "租用单;服务商;GPU型号;卡数;开始时间;单价;计价单位;币种;计费方式\n\
        train-1;acme;H800;8;2026/8/1 08:00;12.5;卡时;CNY;按量\n";

    #[test]
    fn columns_are_known_in_english_and_chinese_and_rows_are_refused_by_line() {
        let rows = leases(ENGLISH.as_bytes(), &[]).unwrap();
        assert_eq!(rows[0].as_ref().unwrap().starts_at.to_string(), "2026-08-01T00:00:00.000Z");
        let gone = "gpu_count: must be 1 to 16384; ends_at: must be after the start";
        assert_eq!(rows[1].clone().unwrap_err(), format!("3: {gone}"));
        assert_eq!(rows[2].clone().unwrap_err(), "4: gpu_model: is missing");
        let utf8 = leases(CHINESE.as_bytes(), &[]).unwrap();
        let terms = utf8[0].as_ref().unwrap();
        assert_eq!((terms.kind.name(), terms.prices[0].unit), ("on_demand", PriceUnit::GpuHour));
        let with_mark = [b"\xef\xbb\xbf", CHINESE.as_bytes()].concat();
        let (gb, _, _) = GB18030.encode(CHINESE);
        for bytes in [with_mark, gb.into_owned()] {
            assert_eq!(leases(&bytes, &[]).unwrap()[0].as_ref().unwrap(), terms);
        }
    }

    #[test]
    fn a_table_that_is_none_says_why() {
        let missing = leases(b"Instance,Provider,GPU,GPUs,Start\n1,2,3,4,5\n", &[]).unwrap_err();
        let said = missing.to_string();
        assert!(said.starts_with("no column for name; the file has: Instance, "), "{said}");
        let mapped = leases(b"Job,Provider,GPU,GPUs,Start\na,p,H100,1,2026-08-01\n", &["name=Job"]);
        assert_eq!(mapped.unwrap()[0].as_ref().unwrap().name.as_str(), "a");
        let wrong = leases(b"Job,Provider,GPU,GPUs,Start\n", &["name=Jobs"]).unwrap_err();
        assert_eq!(wrong, NoTable::NoColumn("Jobs".to_owned()));
        assert_eq!(leases(b"\xff\xff\xff", &[]).unwrap_err(), NoTable::Encoding);
        assert_eq!(
            leases(ENGLISH.lines().next().unwrap().as_bytes(), &[]).unwrap_err(),
            NoTable::Empty
        );
        assert!(Mapping::parse(TableKind::Leases, &["nane=Job".to_owned()], Zone::UTC).is_err());
    }

    #[test]
    fn sessions_have_a_lease_and_times() {
        let text =
            "实例,开机时间,关机时间\ntrain-1,2026-08-01 09:00,2026-08-01 18:00\ntrain-1,,x\n";
        let rows = read(text.as_bytes(), &mapping(TableKind::Sessions, &["lease=实例"])).unwrap();
        assert!(matches!(&rows[0].read, Ok(Entry::Session(of)) if of.ends_at.is_some()));
        let wrong = rows[1].read.clone().unwrap_err();
        assert_eq!(
            wrong.iter().map(|w| w.field.as_str()).collect::<Vec<_>>(),
            ["starts_at", "ends_at"]
        );
    }

    #[test]
    fn stops_and_records_name_each_field_that_is_wrong() {
        let text = "租用单,开始时间,结束时间,类型,原因\n\
            train-1,2026-08-01 09:00,2026-08-01 18:00,维护,升级驱动\ntrain-1,,x,,\n";
        let rows = read(text.as_bytes(), &mapping(TableKind::Stops, &[])).unwrap();
        let Ok(Entry::Stop(stop)) = &rows[0].read else { panic!("{:?}", rows[0]) };
        assert_eq!((stop.kind.as_str(), stop.reason.as_deref()), ("maintenance", Some("升级驱动")));
        assert_eq!(stop.starts_at.to_string(), "2026-08-01T01:00:00.000Z");
        let fields = |row: &TableRow| -> Vec<String> {
            row.read.clone().unwrap_err().into_iter().map(|wrong| wrong.field).collect()
        };
        assert_eq!(fields(&rows[1]), ["starts_at", "ends_at"]);
        let text = "lease,start,end,cause,source,text\n\
            a,2026-08-01,2026-08-02,connectivity,status page,rack offline\n\
            a,2026-08-01,2026-08-02,bad luck,,x\nA b,2026-08-01,2026-08-02,disk,x,x\n";
        let rows = read(text.as_bytes(), &mapping(TableKind::Records, &[])).unwrap();
        assert!(matches!(&rows[0].read, Ok(Entry::Record(of)) if of.source == "status page"));
        assert_eq!(fields(&rows[1]), ["cause", "source"]);
        assert_eq!(fields(&rows[2]), ["lease"]);
    }
}
