//! Price tables of providers, as people find them, turned into offers.
//!
//! Tables are recognised by their header, wherever their columns stand; any other one is read with
//! column names that a person gave. Rules:
//! 1. What a GPU-hour costs is the price of the instance over its GPUs. A column "per GPU" is not
//!    used: it leaves out what has to be rented with the GPU.
//! 2. A cell that is empty is no price: neither 0 nor free. A price of 0 is refused.
//! 3. Memory is never derived: tables mean all GPUs or each of them, and do not say which.
//! 4. A name becomes a key of the catalogue only where it can mean one product.
//! 5. Every row that is refused is listed with its line and the reason.
//!
//! Not here: exchange rates, and what is done with the offers.

mod columns;
mod gpu_name;

use std::collections::HashSet;

use csv::StringRecord;

use crate::money::{Currency, Money};

pub use columns::{Columns, ColumnsFault, Schema};

/// Most rows of a table.
const ROWS_MAX: usize = 100_000;
/// Longest text of a cell that is kept, in characters.
const TEXT_MAX: usize = 120;
/// Most GPUs of an instance.
const GPUS_MAX: u32 = 1_024;
/// What "per GPU" may differ from the instance's share before it is counted, in 10^-9 units: a
/// cent.
const PER_GPU_SLACK: i128 = 10_000_000;

/// An instance that a provider offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Its line in the file, from 1.
    pub line: u64,
    /// The provider as the table names it; `None` where the table is of one provider.
    pub provider: Option<String>,
    /// The provider's name of the instance.
    pub instance: Option<String>,
    /// The provider's region.
    pub region: Option<String>,
    /// The GPU as the table names it.
    pub gpu_name: String,
    /// The key of the catalogue that it can only mean.
    pub gpu_key: Option<&'static str>,
    /// How many of them.
    pub gpu_count: u32,
    /// The instance for one hour; `None` when it is not offered so.
    pub on_demand: Option<Money>,
    /// The instance for one hour until it is wanted back; `None` when it is not offered so.
    pub spot: Option<Money>,
}

/// Why a row is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowFault {
    /// It has no GPU.
    #[error("no GPU in this row")]
    NoGpu,
    /// The number of GPUs is not a whole number from 1 to 1024.
    #[error("the number of GPUs is not a whole number from 1 to 1024")]
    Count,
    /// No price at all; an empty cell is not free.
    #[error("no price in this row; an empty cell is not free")]
    NoPrice,
    /// A price is not a decimal number.
    #[error("{0} is not a decimal number")]
    Number(&'static str),
    /// A price is 0 or below.
    #[error("{0} is not above 0")]
    NotAboveZero(&'static str),
    /// A cell has control characters or is too long.
    #[error("a text is longer than 120 characters or has control characters")]
    Text,
    /// It is not CSV, or has other cells than the header.
    #[error("the row has other cells than the header")]
    Shape,
}

/// A row that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its line in the file, from 1.
    pub line: u64,
    /// Why.
    pub fault: RowFault,
}

/// What a table holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceTable {
    /// What it was recognised as; `None` when it was read by given names.
    pub schema: Option<Schema>,
    /// Rows below the header.
    pub rows: u64,
    /// What it offers, in the order of the file.
    pub offers: Vec<Offer>,
    /// Rows that say what another row said, cell by cell; they are in no other list.
    pub duplicates: u64,
    /// Rows that were refused.
    pub refused: Vec<Refused>,
    /// Offers whose column "per GPU" is more than a cent off the instance's share.
    pub per_gpu_differs: u64,
}

/// Why a table cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableFault {
    /// There is no header.
    #[error("the file has no header row")]
    NoHeader,
    /// It is none of the known tables, and no names were given.
    #[error("the header is of no known table; name its columns: {0}")]
    Unknown(String),
    /// A given name is not in the header.
    #[error(transparent)]
    Columns(#[from] ColumnsFault),
    /// It has too many rows.
    #[error("a price table has at most 100000 rows")]
    TooLong,
}

impl Offer {
    /// What a GPU costs for an hour of the instance.
    #[must_use]
    pub fn per_gpu_hour(&self) -> Option<Money> {
        self.share_of(self.on_demand?)
    }

    /// The same for a spot instance.
    #[must_use]
    pub fn spot_per_gpu_hour(&self) -> Option<Money> {
        self.share_of(self.spot?)
    }

    fn share_of(&self, price: Money) -> Option<Money> {
        price.times(1, i64::from(self.gpu_count)).ok()
    }
}

