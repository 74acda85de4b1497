//! Every attack that a bundle must not survive, and what the honest one says.

mod keys;

use super::*;
use crate::fixture::{
    HOUR, Parts, bundle, hour, node_key, parts, server_key, stated, witness_key, write,
};
use crate::report::Outcome;
use ed25519_dalek::SigningKey;
use leasewatch_core::evidence::bundle::{LeafLine, name};
use leasewatch_core::evidence::chain::leaf_hash;
use leasewatch_core::time::Hour;

fn checked(parts: &Parts, trust: &Trust) -> Report {
    let folder = tempfile::tempdir().unwrap();
    check(&parts.write(folder.path()), trust)
}

/// What the last step says of a bundle that is not accepted.
#[track_caller]
fn refused(parts: &Parts, step: &str, outcome: Outcome) -> String {
    let report = checked(parts, &Trust::default());
    assert_eq!(report.outcome(), outcome, "{}", report.to_text());
    let last = report.steps.last().unwrap();
    assert_eq!(last.name, step, "{}", report.to_text());
    last.said.clone().unwrap_err().to_string()
}

fn hour_line(parts: &Parts, holds: &str) -> usize {
    let lines = parts.of(name::HOURS);
    lines.iter().position(|line| String::from_utf8_lossy(line).contains(holds)).unwrap()
}

#[test]
fn the_honest_bundle_is_verified_and_says_what_it_covers() {
    let report = checked(&bundle(), &Trust::default());
    assert_eq!(report.outcome(), Outcome::Verified, "{}", report.to_text());
    let text = report.to_text();
    for said in [
        "self-attested",
        "13 statements and 1 withheld ones are leaves 11 to 25 of 30",
        "5 heads of 1 chains, signed and committed",
        "7 statements of 2 slots, 1 revised: 21600000 ms enrolled = 21570000 ms measured + 30000 ms of gaps",
        "Not proven:",
    ] {
        assert!(text.contains(said), "{said} is not in\n{text}");
    }
    assert!(report.to_json().starts_with("{\"exit\":0,"));
}

#[test]
fn a_witness_that_is_asked_for_must_have_cosigned() {
    let witness = |key: &SigningKey| Trust {
        witnesses: vec![("witness-a".to_owned(), key.verifying_key())],
        ..Trust::default()
    };
    let cosigned = Parts { cosigned: true, ..parts() }.commit().bind(&server_key());
    let report = checked(&cosigned, &witness(&witness_key()));
    assert_eq!(report.outcome(), Outcome::Verified);
    assert_eq!(report.witnesses, ["witness-a at second 1785556860"]);
    for (parts, key) in [(bundle(), witness_key()), (cosigned, server_key())] {
        assert_eq!(checked(&parts, &witness(&key)).outcome(), Outcome::Unwitnessed);
    }
}

#[test]
fn another_server_than_the_trusted_one_is_refused() {
    let trust = |key: SigningKey| Trust { servers: vec![key.verifying_key()], ..Trust::default() };
    assert_eq!(checked(&bundle(), &trust(server_key())).outcome(), Outcome::Verified);
    assert_eq!(checked(&bundle(), &trust(witness_key())).outcome(), Outcome::Mismatch);
}

/// Everything signed anew by somebody who holds no key of the server.
#[test]
fn a_manifest_by_another_key_does_not_carry_the_log() {
    let said = refused(&parts().commit().bind(&node_key()), "log", Outcome::Mismatch);
    assert!(said.contains("checkpoint.txt"), "{said}");
}

#[test]
fn an_hour_that_was_removed_is_missed() {
    for at in [0, 3, 6] {
        let mut parts = parts().commit();
        let mut lines = parts.of(name::HOURS);
        lines.remove(at);
        parts.put(name::HOURS, &lines);
        let said = refused(&parts.bind(&server_key()), "log", Outcome::Mismatch);
        assert!(said.contains("log.jsonl") || said.contains("checkpoint"), "{said}");
    }
}

