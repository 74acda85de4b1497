//! The second verifier, `verify/page/verify.html`, and this one on the same bundles: in Node and in
//! a browser that opened the page from disk, both must end alike, at the same step and line.

use std::path::Path;
use std::process::Command;

use super::*;
use crate::fixture::{
    HOUR, Parts, bundle, head_of, hour, joined, node, node_key, parts, server_key, stated,
    witness_key,
};
use ed25519_dalek::SigningKey;
use leasewatch_core::evidence::bundle::{LeafLine, name};
use leasewatch_core::evidence::chain::{SignedHead, leaf_hash};
use leasewatch_core::evidence::identity::{Revocation, RevocationReason, Rotation};
use leasewatch_core::evidence::log::note::{verifier_line, witness_line};
use leasewatch_core::evidence::statement::StatementKind;
use leasewatch_core::id::{ChainId, Hash};
use leasewatch_core::metering::GapCause;
use leasewatch_core::sample::Metric;
use leasewatch_core::time::Hour;

/// A bundle as a file, with the keys that whoever checks it knows: lines for `--trust` and
/// `--witness`.
struct Case {
    name: String,
    zip: Vec<u8>,
    servers: Vec<VerifyingKey>,
    witnesses: Vec<VerifyingKey>,
}

#[test]
fn the_page_agrees_on_the_honest_bundle_and_on_every_attack() {
    let folder = tempfile::tempdir().unwrap();
    for case in cases() {
        case.write(folder.path());
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    let run = |script: &str, arguments: &[&Path]| {
        let out = Command::new("node").arg(page.join(script)).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stdout));
    };
    run("policy.mjs", &[]);
    run("agree.mjs", &[folder.path()]);
}

/// The page and the document name every metric and every cause of a gap, or hours that hold a new
/// one would be refused.
#[test]
fn the_page_and_the_document_know_every_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("page/verify.html")).unwrap();
    let document = std::fs::read_to_string(root.join("../docs/EVIDENCE.md")).unwrap();
    let metrics = Metric::ALL.iter().map(|metric| metric.name());
    for name in metrics.chain(GapCause::ALL.iter().map(|cause| cause.name())) {
        assert!(page.contains(&format!("'{name}'")), "the page does not know {name}");
        assert!(document.contains(&format!("`{name}`")), "the document does not name {name}");
    }
}

impl Case {
    fn of(name: &str, parts: &Parts) -> Self {
        Self::of_bytes(name, parts.zip())
    }

    fn of_bytes(name: &str, zip: Vec<u8>) -> Self {
        Self { name: name.to_owned(), zip, servers: Vec::new(), witnesses: Vec::new() }
    }

    /// The bundle, what this verifier says of it, and the keys.
    fn write(&self, folder: &Path) {
        let file = |ending: &str| folder.join(format!("{}.{ending}", self.name));
        let put = |ending: &str, text: String| std::fs::write(file(ending), text).unwrap();
        std::fs::write(file("zip"), &self.zip).unwrap();
        let witnesses = self.witnesses.iter().map(|key| ("witness-a".to_owned(), *key));
        let trust = Trust { servers: self.servers.clone(), witnesses: witnesses.collect() };
        put("json", check(&file("zip"), &trust).to_json());
        let servers = self.servers.iter().map(|key| verifier_line("server", key) + "\n");
        put("servers", servers.collect());
        let witnesses = self.witnesses.iter().map(|key| witness_line("witness-a", key) + "\n");
        put("witnesses", witnesses.collect());
    }
}

fn cases() -> Vec<Case> {
    let mut cases = vec![Case::of("honest", &bundle())];
    cases.extend(known_keys());
    cases.extend(of_the_archive());
    cases.extend(of_the_manifest());
    cases.extend(of_the_log());
    cases.extend(of_nodes_and_heads());
    cases.extend(of_keys());
    cases.extend(of_hours());
    cases
}

fn known_keys() -> Vec<Case> {
    let cosigned = Parts { cosigned: true, ..parts() }.commit().bind(&server_key());
    let witnessed = |name: &str, parts: &Parts, key: VerifyingKey| Case {
        witnesses: vec![key],
        ..Case::of(name, parts)
    };
    let trusted =
        |name: &str, key: VerifyingKey| Case { servers: vec![key], ..Case::of(name, &bundle()) };
    let (server, witness) = (server_key().verifying_key(), witness_key().verifying_key());
    vec![
        witnessed("witness", &cosigned, witness),
        witnessed("witness-missing", &bundle(), witness),
        witnessed("witness-other", &cosigned, server),
        trusted("server", server),
        trusted("server-other", witness),
    ]
}

