//! The clock: who keeps it, and how far the running agent found it off.

use std::path::Path;

use crate::command::finding::{Finding, Findings};
use crate::config::Config;
use crate::source::host;
use crate::status;

/// A clock that is further off than this has its hours flagged.
const FLAGGED_MS: u64 = 500;

pub(super) fn check(config: &Config, findings: &mut Findings) {
    findings.node(keeper(host::clock_source(Path::new("/"))));
    let offset = status::read(&config.state_dir).ok().flatten().and_then(|file| {
        let alive = file.is_of_a_living_process(Path::new("/"));
        file.clock_offset_ms.filter(|_| alive)
    });
    findings.node(offset_of(offset));
}

fn keeper(source: &str) -> Finding {
    let id = "clock.keeper";
    match source {
        // In a container the host keeps the clock, and nothing of it shows.
        "unknown" => Finding::not_readable(id, "no time service shows here").advising(
            "Normal in a container. On a host set up NTP (chrony, systemd-timesyncd): an hour whose \
             clock is more than 5 s off is a gap",
        ),
        name => Finding::ok(id, name),
    }
}

fn offset_of(offset_ms: Option<i64>) -> Finding {
    let id = "clock.offset";
    match offset_ms {
        Some(ms) => Finding::judged(id, ms.unsigned_abs() <= FLAGGED_MS, format!("{ms} ms"))
            .expecting(format!("within {FLAGGED_MS} ms of the server's"))
            .advising("Set up NTP here, or on the server if all nodes differ"),
        None => Finding::not_readable(id, "no running agent has compared it with a server's"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::finding::Outcome;

    #[test]
    fn a_clock_is_wrong_when_it_is_known_to_be() {
        assert_eq!(offset_of(Some(-501)).outcome, Outcome::Differs);
        assert_eq!(offset_of(Some(500)).outcome, Outcome::Ok);
        assert_eq!(offset_of(None).outcome, Outcome::NotReadable);
        assert_eq!(keeper("unknown").outcome, Outcome::NotReadable);
        assert_eq!(keeper("chrony").outcome, Outcome::Ok);
    }
}
