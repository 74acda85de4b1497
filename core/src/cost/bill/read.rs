//! A bill's rows by the names of its columns.

use csv::StringRecord;

use crate::id::clean_text;
use crate::money::{Currency, Money, MoneyError};
use crate::time::{Period, Zone};

use super::date::{self, DateOrder};

/// Most lines of a bill.
const LINES_MAX: usize = 100_000;
/// Longest text of a cell that is kept, in characters.
const TEXT_MAX: usize = 200;

/// What a quantity counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuantityUnit {
    /// Hours of one GPU.
    GpuHour,
    /// Hours of the instance, all its GPUs together.
    Hour,
    /// Seconds of the instance.
    Second,
    /// Days of the instance, of 24 hours.
    Day,
    /// Billing months of the lease.
    Month,
    /// Something that is no time: gigabytes, addresses.
    Other,
}

/// How much of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity {
    /// In 10^-9 of the unit.
    pub nanos: i128,
    /// The unit.
    pub unit: QuantityUnit,
}

/// A line of a bill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BillLine {
    /// Its line in the file, from 1.
    pub line: u64,
    /// What it bills: the name of a lease, an instance's id, an order's number.
    pub key: String,
    /// For when.
    pub period: Period,
    /// How much of it; `None` when the bill does not say.
    pub quantity: Option<Quantity>,
    /// The price of one unit; `None` when the bill does not say.
    pub rate: Option<Money>,
    /// What is to be paid.
    pub amount: Money,
}

/// Names of a bill's columns, and how its cells are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BillColumns {
    /// When a line begins.
    pub starts: String,
    /// When it ends; `None`: where it begins, a day.
    pub ends: Option<String>,
    /// What is billed.
    pub key: String,
    /// How much of it.
    pub quantity: Option<String>,
    /// In which unit.
    pub unit: Option<String>,
    /// The price of one.
    pub rate: Option<String>,
    /// What is to be paid.
    pub amount: String,
    /// The currency; `None`: that of `currency_else`.
    pub currency: Option<String>,
    /// The currency where the bill does not say.
    pub currency_else: Currency,
    /// The unit where the bill does not say.
    pub unit_else: QuantityUnit,
    /// The zone of its dates.
    pub zone: Zone,
    /// The order of its dates.
    pub dates: DateOrder,
}

/// Why a line is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BillRowFault {
    /// Its date is none in the declared order, or its end is before its start.
    #[error("the date is none in the declared order, or the end is before the start")]
    Date,
    /// It names nothing.
    #[error("the line does not say what it bills")]
    Key,
    /// It has no amount.
    #[error("the amount is not a decimal number")]
    Amount,
    /// The quantity or the rate is no number.
    #[error("the quantity or the rate is not a decimal number")]
    Number,
    /// The currency is not three capital letters.
    #[error("the currency is not three letters A-Z")]
    Currency,
    /// A text is too long or has control characters.
    #[error("a text is longer than 200 characters or has control characters")]
    Text,
    /// It has other cells than the header.
    #[error("the line has other cells than the header")]
    Shape,
}

/// A line that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedLine {
    /// Its line in the file, from 1.
    pub line: u64,
    /// Why.
    pub fault: BillRowFault,
    /// The column with the cell that is wrong; `None` when it is the line as a whole.
    pub column: Option<String>,
}

/// A bill as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadBill {
    /// Its lines, in the order of the file.
    pub lines: Vec<BillLine>,
    /// Lines that were refused; a comparison without them is not whole.
    pub refused: Vec<RefusedLine>,
}

/// Why a bill cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BillFault {
    /// There is no header.
    #[error("the file has no header row")]
    NoHeader,
    /// A named column is not there.
    #[error("the bill has no column `{name}`; it has {header}")]
    NoColumn {
        /// The name.
        name: String,
        /// Those that are there.
        header: String,
    },
    /// It has too many lines.
    #[error("a bill has at most 100000 lines")]
    TooLong,
}

impl BillRowFault {
    /// Every fault.
    pub const ALL: [Self; 7] = [
        Self::Date,
        Self::Key,
        Self::Amount,
        Self::Number,
        Self::Currency,
        Self::Text,
        Self::Shape,
    ];

    /// Its name in the database.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Date => "date",
            Self::Key => "key",
            Self::Amount => "amount",
            Self::Number => "number",
            Self::Currency => "currency",
            Self::Text => "text",
            Self::Shape => "shape",
        }
    }

    /// The fault with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }
}

impl QuantityUnit {
    /// Every unit.
    pub const ALL: [Self; 6] =
        [Self::GpuHour, Self::Hour, Self::Second, Self::Day, Self::Month, Self::Other];