/// The lines of the log taken away too: what is left does not lead to the checkpoint.
#[test]
fn an_hour_that_was_removed_with_its_leaf_is_missed() {
    let mut parts = parts().commit();
    let mut lines = parts.of(name::HOURS);
    lines.pop();
    parts.put(name::HOURS, &lines);
    let mut log = parts.of(name::LOG);
    log.pop();
    parts.put(name::LOG, &log);
    refused(&parts.bind(&server_key()), "log", Outcome::Mismatch);
}

#[test]
fn an_altered_hour_is_named() {
    let honest = parts().commit();
    let at = hour_line(&honest, "\"slot\":1");
    let mut lines = honest.of(name::HOURS);
    lines[at] = stated(&hour(HOUR, 1, 3_000_000), 1, None);
    let mut altered = honest.clone();
    altered.put(name::HOURS, &lines);
    let said = refused(&altered.bind(&server_key()), "log", Outcome::Mismatch);
    assert!(said.contains("do not lead to the checkpoint"), "{said}");
    // A server that commits to nonsense is told which line it is.
    let text = String::from_utf8(honest.of(name::HOURS)[at].clone()).unwrap();
    let mut lines = honest.of(name::HOURS);
    lines[at] = text.replace("\"measured_ms\":3595000", "\"measured_ms\":3600000").into_bytes();
    assert_ne!(lines[at], honest.of(name::HOURS)[at]);
    let mut nonsense = parts();
    nonsense.put(name::HOURS, &lines);
    let said = refused(&nonsense.commit().bind(&server_key()), "hours", Outcome::Mismatch);
    assert!(said.contains(&format!("hours.jsonl, line {}", at + 1)), "{said}");
}

#[test]
fn hours_in_another_order_or_twice_are_refused() {
    let mut swapped = parts();
    let mut lines = swapped.of(name::HOURS);
    lines.swap(0, 1);
    swapped.put(name::HOURS, &lines);
    let said = refused(&swapped.clone().commit().bind(&server_key()), "hours", Outcome::Mismatch);
    assert!(said.contains("out of order"), "{said}");
    let mut twice = parts().commit();
    let mut lines = twice.of(name::HOURS);
    lines.push(lines[6].clone());
    twice.put(name::HOURS, &lines);
    let said = refused(&twice.bind(&server_key()), "log", Outcome::Mismatch);
    assert!(said.contains("hours.jsonl, line 8"), "{said}");
}

#[test]
fn a_revision_needs_the_one_before_it() {
    let mut parts = parts();
    let mut lines = parts.of(name::HOURS);
    let at = hour_line(&parts, "\"revision\":2");
    let other = (1, leaf_hash(b"another first revision"));
    lines[at] = stated(&hour(Hour(HOUR.0 + 1), 1, 900_000), 1, Some(other));
    parts.put(name::HOURS, &lines);
    let said = refused(&parts.commit().bind(&server_key()), "hours", Outcome::Mismatch);
    assert!(said.contains("does not follow the revision before it"), "{said}");
    assert!(said.contains(&Hour(HOUR.0 + 1).to_string()), "names the hour: {said}");
}

#[test]
fn heads_must_be_signed_chained_and_committed() {
    let fault = |change: &dyn Fn(&mut Parts)| {
        let mut parts = parts();
        change(&mut parts);
        refused(&parts.commit().bind(&server_key()), "heads", Outcome::Mismatch)
    };
    let said = fault(&|parts| {
        let mut lines = parts.of(name::HEAD_SIGNATURES);
        lines.swap(1, 2);
        parts.put(name::HEAD_SIGNATURES, &lines);
    });
    assert!(said.contains("line 2: is not signed by a key of its node"), "{said}");
    let said = fault(&|parts| {
        for file in [name::HEADS, name::HEAD_SIGNATURES] {
            let mut lines = parts.of(file);
            lines.swap(1, 2);
            parts.put(file, &lines);
        }
    });
    assert!(said.contains("line 3: stands out of order"), "{said}");
    // A minute that is not shown: its heads were committed nowhere.
    let said = fault(&|parts| {
        for file in [name::MINUTES, name::MINUTE_LEAVES] {
            let mut lines = parts.of(file);
            lines.pop();
            parts.put(file, &lines);
        }
        let minutes = name::LEAVES.iter().position(|of| *of == name::MINUTES).unwrap();
        parts.order.retain(|leaf| *leaf != LeafLine::Disclosed { file: minutes, line: 5 });
    });
    assert!(said.contains("line 5: was committed in no minute"), "{said}");
}

