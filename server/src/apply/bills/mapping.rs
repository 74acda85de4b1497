//! Which column of a bill holds what, and how its cells are meant.

use std::collections::BTreeMap;

use leasewatch_core::cost::bill::{BillColumns, DateOrder, QuantityUnit};
use leasewatch_core::money::Currency;
use leasewatch_core::time::Zone;

use crate::apply::Wrong;
use crate::apply::entered::Entered;

/// Fields that are columns of the file, whether they have to be there, and names that theirs may
/// have.
pub const COLUMNS: [(&str, bool, &[&str]); 8] = [
    (
        "starts",
        true,
        &[
            "starts_at",
            "start",
            "start time",
            "from",
            "usage start",
            "开始时间",
            "起始时间",
            "账期",
        ],
    ),
    ("ends", false, &["ends_at", "end", "end time", "to", "usage end", "结束时间", "截止时间"]),
    (
        "key",
        true,
        &[
            "rental",
            "lease",
            "resource",
            "resource id",
            "instance",
            "instance id",
            "order",
            "实例id",
            "实例",
            "租用单",
            "订单号",
        ],
    ),
    ("quantity", false, &["quantity", "qty", "usage", "hours", "用量", "数量", "时长"]),
    ("unit", false, &["unit", "usage unit", "单位", "计费单位"]),
    ("rate", false, &["rate", "unit price", "price", "单价"]),
    ("amount", true, &["amount", "cost", "total", "charge", "金额", "应付金额", "费用"]),
    ("currency", false, &["currency", "币种", "货币"]),
];
/// Fields that say how cells are meant.
pub const SETTINGS: [&str; 5] = ["unit_else", "currency_else", "dates", "timezone", "with_tax"];

/// What names of columns suggest: every field that a header has under a known name.
#[must_use]
pub fn suggested(header: &[String]) -> Entered {
    let mut all = BTreeMap::new();
    for (field, _, names) in COLUMNS {
        let is_named = |name: &&String| names.contains(&name.trim().to_lowercase().as_str());
        if let Some(name) = header.iter().find(is_named) {
            all.insert(field.to_owned(), name.clone());
        }
    }
    Entered(all)
}

/// How columns are read, as it is kept for a provider: `field=column`, one a line.
#[must_use]
pub fn kept(entered: &Entered) -> String {
    let fields = COLUMNS.iter().map(|(field, ..)| *field).chain(SETTINGS);
    let line = |field: &str| {
        let text = entered.get(field);
        (!text.is_empty()).then(|| format!("{field}={text}"))
    };
    fields.filter_map(line).collect::<Vec<_>>().join("\n")
}

/// The same back, without columns that `header` does not have.
#[must_use]
pub fn from_kept(text: &str, header: &[String]) -> Entered {
    let known = |field: &str| SETTINGS.contains(&field);
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let pairs = pairs.filter(|(field, value)| {
        known(field) || header.iter().any(|name| name.trim() == value.trim())
    });
    Entered(pairs.map(|(field, value)| (field.to_owned(), value.to_owned())).collect())
}

/// What was said about the columns.
///
/// # Errors
/// Each field that is missing or holds nothing that goes.
pub fn columns(entered: &Entered) -> Result<BillColumns, Vec<Wrong>> {
    let mut wrong = Vec::new();
    let column = |field: &str| Some(entered.get(field).to_owned()).filter(|text| !text.is_empty());
    for (field, is_needed, _) in COLUMNS {
        if is_needed && column(field).is_none() {
            wrong.push(Wrong::new(field, "is missing"));
        }
    }
    let mut setting = |field: &str, matter: &str| wrong.push(Wrong::new(field, matter));
    let or = |field: &str, usual: &str| {
        let text = entered.get(field);
        if text.is_empty() { usual.to_owned() } else { text.to_owned() }
    };
    let unit = QuantityUnit::from_name(&or("unit_else", QuantityUnit::GpuHour.name()));
    let currency: Option<Currency> = or("currency_else", "USD").parse().ok();
    let dates = DateOrder::from_name(&or("dates", DateOrder::YearFirst.name()));
    let zone = Zone::parse(&or("timezone", "UTC")).ok();
    if unit.is_none() {
        setting("unit_else", "is no unit");
    }
    if currency.is_none() {
        setting("currency_else", "must be three letters such as USD");
    }
    if dates.is_none() {
        setting("dates", "must be year_first, day_first or month_first");
    }
    if zone.is_none() {
        setting("timezone", "must be an IANA name");
    }
    let all = (unit, currency, dates, zone);
    let (Some(unit_else), Some(currency_else), Some(dates), Some(zone)) = all else {
        return Err(wrong);
    };
    if !wrong.is_empty() {
        return Err(wrong);
    }
    Ok(BillColumns {
        starts: or("starts", ""),
        ends: column("ends"),
        key: or("key", ""),
        quantity: column("quantity"),
        unit: column("unit"),
        rate: column("rate"),
        amount: or("amount", ""),
        currency: column("currency"),
        currency_else,
        unit_else,
        zone,
        dates,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_suggested_kept_and_checked_by_field() {
        let header = ["From", "Instance ID", "Total", "Other"].map(str::to_owned);
        let mut entered = suggested(&header);
        assert_eq!((entered.get("starts"), entered.get("key")), ("From", "Instance ID"));
        assert!(columns(&entered).is_ok());
        for (field, text) in [("timezone", "Asia/Shanghai"), ("with_tax", "yes"), ("rate", "Gone")]
        {
            entered.0.insert(field.to_owned(), text.to_owned());
        }
        let back = from_kept(&kept(&entered), &header);
        assert_eq!((back.get("amount"), back.get("timezone")), ("Total", "Asia/Shanghai"));
        assert_eq!((back.get("rate"), back.get("with_tax")), ("", "yes"), "a column that is gone");
        for (field, text) in [("dates", "backwards"), ("currency_else", "usd"), ("amount", "")] {
            entered.0.insert(field.to_owned(), text.to_owned());
        }
        let wrong = columns(&entered).unwrap_err();
        let fields: Vec<_> = wrong.iter().map(|wrong| wrong.field.as_str()).collect();
        assert_eq!(fields, ["amount", "currency_else", "dates"]);
    }
}