/// Cut off, longer, and one flipped bit every so many bytes.
fn of_the_archive() -> Vec<Case> {
    let zip = bundle().zip();
    let is_campaign = std::env::var_os("LEASEWATCH_CAMPAIGN").is_some();
    let mut cases = vec![
        Case::of_bytes("empty", Vec::new()),
        Case::of_bytes("end-alone", b"PK\x05\x06".to_vec()),
        Case::of_bytes("more-behind", [zip.as_slice(), b"more"].concat()),
        Case::of_bytes("more-before", [b"more", zip.as_slice()].concat()),
    ];
    for length in (1..zip.len()).step_by(701) {
        cases.push(Case::of_bytes(&format!("cut-{length}"), zip[..length].to_vec()));
    }
    for at in (0..zip.len()).step_by(if is_campaign { 7 } else { 197 }) {
        let mut altered = zip.clone();
        altered[at] ^= 1 << (at % 8);
        cases.push(Case::of_bytes(&format!("flip-{at}"), altered));
    }
    cases
}

fn of_the_manifest() -> Vec<Case> {
    let mut more = bundle();
    more.files.insert("notes.txt".to_owned(), b"hello".to_vec());
    let mut hostile = bundle();
    hostile.files.insert("<img src=x onerror=alert(1)>".to_owned(), b"hello".to_vec());
    let mut fewer = bundle();
    fewer.files.remove(name::HEADS);
    let mut other = bundle();
    other.put(name::HEADS, &[b"{}".to_vec()]);
    let mut report = bundle();
    report.put("report.html", &[b"<p>99.99 %</p>".to_vec()]);
    vec![
        Case::of("file-more", &more),
        Case::of("file-hostile", &hostile),
        Case::of("file-fewer", &fewer),
        Case::of("file-other", &other),
        Case::of("file-unlisted", &report),
        Case::of("manifest-by-another-key", &parts().commit().bind(&node_key())),
    ]
}

/// The honest bundle with other lines in one file, bound again; the log stays or is written anew.
fn with(file: &str, is_committed_anew: bool, change: impl Fn(&mut Vec<Vec<u8>>)) -> Parts {
    let mut parts = if is_committed_anew { parts() } else { parts().commit() };
    let mut lines = parts.of(file);
    change(&mut lines);
    parts.put(file, &lines);
    if is_committed_anew { parts.commit().bind(&server_key()) } else { parts.bind(&server_key()) }
}

fn of_the_log() -> Vec<Case> {
    let mut cases = Vec::new();
    for at in [0, 3, 6] {
        let removed = with(name::HOURS, false, |lines| drop(lines.remove(at)));
        cases.push(Case::of(&format!("hour-removed-{at}"), &removed));
    }
    let mut with_leaf = parts().commit();
    for file in [name::HOURS, name::LOG] {
        let mut lines = with_leaf.of(file);
        lines.pop();
        with_leaf.put(file, &lines);
    }
    cases.push(Case::of("hour-removed-with-leaf", &with_leaf.bind(&server_key())));
    let twice = with(name::HOURS, false, |lines| lines.push(lines[6].clone()));
    cases.push(Case::of("hour-twice", &twice));
    let altered = with(name::HOURS, false, |lines| {
        lines[3] = stated(&hour(HOUR, 1, 3_000_000), 1, None);
    });
    cases.push(Case::of("hour-altered", &altered));
    let spelled = with(name::LOG, false, |lines| lines[1].insert(1, b' '));
    cases.push(Case::of("log-line-spelled-otherwise", &spelled));
    let emptied = with(name::LOG, false, |lines| lines.truncate(1));
    cases.push(Case::of("log-without-leaves", &emptied));
    let note = with(name::CHECKPOINT, false, |lines| lines.truncate(3));
    cases.push(Case::of("checkpoint-unsigned", &note));
    cases
}

fn of_nodes_and_heads() -> Vec<Case> {
    let reversed = with(name::IDENTITY_SIGNATURES, true, |lines| lines[0].reverse());
    let elsewhere = with(name::IDENTITY, true, |lines| replace(&mut lines[0], "nt-a", "nt-b"));
    let minute = with(name::MINUTE_LEAVES, true, |lines| lines.swap(0, 1));
    let unrecorded = with(name::MINUTES, true, |lines| {
        replace(&mut lines[1], "\"recorded_ms\":60000", "\"recorded_ms\":60001");
    });
    let signatures = with(name::HEAD_SIGNATURES, true, |lines| lines.swap(1, 2));
    let alone = with(name::HEAD_SIGNATURES, true, |lines| lines.push(lines[0].clone()));
    let in_both = |change: &dyn Fn(&mut Vec<Vec<u8>>), files: [&str; 2]| {
        let mut parts = parts();
        for file in files {
            let mut lines = parts.of(file);
            change(&mut lines);
            parts.put(file, &lines);
        }
        parts
    };
    let heads = [name::HEADS, name::HEAD_SIGNATURES];
    let swapped = in_both(&|lines| lines.swap(1, 2), heads);
    let left_out = in_both(&|lines| drop(lines.remove(2)), heads);
    let mut hidden = in_both(&|lines| drop(lines.pop()), [name::MINUTES, name::MINUTE_LEAVES]);
    let minutes = leaf_file(name::MINUTES);
    hidden.order.retain(|leaf| *leaf != LeafLine::Disclosed { file: minutes, line: 5 });
    vec![
        Case::of("identity-signature", &reversed),
        Case::of("identity-elsewhere", &elsewhere),
        Case::of("minute-other-heads", &minute),
        Case::of("minute-too-long", &unrecorded),
        Case::of("head-signatures-swapped", &signatures),
        Case::of("head-signature-alone", &alone),
        Case::of("heads-swapped", &swapped.commit().bind(&server_key())),
        Case::of("head-left-out", &left_out.commit().bind(&server_key())),
        Case::of("minute-hidden", &hidden.commit().bind(&server_key())),
    ]
}

