//! Something of everything that can be told.

use std::collections::BTreeMap;

use leasewatch_core::availability::DownCause;
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{DAY_MS, HOUR_MS, Period};

use super::super::lease_form::{FieldFault, LeaseMatter};
use super::super::sample::NOW;
use super::{LeaseToldView, NoticeLine, RecordLine, StopLine};

impl LeaseToldView {
    /// An early notice, a late one, one without a rule; a record; stops; a mistake in a form.
    pub(super) fn with_everything() -> Self {
        let period = |days: i64| {
            let start = NOW.plus_ms(-days * DAY_MS);
            Period::new(start, start.plus_ms(2 * HOUR_MS))
        };
        let notice = |number: i32, lead_ms: i64, needed_ms: Option<i64>| NoticeLine {
            number,
            period: period(i64::from(number)),
            received_at: period(i64::from(number)).start.plus_ms(-lead_ms),
            lead_ms,
            needed_ms,
            profile: needed_ms.map(|_| "acme-standard@2".to_owned()),
            counts: needed_ms.is_some_and(|needed| lead_ms >= needed),
            text: "DC7 <b>".to_owned(),
        };
        let stop = |number: i32, kind, clause: Option<&str>, reason: Option<&str>| StopLine {
            number,
            period: period(i64::from(number)),
            kind,
            clause: clause.map(str::to_owned),
            reason: reason.map(str::to_owned),
        };
        Self {
            tenant: "default".to_owned(),
            lease: "h100-train".to_owned(),
            origin: Some(Origin::Simulated),
            notices: vec![
                notice(3, 3 * DAY_MS, Some(DAY_MS)),
                notice(2, HOUR_MS, Some(DAY_MS)),
                notice(1, -HOUR_MS, None),
            ],
            records: vec![RecordLine {
                number: 4,
                period: period(4),
                cause: DownCause::Connectivity,
                source: "status.example.org/incidents/7".to_owned(),
                text: "b7-12".to_owned(),
            }],
            stops: vec![
                stop(5, "stopped", None, None),
                stop(6, "maintenance", None, Some("CUDA")),
                stop(7, "other", Some("customer-network"), None),
            ],
            clauses: vec![("customer-network".to_owned(), "…".to_owned())],
            may_change: true,
            entered: BTreeMap::from([("notice_starts_at".to_owned(), "soon".to_owned())]),
            faults: vec![
                FieldFault::new("notice_starts_at", LeaseMatter::Invalid),
                FieldFault::new("notice_text", LeaseMatter::Missing),
            ],
        }
    }

    /// Nothing was told, and who looks may not tell anything.
    #[must_use]
    pub fn empty_sample() -> Self {
        Self {
            origin: None,
            notices: Vec::new(),
            records: Vec::new(),
            stops: Vec::new(),
            clauses: Vec::new(),
            may_change: false,
            entered: BTreeMap::new(),
            faults: Vec::new(),
            ..Self::sample()
        }
    }
}
