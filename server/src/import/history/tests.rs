use std::io::Cursor;
use std::os::unix::fs::PermissionsExt as _;

use leasewatch_core::evidence::chain::{OpenSegment, open};
use leasewatch_core::id::{ChainId, NodeId, Slug};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{Block, GpuBlock, Origin};

use super::line::Lines;
use super::seal::Sealer;
use super::state::{AgentState, ChainEnd};
use super::*;

/// Two runs of a day in August: an hour's end, and a minute after a reboot.
const LOG: &str = r#"{"leasewatch_history":1,"origin":"simulated","started_at":1785556770000,"ended_at":1785557460000,"cadence_ms":10000}
{"gpu_count":1,"events":[{"at":1785556770000,"clock_source":"simulated","kind":"agent_started","life_unit":{"boot_id":"one","id":"11111111111111111111111111111111","kind":"host","started_at":1785556700000},"version":"0.1.0"},{"at":1785556795000,"code":79,"gpu":"GPU-a","kind":"xid"}],"gpus":[{"uuid":"GPU-a","bus_id":"00000000:18:00.0","first_at":1785556780000,"rows":3,"busy_pct":[97,100,0],"each_row":{"power_draw_mw":700000,"memory_used_mib":[1,"error","stale"]},"each_minute":{"energy_mj":[5000],"fan_speed_pct":"unsupported"}}]}
{"gpu_count":1,"events":[],"gpus":[{"uuid":"GPU-a","bus_id":"00000000:18:00.0","first_at":1785556810000,"rows":2,"busy_pct":98,"each_row":{},"each_minute":{}}]}
{"gpu_count":1,"events":[{"at":1785557410000,"clock_source":"simulated","kind":"agent_started","life_unit":{"boot_id":"two","id":"22222222222222222222222222222222","kind":"host","started_at":1785557400000},"version":"0.1.0"},{"at":1785557460000,"kind":"goodbye","reason":"import_end"}],"gpus":[{"uuid":"GPU-a","bus_id":"00000000:18:00.0","first_at":1785557420000,"rows":5,"busy_pct":0,"each_row":{"memory_used_mib":38400},"each_minute":{}}]}
"#;

fn key() -> ed25519_dalek::SigningKey {
    ed25519_dalek::SigningKey::from_bytes(&[7; 32])
}

/// What is sealed of a log of which the server has everything up to `behind`, and how many parts
/// it has.
fn sealed(text: &str, behind: Option<Timestamp>) -> (Vec<Result<OpenSegment, String>>, u64) {
    let text = Cursor::new(text.as_bytes().to_vec());
    let (header, lines) = match Lines::open(Box::new(text)) {
        Ok(opened) => opened,
        Err(error) => return (vec![Err(error.to_string())], 0),
    };
    let sealer = Sealer {
        key: key(),
        node: NodeId([1; 16]),
        tenant: Slug::new("demo").unwrap(),
        chain: ChainId([2; 16]),
        cadence_ms: header.cadence_ms,
        end: None,
    };
    let (to, mut from) = mpsc::channel(64);
    let covered = sealer.seal_all(lines, behind, &to);
    let mut found = Vec::new();
    while let Ok(segment) = from.try_recv() {
        let opened = segment.map_err(|error| error.to_string()).map(|segment| {
            let (signed, blocks) = (&segment.signed, &segment.blocks);
            open(&signed.statement, &signed.signature, blocks, &key().verifying_key()).unwrap()
        });
        found.push(opened);
    }
    (found, covered)
}

