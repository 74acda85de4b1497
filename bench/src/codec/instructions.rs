//! Instructions of sealing, opening and metering: counts, which a busy machine does not change.
//!
//! valgrind counts them while this test program runs once more for each step, as it was built for
//! the tests: the rules optimised and what is around them not, so a count says little about speed. It
//! changes when a step does more or less than before. What only an optimised build shows is measured
//! by `codec`.

use std::process::Command;

use super::{CodecOptions, Fleet, encoding_rate, meter_slot, opening_rate, sealed_fleet};

/// Environment variable: the step that the counted program takes.
const STEP: &str = "LEASEWATCH_BENCH_STEP";
/// Neither much more nor much less, in percent: where less is meant, the count is taken anew.
const TOLERANCE: u64 = 10;
/// Measured: a minute of 8 GPUs sealed and opened, ten minutes of one GPU metered.
const COUNTS: [(&str, u64); 3] = [("seal", 3_774_000), ("open", 4_960_000), ("meter", 5_679_000)];

/// What the steps work on. It is made in every counted program, and so falls out of the difference.
fn made() -> [Fleet; 2] {
    let options = CodecOptions { nodes: 1, minutes: 1, repeat: 1 };
    let minutes = CodecOptions { minutes: 10, ..options };
    [sealed_fleet(options, 8).unwrap(), sealed_fleet(minutes, 1).unwrap()]
}

/// Takes the step that the environment names, or all three.
#[test]
fn steps() {
    let [minute, minutes] = made();
    let step = std::env::var(STEP).unwrap_or_default();
    let takes = |name: &str| step.is_empty() || step == name;
    if takes("seal") {
        assert!(encoding_rate(&minute).unwrap() > 0.0);
    }
    if takes("open") {
        assert!(opening_rate(&minute).unwrap() > 0.0);
    }
    if takes("meter") {
        assert!(meter_slot(&minutes, 0).unwrap() > 590_000);
    }
}

#[test]
fn the_steps_of_a_segment_take_the_instructions_that_they_took() {
    let names = std::iter::once("nothing").chain(COUNTS.map(|(name, _)| name));
    let running: Vec<_> = names.map(|step| std::thread::spawn(move || counted(step))).collect();
    let mut counts = running.into_iter().map(|thread| thread.join().unwrap());
    let nothing = counts.next().unwrap();
    let mut wrong = Vec::new();
    for ((step, expected), count) in COUNTS.into_iter().zip(counts) {
        let count = count - nothing;
        eprintln!("{step}: {count} instructions");
        if count.abs_diff(expected) * 100 > expected * TOLERANCE {
            wrong.push(format!("{step} takes {count} instructions, not about {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("; "));
}

/// Instructions of this program when it takes a step.
fn counted(step: &str) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "codec::instructions::steps", "--test-threads=1"])
        .env(STEP, step)
        .output()
        .expect("valgrind is there; ./test installs it");
    let (told, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && told.contains("1 passed"), "{told}{said}");
    let found = said.lines().find_map(|line| line.split_once("Collected : "));
    found.and_then(|(_, count)| count.trim().parse().ok()).expect("valgrind tells its count")
}