    /// Its name in forms and the database.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::GpuHour => "gpu_hour",
            Self::Hour => "hour",
            Self::Second => "second",
            Self::Day => "day",
            Self::Month => "month",
            Self::Other => "other",
        }
    }

    /// The unit with this name, or as bills write it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let plain: String =
            name.trim().to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect();
        match plain.as_str() {
            "gpuhour" | "gpuhours" | "gpuh" | "gpuhrs" | "gpuhr" | "卡时" => Some(Self::GpuHour),
            "hour" | "hours" | "h" | "hr" | "hrs" | "instancehour" | "instancehours" | "小时"
            | "时" => Some(Self::Hour),
            "second" | "seconds" | "s" | "sec" | "秒" => Some(Self::Second),
            "day" | "days" | "d" | "天" | "日" => Some(Self::Day),
            "month" | "months" | "mo" | "月" | "个月" => Some(Self::Month),
            "other" => Some(Self::Other),
            _ => None,
        }
    }
}

/// Reads a bill.
///
/// # Errors
/// [`BillFault`] when no line can be read.
pub fn read(text: &str, columns: &BillColumns) -> Result<ReadBill, BillFault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|_| BillFault::NoHeader)?.clone();
    if header.iter().all(|name| name.trim().is_empty()) {
        return Err(BillFault::NoHeader);
    }
    let places = Places::of(columns, &header)?;
    let mut bill = ReadBill { lines: Vec::new(), refused: Vec::new() };
    for (index, record) in (2_u64..).zip(reader.records()) {
        if bill.lines.len() + bill.refused.len() >= LINES_MAX {
            return Err(BillFault::TooLong);
        }
        let Ok(record) = record else {
            let fault = BillRowFault::Shape;
            bill.refused.push(RefusedLine { line: index, fault, column: None });
            continue;
        };
        let line = record.position().map_or(index, csv::Position::line);
        let is_shaped = record.len() == header.len();
        let shaped = if is_shaped { Ok(()) } else { Err((BillRowFault::Shape, None)) };
        let row = Row { record: &record, places: &places, columns };
        match shaped.and_then(|()| row.line(line)) {
            Ok(line) => bill.lines.push(line),
            Err((fault, place)) => {
                let name = place.and_then(|place| header.get(place));
                let column = name.map(|name| clean_text(name.trim(), TEXT_MAX));
                bill.refused.push(RefusedLine { line, fault, column });
            }
        }
    }
    Ok(bill)
}

struct Places {
    starts: usize,
    ends: Option<usize>,
    key: usize,
    quantity: Option<usize>,
    unit: Option<usize>,
    rate: Option<usize>,
    amount: usize,
    currency: Option<usize>,
}

impl Places {
    fn of(columns: &BillColumns, header: &StringRecord) -> Result<Self, BillFault> {
        let place = |name: &str| {
            let found = header.iter().position(|cell| cell.trim() == name.trim());
            let names: Vec<&str> = header.iter().map(str::trim).collect();
            let listed = names.join(", ").replace(char::is_control, " ");
            found.ok_or_else(|| BillFault::NoColumn {
                name: name.to_owned(),
                header: listed.chars().take(300).collect(),
            })
        };
        let optional = |name: &Option<String>| name.as_deref().map(place).transpose();
        Ok(Self {
            starts: place(&columns.starts)?,
            ends: optional(&columns.ends)?,
            key: place(&columns.key)?,
            quantity: optional(&columns.quantity)?,
            unit: optional(&columns.unit)?,
            rate: optional(&columns.rate)?,
            amount: place(&columns.amount)?,
            currency: optional(&columns.currency)?,
        })
    }
}

struct Row<'a> {
    record: &'a StringRecord,
    places: &'a Places,
    columns: &'a BillColumns,
}

/// What is wrong with a row, and in which place.
type Wrong = (BillRowFault, Option<usize>);

impl Row<'_> {
    fn line(&self, line: u64) -> Result<BillLine, Wrong> {
        let places = self.places;
        let is_text =
            |cell: &str| cell.chars().count() <= TEXT_MAX && !cell.chars().any(char::is_control);
        if let Some(place) = self.record.iter().position(|cell| !is_text(cell)) {
            return Err((BillRowFault::Text, Some(place)));
        }
        let key = self.cell(Some(places.key)).ok_or((BillRowFault::Key, Some(places.key)))?;
        let currency = match self.cell(places.currency) {
            Some(cell) => cell.parse().map_err(|_| (BillRowFault::Currency, places.currency))?,
            None => self.columns.currency_else,
        };
        let no_amount = (BillRowFault::Amount, Some(places.amount));
        let amount = self.cell(Some(places.amount)).ok_or(no_amount)?;
        let amount = number(amount, currency).map_err(|_| no_amount)?;
        let money = |place| {
            let cell = self.cell(place).map(|cell| number(cell, currency));
            cell.transpose().map_err(|_| (BillRowFault::Number, place))
        };
        let unit = match self.cell(places.unit) {
            // A unit that nobody knows is no time.
            Some(cell) => QuantityUnit::from_name(cell).unwrap_or(QuantityUnit::Other),
            None => self.columns.unit_else,
        };
        let quantity = money(places.quantity)?.map(|value| Quantity { nanos: value.nanos, unit });
        if quantity.is_some_and(|quantity| quantity.nanos < 0) {
            return Err((BillRowFault::Number, places.quantity));
        }
        let rate = money(places.rate)?;
        Ok(BillLine { line, key: key.to_owned(), period: self.period()?, quantity, rate, amount })
    }

    fn period(&self) -> Result<Period, Wrong> {
        let wrong = |place| (BillRowFault::Date, place);
        let places = self.places;
        let start = self.cell(Some(places.starts)).ok_or(wrong(Some(places.starts)))?;
        let end = self.cell(places.ends).unwrap_or(start);
        let (zone, order) = (self.columns.zone, self.columns.dates);
        // A day alone is a period when it is a date at all.
        let is_date = |text: &str| date::is_moment(text, zone, order);
        let place =
            if is_date(start) { places.ends.or(Some(places.starts)) } else { Some(places.starts) };
        date::period(start, end, zone, order).ok_or(wrong(place))
    }

    fn cell(&self, place: Option<usize>) -> Option<&str> {
        let cell = self.record.get(place?)?.trim();
        (!cell.is_empty()).then_some(cell)
    }
}