/// Reads a table whose prices are in `currency`. `named` are the columns of a table that is not
/// known; they are preferred to recognising it.
///
/// # Errors
/// [`TableFault`] when no row can be read.
pub fn read(
    text: &str,
    currency: Currency,
    named: Option<&Columns>,
) -> Result<PriceTable, TableFault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|_| TableFault::NoHeader)?.clone();
    if header.iter().all(|name| name.trim().is_empty()) {
        return Err(TableFault::NoHeader);
    }
    let (schema, columns) = match named {
        Some(named) => (None, named.clone()),
        None => {
            let unknown = || TableFault::Unknown(columns::listed(&header));
            let schema = Schema::of(&header).ok_or_else(unknown)?;
            (Some(schema), schema.columns())
        }
    };
    let places = columns.places(&header)?;
    let (offers, refused) = (Vec::new(), Vec::new());
    let mut table =
        PriceTable { schema, rows: 0, offers, duplicates: 0, refused, per_gpu_differs: 0 };
    let mut seen: HashSet<Vec<String>> = HashSet::new();
    for record in reader.records() {
        table.rows += 1;
        if seen.len() >= ROWS_MAX {
            return Err(TableFault::TooLong);
        }
        let Ok(record) = record else {
            table.refused.push(Refused { line: table.rows + 1, fault: RowFault::Shape });
            continue;
        };
        let line = record.position().map_or(0, csv::Position::line);
        if !seen.insert(record.iter().map(str::to_owned).collect()) {
            table.duplicates += 1;
            continue;
        }
        let shaped = if record.len() == header.len() { Ok(()) } else { Err(RowFault::Shape) };
        match shaped.and_then(|()| Row { record: &record, places: &places, currency }.offer(line)) {
            Ok((offer, per_gpu)) => {
                let is_off = |per_gpu: Money, share: Money| {
                    per_gpu.nanos.abs_diff(share.nanos) > PER_GPU_SLACK.unsigned_abs()
                };
                let both = per_gpu.zip(offer.per_gpu_hour());
                table.per_gpu_differs += u64::from(both.is_some_and(|(a, b)| is_off(a, b)));
                table.offers.push(offer);
            }
            Err(fault) => table.refused.push(Refused { line, fault }),
        }
    }
    Ok(table)
}

struct Row<'a> {
    record: &'a StringRecord,
    places: &'a columns::Places,
    currency: Currency,
}

impl Row<'_> {
    /// The offer, and what its column "per GPU" says.
    fn offer(&self, line: u64) -> Result<(Offer, Option<Money>), RowFault> {
        let places = self.places;
        let gpu_name = self.text(Some(places.gpu))?.ok_or(RowFault::NoGpu)?;
        let gpu_count = self.count()?;
        let on_demand = self.price(places.on_demand, "the price")?;
        let spot = self.price(places.spot, "the spot price")?;
        if on_demand.is_none() && spot.is_none() {
            return Err(RowFault::NoPrice);
        }
        let details = places.details.and_then(|at| self.record.get(at)).unwrap_or_default();
        let per_gpu = self.price(places.per_gpu, "the price per GPU").ok().flatten();
        let offer = Offer {
            line,
            provider: self.text(places.provider)?,
            instance: self.text(places.instance)?,
            region: self.text(places.region)?,
            gpu_key: gpu_name::key(&gpu_name, details),
            gpu_name,
            gpu_count,
            on_demand,
            spot,
        };
        Ok((offer, per_gpu))
    }

    fn cell(&self, place: Option<usize>) -> Option<&str> {
        let cell = self.record.get(place?)?.trim();
        (!cell.is_empty()).then_some(cell)
    }

    fn text(&self, place: Option<usize>) -> Result<Option<String>, RowFault> {
        let Some(cell) = self.cell(place) else { return Ok(None) };
        let fits = cell.chars().count() <= TEXT_MAX && !cell.chars().any(char::is_control);
        if fits { Ok(Some(cell.to_owned())) } else { Err(RowFault::Text) }
    }

    /// A whole number, also as `8.0`.
    fn count(&self) -> Result<u32, RowFault> {
        let cell = self.cell(Some(self.places.count)).ok_or(RowFault::NoGpu)?;
        let (whole, rest) = cell.split_once('.').unwrap_or((cell, "0"));
        let is_whole = !rest.is_empty() && rest.bytes().all(|digit| digit == b'0');
        let count = whole.parse().ok().filter(|_| is_whole && !whole.starts_with('+'));
        count.filter(|count| (1..=GPUS_MAX).contains(count)).ok_or(RowFault::Count)
    }

    fn price(&self, place: Option<usize>, name: &'static str) -> Result<Option<Money>, RowFault> {
        let Some(cell) = self.cell(place) else { return Ok(None) };
        let price = Money::parse(cell, self.currency).map_err(|_| RowFault::Number(name))?;
        if price.nanos > 0 { Ok(Some(price)) } else { Err(RowFault::NotAboveZero(name)) }
    }
}

#[cfg(test)]
mod tests;
