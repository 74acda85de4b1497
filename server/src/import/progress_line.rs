//! How far an import is, on one line of a terminal.

use std::io::IsTerminal as _;
use std::time::Duration;

use crate::intake::{Progress, Step};

/// Shows how far an import is, where somebody watches.
pub async fn watched<T>(importing: impl Future<Output = T>, progress: &Progress) -> T {
    if std::io::stderr().is_terminal() {
        with_progress_line(importing, progress).await
    } else {
        importing.await
    }
}

/// Redraws one line until `importing` is done, and leaves none behind.
async fn with_progress_line<T>(importing: impl Future<Output = T>, progress: &Progress) -> T {
    let mut importing = std::pin::pin!(importing);
    let mut redraw = tokio::time::interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            done = &mut importing => {
                eprint!("\r\x1b[K");
                return done;
            }
            _ = redraw.tick() => eprint!("\r{}\x1b[K", progress_line(progress.step())),
        }
    }
}

/// `reading    [########............] 40 %  12 of 30 MB`
fn progress_line(step: Step) -> String {
    const WIDTH: u64 = 30;
    let mb = |bytes: u64| bytes / 1_000_000;
    let (name, counts) = match step {
        Step::Reading(done, all) => ("reading", format!("{} of {} MB", mb(done), mb(all))),
        Step::Sealing(done, all) => ("sealing", format!("{done} of {all} rows")),
        Step::Delivering(done, all) => ("delivering", format!("{done} of {all} segments")),
    };
    let percent = step.percent();
    let full = percent * WIDTH / 100;
    let cells: String = (0..WIDTH).map(|cell| if cell < full { '#' } else { '.' }).collect();
    format!("{name:<10} [{cells}] {percent:>3} %  {counts}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_of_an_import_is_one_line_with_counts_and_percent() {
        let line = progress_line(Step::Reading(12_000_000, 30_000_000));
        assert_eq!(line, "reading    [############..................]  40 %  12 of 30 MB");
        assert!(progress_line(Step::Sealing(0, 0)).ends_with("] 100 %  0 of 0 rows"));
        let line = progress_line(Step::Delivering(3, 4));
        assert!(line.starts_with("delivering [###") && line.ends_with(" 75 %  3 of 4 segments"));
        assert!(line.len() < 80);
    }
}