#[test]
fn a_head_that_is_left_out_is_told() {
    let mut parts = parts();
    for file in [name::HEADS, name::HEAD_SIGNATURES] {
        let mut lines = parts.of(file);
        lines.remove(2);
        parts.put(file, &lines);
    }
    let report = checked(&parts.commit().bind(&server_key()), &Trust::default());
    assert_eq!(report.outcome(), Outcome::Verified);
    assert_eq!(report.notes, ["1 stretches of heads are not in this bundle"]);
}

#[test]
fn an_hour_that_is_left_out_in_between_is_told() {
    let mut parts = parts();
    let hours = name::LEAVES.iter().position(|of| *of == name::HOURS).unwrap();
    let mut lines = parts.of(name::HOURS);
    let hidden = lines.remove(1);
    parts.put(name::HOURS, &lines);
    let last = LeafLine::Disclosed { file: hours, line: 7 };
    parts.order.retain(|leaf| *leaf != last);
    parts.order.push(LeafLine::Withheld(leaf_hash(&hidden)));
    let report = checked(&parts.commit().bind(&server_key()), &Trust::default());
    assert_eq!(report.outcome(), Outcome::Verified, "{}", report.to_text());
    assert!(report.notes[0].starts_with("1 slot-hours between"), "{:?}", report.notes);
}

#[test]
fn a_minute_with_other_heads_is_refused() {
    let mut parts = parts();
    let mut lines = parts.of(name::MINUTE_LEAVES);
    lines.swap(0, 1);
    parts.put(name::MINUTE_LEAVES, &lines);
    refused(&parts.commit().bind(&server_key()), "minutes", Outcome::Mismatch);
}

#[test]
fn a_node_of_somebody_else_is_refused() {
    let mut parts = parts();
    let line = String::from_utf8(parts.of(name::IDENTITY).remove(0)).unwrap();
    parts.put(name::IDENTITY, &[line.replace("tenant-a", "tenant-b").into_bytes()]);
    let said = refused(&parts.commit().bind(&server_key()), "identity", Outcome::Mismatch);
    assert!(said.contains("signature"), "{said}");
}

#[test]
fn files_that_the_manifest_does_not_list_are_refused() {
    let mut more = bundle();
    more.files.insert("notes.txt".to_owned(), b"hello".to_vec());
    assert!(refused(&more, "manifest", Outcome::Mismatch).contains("notes.txt"));
    let mut fewer = bundle();
    fewer.files.remove(name::HEADS);
    assert!(refused(&fewer, "manifest", Outcome::Mismatch).contains(name::HEADS));
    let mut other = bundle();
    other.put(name::HEADS, &[b"{}".to_vec()]);
    assert!(refused(&other, "manifest", Outcome::Mismatch).contains(name::HEADS));
}

#[test]
fn what_is_no_bundle_is_answered_and_never_panics() {
    let folder = tempfile::tempdir().unwrap();
    let malformed = |path: &Path| {
        let report = check(path, &Trust::default());
        assert_eq!(report.outcome(), Outcome::Malformed, "{}", report.to_text());
    };
    malformed(folder.path());
    malformed(&folder.path().join("absent.zip"));
    let zip = bundle().zip();
    malformed(&write(folder.path(), b""));
    malformed(&write(folder.path(), b"PK\x05\x06"));
    for length in (0..zip.len()).step_by(97) {
        malformed(&write(folder.path(), &zip[..length]));
    }
    malformed(&write(folder.path(), &[zip.as_slice(), b"more"].concat()));
    malformed(&write(folder.path(), &[b"more", zip.as_slice()].concat()));
}