/// Keys that were rotated, revoked or used by two.
fn of_keys() -> Vec<Case> {
    let next = SigningKey::from_bytes(&[8; 32]);
    let (old, new) = (joined().key, next.verifying_key().to_bytes());
    let at = |minute: i64| HOUR.start().plus_ms(minute * 60_000);
    let rotated = |at| {
        let said = Rotation { node: node(), old, new, at, token: 8 };
        (StatementKind::Rotation, said.statement())
    };
    let revoked = |at| {
        let reason = RevocationReason::Operator;
        let said = Revocation { node: node(), key: old, at, reason, by: None };
        (StatementKind::Revocation, said.statement())
    };
    let case = |name: &str, said: &[(StatementKind, Vec<u8>)], head: Option<SignedHead>| {
        let mut parts = parts();
        parts.say(said);
        if let Some(head) = head {
            parts.put_head(5, &head);
        }
        Case::of(name, &parts.commit().bind(&server_key()))
    };
    let of_next_chain =
        |sequence, key: &_| Some(head_of(ChainId([5; 16]), sequence, Some(Hash([7; 32])), key));
    let twin = head_of(ChainId([4; 16]), 5, Some(Hash([7; 32])), &node_key());
    let leeway = at(5).plus_ms(-5_000);
    vec![
        case("key-rotated", &[rotated(at(5))], of_next_chain(6, &next)),
        case("key-too-early", &[rotated(at(60))], of_next_chain(6, &next)),
        case("key-too-late", &[rotated(at(5))], of_next_chain(6, &node_key())),
        case("key-revoked-with-leeway", &[revoked(leeway)], None),
        case("key-revoked", &[revoked(leeway.plus_ms(-1))], None),
        case("key-revoked-at-once", &[revoked(at(0))], None),
        case("key-overdue", &[revoked(at(5).plus_ms(-1))], None),
        case("key-unlisted", &[], of_next_chain(6, &next)),
        case("key-of-two-in-one-place", &[], Some(twin)),
        case("key-of-two-in-two-chains", &[], of_next_chain(2, &node_key())),
    ]
}

fn of_hours() -> Vec<Case> {
    let nonsense = |from: &'static str, to: &'static str| {
        with(name::HOURS, true, move |lines| replace(&mut lines[3], from, to))
    };
    let swapped = with(name::HOURS, true, |lines| lines.swap(0, 1));
    let revised = with(name::HOURS, true, |lines| {
        let at = lines.len() - 2;
        let other = (1, leaf_hash(b"another first revision"));
        lines[at] = stated(&hour(Hour(HOUR.0 + 1), 1, 900_000), 1, Some(other));
    });
    let mut hidden = parts();
    let mut lines = hidden.of(name::HOURS);
    let hash = leaf_hash(&lines.remove(1));
    hidden.put(name::HOURS, &lines);
    let last = LeafLine::Disclosed { file: leaf_file(name::HOURS), line: 7 };
    hidden.order.retain(|leaf| *leaf != last);
    hidden.order.push(LeafLine::Withheld(hash));
    let mut outside = parts();
    let mut lines = outside.of(name::HOURS);
    lines[6] = stated(&hour(Hour(HOUR.0 + 3), 1, 900_000), 1, None);
    outside.put(name::HOURS, &lines);
    vec![
        Case::of("hours-swapped", &swapped),
        Case::of("revision-of-another", &revised),
        Case::of("hour-hidden", &hidden.commit().bind(&server_key())),
        Case::of("hour-outside", &outside.commit().bind(&server_key())),
        Case::of("hour-nonsense", &nonsense("\"measured_ms\":3595000", "\"measured_ms\":3600000")),
        Case::of(
            "hour-busier",
            &nonsense("\"busy_pct_ms\":162000000", "\"busy_pct_ms\":162000001"),
        ),
        Case::of("hour-longer", &nonsense("\"enrolled_ms\":3600000", "\"enrolled_ms\":3599999")),
        Case::of("hour-elsewhere", &nonsense("\"tenant\":\"tenant-a\"", "\"tenant\":\"tenant-b\"")),
        Case::of("hour-between", &nonsense(":00:00Z", ":00:01Z")),
        Case::of("hour-spelled-otherwise", &nonsense("\"xids\":0", "\"xids\":00")),
        Case::of("hour-with-more", &nonsense("\"xids\":0", "\"xids\":0,\"zids\":0")),
    ]
}

fn leaf_file(name: &str) -> usize {
    name::LEAVES.iter().position(|of| *of == name).unwrap()
}

fn replace(line: &mut Vec<u8>, from: &str, to: &str) {
    let text = String::from_utf8(line.clone()).unwrap();
    let altered = text.replace(from, to);
    assert_ne!(altered, text, "{from}");
    *line = altered.into_bytes();
}