/// A decimal number, also as `1,234.50`. A comma that is not before three digits is not guessed at.
fn number(cell: &str, currency: Currency) -> Result<Money, MoneyError> {
    let (whole, fraction) = cell.split_once('.').unwrap_or((cell, ""));
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let digits = first.strip_prefix('-').unwrap_or(first);
    let rest: Vec<&str> = groups.collect();
    let is_grouped = (1..=3).contains(&digits.len()) && rest.iter().all(|group| group.len() == 3);
    if rest.is_empty() || !is_grouped {
        return Money::parse(cell, currency);
    }
    let point = if fraction.is_empty() { "" } else { "." };
    Money::parse(&format!("{first}{}{point}{fraction}", rest.concat()), currency)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> BillColumns {
        BillColumns {
            starts: "From".to_owned(),
            ends: Some("To".to_owned()),
            key: "Resource".to_owned(),
            quantity: Some("Qty".to_owned()),
            unit: Some("Unit".to_owned()),
            rate: Some("Rate".to_owned()),
            amount: "Amount".to_owned(),
            currency: None,
            currency_else: "USD".parse().unwrap(),
            unit_else: QuantityUnit::Hour,
            zone: Zone::UTC,
            dates: DateOrder::DayFirst,
        }
    }

    #[test]
    fn lines_are_read_and_what_is_refused_is_listed() {
        let text = "Resource,From,To,Qty,Unit,Rate,Amount\n\
            i-1,01.10.2026,31.10.2026,744,hours,2.50,\"1,860.00\"\n\
            i-1,01.10.2026,31.10.2026,200,GB,0.10,20\n\
            ,01.10.2026,31.10.2026,1,hours,1,1\n\
            i-2,2026,31.10.2026,1,hours,1,1\n\
            i-3,01.10.2026,31.10.2026,1,hours,1,\"1,5\"\n\
            i-4,01.10.2026,31.10.2026,-1,hours,1,1\n\
            i-5,01.10.2026\n";
        let bill = read(text, &columns()).unwrap();
        let first = &bill.lines[0];
        assert_eq!((first.line, first.amount.to_string()), (2, "1860.00 USD".to_owned()));
        let hours = Quantity { nanos: 744_000_000_000, unit: QuantityUnit::Hour };
        assert_eq!((first.quantity, first.period.whole_hours()), (Some(hours), Some(744)));
        assert_eq!(bill.lines[1].quantity.unwrap().unit, QuantityUnit::Other);
        use BillRowFault::{Amount, Date, Key, Number, Shape};
        let faults: Vec<_> =
            bill.refused.iter().map(|row| (row.line, row.fault, row.column.as_deref())).collect();
        let columns = ["Resource", "From", "Amount", "Qty"].map(Some);
        assert_eq!(
            faults,
            [
                (4, Key, columns[0]),
                (5, Date, columns[1]),
                (6, Amount, columns[2]),
                (7, Number, columns[3]),
                (8, Shape, None)
            ]
        );
        for fault in BillRowFault::ALL {
            assert_eq!(BillRowFault::from_name(fault.name()), Some(fault));
        }
    }

    #[test]
    fn a_column_that_is_not_there_is_named() {
        let fault = read("From,To\n", &columns()).unwrap_err();
        assert!(fault.to_string().contains("no column `Resource`; it has From, To"), "{fault}");
        assert_eq!(read("", &columns()), Err(BillFault::NoHeader));
    }

    #[test]
    fn units_are_known_as_bills_write_them() {
        for unit in QuantityUnit::ALL {
            assert_eq!(QuantityUnit::from_name(unit.name()), Some(unit));
        }
        assert_eq!(QuantityUnit::from_name("GPU-Hours"), Some(QuantityUnit::GpuHour));
        assert_eq!(QuantityUnit::from_name("GB"), None);
    }
}
