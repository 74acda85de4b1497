//! The audit log as CSV: a row for each entry, in UTC.

use super::Line;
use crate::pages::audit::AuditLine;

/// Appends the first line: the names of the columns.
pub fn audit_header(out: &mut String) {
    let mut line = Line { out, first: true };
    for name in
        ["number", "at_utc", "tenant", "user", "way", "action", "object", "detail", "address"]
    {
        line.raw(name);
    }
    line.end();
}

/// Appends one entry.
pub fn audit(out: &mut String, entry: &AuditLine) {
    let mut line = Line { out, first: true };
    line.raw(entry.number);
    line.raw(entry.at);
    line.text(entry.tenant.as_deref().unwrap_or(""));
    line.text(entry.user.as_deref().unwrap_or(""));
    line.raw(entry.way);
    line.text(&entry.action);
    line.text(&entry.object);
    let detail: Vec<_> = entry.detail.iter().map(|(name, text)| format!("{name}={text}")).collect();
    line.text(&detail.join("; "));
    line.text(entry.address.as_deref().unwrap_or(""));
    line.end();
}