/// Promise E1: every byte of a small bundle, flipped. What is not noticed unpacks to the very same
/// files: times and versions of the archive, and bits behind the end of a compressed stream.
#[test]
fn e1_every_flipped_byte_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let zip = bundle().zip();
    let honest = unpacked(&zip);
    let mut unnoticed = 0;
    for at in 0..zip.len() {
        let mut altered = zip.clone();
        altered[at] ^= 1 << (at % 8);
        match check(&write(folder.path(), &altered), &Trust::default()).outcome() {
            Outcome::Mismatch | Outcome::Malformed => {}
            Outcome::Verified | Outcome::Unwitnessed => {
                assert_eq!(unpacked(&altered), honest, "a flip at byte {at} of {}", zip.len());
                unnoticed += 1;
            }
        }
    }
    assert!(unnoticed < zip.len() / 10, "{unnoticed} of {}", zip.len());
}

fn unpacked(zip: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(zip)).ok()?;
    let all = (0..zip.len()).map(|index| {
        let mut file = zip.by_index(index).ok()?;
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut bytes).ok()?;
        Some((String::from_utf8(file.name_raw().to_vec()).ok()?, bytes))
    });
    all.collect()
}

/// A step that objects to nothing would let something through: for each one there is an attack that
/// it alone stops.
#[test]
fn every_step_is_needed() {
    let attacks: [(&str, Parts); 6] = [
        ("manifest", {
            let mut parts = bundle();
            parts.put("report.html", &[b"<p>99.99 %</p>".to_vec()]);
            parts
        }),
        ("log", {
            let mut parts = parts().commit();
            let at = hour_line(&parts, "\"slot\":0");
            let mut lines = parts.of(name::HOURS);
            lines[at] = stated(&hour(HOUR, 0, 3_000_000), 0, None);
            parts.put(name::HOURS, &lines);
            parts.bind(&server_key())
        }),
        ("identity", {
            let mut parts = parts();
            let mut lines = parts.of(name::IDENTITY_SIGNATURES);
            lines[0].reverse();
            parts.put(name::IDENTITY_SIGNATURES, &lines);
            parts.commit().bind(&server_key())
        }),
        ("minutes", {
            let mut parts = parts();
            let mut lines = parts.of(name::MINUTE_LEAVES);
            lines.swap(0, 1);
            parts.put(name::MINUTE_LEAVES, &lines);
            parts.commit().bind(&server_key())
        }),
        ("heads", {
            let mut parts = parts();
            let mut lines = parts.of(name::HEAD_SIGNATURES);
            lines.swap(1, 2);
            parts.put(name::HEAD_SIGNATURES, &lines);
            parts.commit().bind(&server_key())
        }),
        ("hours", {
            let mut parts = parts();
            let mut lines = parts.of(name::HOURS);
            lines.swap(0, 1);
            parts.put(name::HOURS, &lines);
            parts.commit().bind(&server_key())
        }),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (step, parts) in attacks {
        let path = parts.write(folder.path());
        let found = check(&path, &Trust::default());
        assert_eq!(found.steps.last().map(|step| step.name), Some(step));
        assert_eq!(found.outcome(), Outcome::Mismatch);
        let without = check_without(&path, &Trust::default(), Some(step));
        let silenced = without.steps.iter().find(|of| of.name == step).unwrap();
        assert!(silenced.said.is_ok());
        // The steps behind it either pass, or stumble over what it would have learned.
        let stumbles = ["manifest", "identity"].contains(&step);
        assert!(stumbles || without.outcome() == Outcome::Verified, "{}", without.to_text());
    }
}