fn gpu(segment: &OpenSegment) -> &GpuBlock {
    match &segment.blocks[0] {
        Block::Gpu(gpu) => gpu,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_part_is_a_simulated_segment_of_one_chain() {
    let (segments, covered) = sealed(LOG, None);
    let segments: Vec<OpenSegment> = segments.into_iter().map(Result::unwrap).collect();
    assert_eq!((segments.len(), covered), (3, 0));
    for segment in &segments {
        assert_eq!(segment.head.origin, Origin::Simulated);
        assert!(segment.is_of_log());
    }
    assert!(segments.windows(2).all(|pair| pair[1].head.previous == Some(pair[0].hash)));
    let heads: Vec<_> = segments.iter().map(|segment| &segment.head).collect();
    assert_eq!(heads[0].epoch, heads[1].epoch);
    assert_ne!(heads[1].epoch, heads[2].epoch, "a start begins an epoch");
    let lives = heads.iter().map(|head| head.life_unit.0[0]).collect::<Vec<_>>();
    assert_eq!(lives, [0x11, 0x11, 0x22]);
    let periods: Vec<_> = heads.iter().map(|h| (h.period.start.0, h.period.end.0)).collect();
    let expected = [
        (1_785_556_770_000, 1_785_556_800_000),
        (1_785_556_800_000, 1_785_556_820_000),
        (1_785_557_410_000, 1_785_557_460_000),
    ];
    assert_eq!(periods, expected, "without a break one segment begins where the other ended");

    let first = gpu(&segments[0]);
    let column = |metric| {
        let found = first.columns.iter().find(|column| column.metric == metric).unwrap();
        found.readings.clone()
    };
    let number = |value| Some(Reading::Number(value));
    assert_eq!(column(Metric::PowerDraw), [number(700_000); 3]);
    let memory = [number(1), Some(Reading::Error), Some(Reading::Stale)];
    assert_eq!(column(Metric::MemoryUsed), memory);
    assert_eq!(column(Metric::Energy), [None, None, number(5_000)], "at the full minute");
    assert_eq!(column(Metric::FanSpeed), [None, None, Some(Reading::Unsupported)]);
    let busy: Vec<_> = first.track.points.iter().map(|point| point.busy.number()).collect();
    assert_eq!(busy, [Some(97), Some(100), Some(0)]);
}

#[test]
fn what_the_server_has_is_passed_over_and_the_rest_is_the_same() {
    let (whole, _) = sealed(LOG, None);
    let (rest, covered) = sealed(LOG, Some(Timestamp(1_785_556_800_000)));
    assert_eq!((rest.len(), covered), (2, 1));
    for (before, after) in whole[1..].iter().zip(&rest) {
        let (before, after) = (before.as_ref().unwrap(), after.as_ref().unwrap());
        assert_eq!(before.blocks, after.blocks);
        assert_eq!(before.head.epoch, after.head.epoch);
        assert_eq!(before.head.period, after.head.period);
    }
}

#[test]
fn a_line_that_is_not_understood_ends_the_import_and_is_named() {
    let cases = [
        ("\"leasewatch_history\":1", "\"leasewatch_history\":2", 1, "form 1"),
        ("\"origin\":\"simulated\"", "\"origin\":\"measured\"", 1, "simulated"),
        ("\"cadence_ms\":10000", "\"cadence_ms\":0", 1, "cadence"),
        (
            "\"gpu_count\":1,\"events\":[]",
            "\"gpu_count\":1,\"colour\":2,\"events\":[]",
            3,
            "colour",
        ),
        ("\"rows\":3", "\"rows\":4", 2, "number of rows"),
        ("\"rows\":3", "\"rows\":40000", 2, "40000 rows"),
        ("[5000]", "[5000,6000]", 2, "energy_mj"),
        ("\"stale\"", "\"stalf\"", 2, "no reading"),
        ("[97,100,0]", "[97,100,0.5]", 2, "floating point"),
        ("[97,100,0]", "[97,101,0]", 2, "busy_pct"),
        ("power_draw_mw\":700000", "power_draw_mw\":700050", 2, "power_draw_mw"),
        ("power_draw_mw", "power_draw_kw", 2, "power_draw_kw"),
        ("\"code\":79", "\"codes\":79", 2, "code"),
        ("\"first_at\":1785556810000", "\"first_at\":1785556790000", 3, "back in time"),
        ("GPU-a\",\"bus_id", "GPU a\",\"bus_id", 2, "gpu uuid"),
    ];
    for (from, to, line, word) in cases {
        assert!(LOG.contains(from), "{from}");
        let (segments, _) = sealed(&LOG.replacen(from, to, 1), None);
        let error = segments.last().unwrap().as_ref().unwrap_err();
        let named = error.starts_with(&format!("line {line} of the history: "));
        assert!(named && error.contains(word), "{from}: {error}");
        assert_eq!(segments.len(), (line - 1).max(1), "{from}: what stood before it is sealed");
    }
    let (segments, _) = sealed(&LOG[..LOG.len() - 30], None);
    assert!(segments[2].as_ref().unwrap_err().contains("it is cut"));
    let unstarted = LOG.lines().enumerate().filter(|(at, _)| *at != 1).map(|(_, line)| line);
    let unstarted: String = unstarted.flat_map(|line| [line, "\n"]).collect();
    assert!(sealed(&unstarted, None).0[0].as_ref().unwrap_err().contains("agent_started"));
    assert!(sealed("", None).0[0].as_ref().unwrap_err().contains("empty"));
}

#[test]
fn the_directory_is_the_agent_s_and_takes_one_past() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("state");
    let state = AgentState::open(&path).unwrap();
    let (chain, key) = (state.chain, state.identity.public_key());
    let held = AgentState::open(&path).err().unwrap();
    assert!(held.to_string().contains("an agent uses it"), "{held}");
    drop(state);
    let mode = |name| std::fs::metadata(path.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("node.key"), mode("state.toml")), (0o600, 0o600));
    let secret = std::fs::read_to_string(path.join("node.key")).unwrap();
    assert_eq!((secret.len(), secret.ends_with('\n')), (65, true));

    // Broken off, it goes on with the same key in the same chain.
    let state = AgentState::open(&path).unwrap();
    assert_eq!((state.chain, state.identity.public_key()), (chain, key));
    let (segments, _) = sealed(LOG, None);
    let head = &segments[2].as_ref().unwrap().head;
    state.finish(ChainEnd::of(head)).unwrap();
    let text = std::fs::read_to_string(path.join("state.toml")).unwrap();
    let expected = format!(
        "version = 1\n\n[chain]\nid = \"{chain}\"\nsequence = 3\nhead = \"{}\"\nended_at_ms = 1785557460000\n",
        head.hash()
    );
    assert_eq!(text, expected);
    assert!(matches!(AgentState::open(&path), Err(ImportError::HasRecorded)));
}
