//! Content that no block may have, and sizes that are refused before anything is allocated.

use super::super::super::bits::put_varint;
use super::*;
use crate::sample::{HostMetric, Metric};
use crate::segment::{Event, EventKind, JobEnd, Partition};

fn with_gpu(change: impl FnOnce(&mut GpuBlock)) -> Result<Vec<u8>, EncodeError> {
    let mut gpu = small_gpu();
    change(&mut gpu);
    Block::Gpu(gpu).encode()
}

#[test]
fn times_ascend_and_lie_in_range() {
    let ticks = Err(EncodeError::Times { what: "ticks" });
    assert_eq!(with_gpu(|gpu| gpu.ticks.swap(0, 1)), ticks);
    assert_eq!(with_gpu(|gpu| gpu.ticks[1] = gpu.ticks[0]), ticks);
    assert_eq!(with_gpu(|gpu| gpu.ticks[0] = Timestamp::MIN.plus_ms(-1)), ticks);
    assert_eq!(with_gpu(|gpu| gpu.ticks[2] = Timestamp::MAX.plus_ms(1)), ticks);
    let points = Err(EncodeError::Times { what: "track points" });
    assert_eq!(with_gpu(|gpu| gpu.track.points.swap(0, 1)), points);
    let host =
        |ticks: Vec<Timestamp>| Block::Host(HostBlock { ticks, columns: Vec::new() }).encode();
    assert_eq!(host(Vec::new()), Err(EncodeError::Empty { what: "host ticks" }));
    assert!(host(vec![Timestamp::MIN, Timestamp::MAX]).is_ok());
}

#[test]
fn columns_ascend_match_the_ticks_and_hold_something() {
    let column = |metric| Err(EncodeError::Column { metric });
    assert_eq!(with_gpu(|gpu| gpu.columns.swap(0, 1)), column("memory_total_mib"));
    assert_eq!(
        with_gpu(|gpu| gpu.columns[1].metric = Metric::MemoryTotal),
        column("memory_total_mib")
    );
    assert_eq!(with_gpu(|gpu| gpu.columns[0].readings = vec![None; 3]), column("memory_total_mib"));
    assert_eq!(with_gpu(|gpu| gpu.columns[2].readings.truncate(2)), column("fan_speed_pct"));
    assert_eq!(with_gpu(|gpu| gpu.ticks.clear()), column("memory_total_mib"));
}

#[test]
fn numbers_are_in_range_and_multiples_of_the_resolution() {
    let power = |value| with_gpu(|gpu| gpu.columns[1].readings[0] = Some(Reading::Number(value)));
    for value in [-100, 50, 71_301, 10_000_100, i64::MIN, i64::MAX] {
        assert_eq!(power(value), Err(EncodeError::Value { metric: "power_draw_mw", value }));
    }
    assert!(power(0).is_ok() && power(10_000_000).is_ok());
    let busy = |value| with_gpu(|gpu| gpu.track.points[0].busy = Reading::Number(value));
    assert_eq!(busy(101), Err(EncodeError::Value { metric: "busy_pct", value: 101 }));
    assert_eq!(busy(-1), Err(EncodeError::Value { metric: "busy_pct", value: -1 }));
    let period = |ms| with_gpu(|gpu| gpu.track.period_ms = ms);
    assert_eq!(period(0), Err(EncodeError::Period { got: 0 }));
    assert_eq!(period(3_600_001), Err(EncodeError::Period { got: 3_600_001 }));
    assert!(period(3_600_000).is_ok());
}

#[test]
fn a_slice_is_a_share_of_another_gpu() {
    let uuid = small_slice().uuid;
    let with_slice = |change: &dyn Fn(&mut Partition)| {
        let mut slice = small_slice();
        slice.partition.as_mut().into_iter().for_each(change);
        Block::Gpu(slice).encode()
    };
    let refused = |field| Err(EncodeError::Partition { field });
    assert_eq!(with_slice(&|part| part.parent = uuid.clone()), refused("parent"));
    assert_eq!(with_slice(&|part| part.slices = 0), refused("slices"));
    assert_eq!(with_slice(&|part| part.slices = 8), refused("slices"));
    assert!(with_slice(&|part| part.slices = 7).is_ok());
    // The same from outside: the share's bytes lie behind two headers and the parent's UUID.
    let bytes = Block::Gpu(small_slice()).encode().unwrap();
    for (at, byte) in [(21, 0), (21, 8), (22, 0)] {
        let mut odd = bytes.clone();
        odd[at] = byte;
        let error = Block::decode(&odd).unwrap_err();
        assert_eq!(error, EncodeError::Partition { field: "slices" }.into());
        assert_eq!(error.code(), "bad_block");
    }
}

#[test]
fn a_seen_slice_names_its_parent_and_its_share() {
    let decode = |partition: &str| {
        let json = format!(
            r#"[{{"at":946684800000,"bus_id":"0:1","gpu":"MIG-1","index":0,"kind":"gpu_seen","mig":true,"name":"","partition":{partition},"pci_device_id":0,"uuid":"MIG-1"}}]"#
        );
        Block::decode(&[&[VERSION, EVENTS], json.as_bytes()].concat())
    };
    let of = |slices: i64, parent: &str| {
        format!(
            r#"{{"compute_instance":0,"gpu_instance":255,"parent":"{parent}","slices":{slices},"slices_of":7}}"#
        )
    };
    assert!(decode(&of(1, "GPU-1")).is_ok());
    let invalid = |field| Err(DecodeError::Event(StatementError::Invalid { field }));
    assert_eq!(decode(&of(0, "GPU-1")), invalid("slices"));
    assert_eq!(decode(&of(8, "GPU-1")), invalid("slices"));
    assert_eq!(decode(&of(256, "GPU-1")), invalid("slices"));
    assert_eq!(decode(&of(1, "MIG-1")), invalid("parent"));
    let missing = DecodeError::Event(StatementError::Missing { field: "parent" });
    assert_eq!(decode(r#"{"gpu_instance":1}"#), Err(missing));
}

#[test]
fn events_are_clean_ordered_and_about_the_right_gpu() {
    let gpu = small_gpu().uuid;
    let at = Timestamp::MIN;
    let encode = |events: Vec<Event>| Block::Events(EventsBlock { events }).encode();
    let refused = |event: Event, field| {
        assert_eq!(encode(vec![event]), Err(StatementError::Invalid { field }.into()), "{field}");
    };
    let dropped = |metric: &str| EventKind::ReadingsDropped { metric: metric.into(), count: 1 };
    for metric in ["a\u{7}", "a\u{202e}b", &"a".repeat(limits::TEXT_CHARS + 1)] {
        refused(Event { at, gpu: None, kind: dropped(metric) }, "metric");
        assert!(encode(vec![Event::new(at, None, dropped(metric))]).is_ok());
    }
    refused(Event { at, gpu: None, kind: EventKind::GpuBack }, "gpu");
    refused(Event { at, gpu: None, kind: EventKind::PartitionRemoved }, "gpu");
    refused(Event { at, gpu: Some(gpu.clone()), kind: EventKind::NoGpuAttached }, "gpu");
    refused(Event { at, gpu: None, kind: EventKind::TicksMissed { count: -1 } }, "count");
    let job = |end| EventKind::JobEnded { name: "a".into(), end };
    refused(Event { at, gpu: Some(gpu.clone()), kind: job(JobEnd::Exited(0)) }, "gpu");
    for end in [JobEnd::Exited(256), JobEnd::Signalled(0), JobEnd::Signalled(128)] {
        refused(Event { at, gpu: None, kind: job(end) }, "exit_code");
    }
    let hostile = EventKind::JobStarted { name: "a\u{1b}[2J".into() };
    refused(Event { at, gpu: None, kind: hostile.clone() }, "name");
    assert!(encode(vec![Event::new(at, None, hostile)]).is_ok());
    let late = Event::new(at.plus_ms(1), None, EventKind::DriverReloaded);
    let early = Event::new(at, None, EventKind::DriverReloaded);
    assert!(encode(vec![early.clone(), early.clone(), late.clone()]).is_ok());
    assert_eq!(
        encode(vec![late, early.clone()]),
        Err(StatementError::Invalid { field: "at" }.into())
    );
    let out_of_range = Event { at: Timestamp(0), ..early.clone() };
    refused(out_of_range, "at");
    assert_eq!(encode(Vec::new()), Err(StatementError::Invalid { field: "events" }.into()));
    let many = limits::EVENTS + 1;
    let too_many = EncodeError::TooMany { what: "events", got: many, max: limits::EVENTS };
    assert_eq!(encode(vec![early; many]), Err(too_many));
}

#[test]
fn an_event_of_an_unknown_kind_or_with_an_unknown_field_is_refused() {
    let decode = |json: &str| Block::decode(&[&[VERSION, EVENTS], json.as_bytes()].concat());
    let invalid = |field| Err(DecodeError::Event(StatementError::Invalid { field }));
    assert!(decode(r#"[{"at":946684800000,"code":48,"kind":"xid"}]"#).is_ok());
    assert_eq!(decode(r#"[{"at":946684800000,"code":48,"kind":"xld"}]"#), invalid("kind"));
    assert_eq!(decode(r#"[{"at":946684799999,"code":48,"kind":"xid"}]"#), invalid("at"));
    let unknown = StatementError::Unknown { field: "note".into() };
    let with_note = decode(r#"[{"at":946684800000,"code":48,"kind":"xid","note":1}]"#);
    assert_eq!(with_note, Err(DecodeError::Event(unknown)));
    let spaced = decode(r#"[{"at": 946684800000,"code":48,"kind":"xid"}]"#).unwrap_err();
    assert_eq!(spaced.code(), "not_canonical");
    assert_eq!(decode("[]"), invalid("events"));
}

#[test]
fn counts_are_refused_before_anything_is_allocated() {
    let huge = |mut bytes: Vec<u8>| {
        put_varint(&mut bytes, u64::MAX);
        Block::decode(&bytes)
    };
    let too_many = |what, max| Err(DecodeError::TooMany { what, got: u64::MAX, max });
    let gpu = [VERSION, GPU, 1, b'x', 1, b'y'];
    assert_eq!(huge(gpu.to_vec()), too_many("ticks", limits::TICKS));
    let track = [&gpu[..], &[0, 1, 1]].concat();
    assert_eq!(huge([&track[..], &[0]].concat()), too_many("track points", limits::TRACK_POINTS));
    assert_eq!(huge([&track[..], &[1]].concat()), too_many("columns", 255));
    let host = [VERSION, HOST, 1, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 1, 0];
    let column = [&host[..], &[HostMetric::CpuBusy.code()]].concat();
    assert_eq!(huge(column), too_many("column bytes", limits::BLOCK_BYTES));
    let runs = [VERSION, HOST, 3, 5];
    assert_eq!(huge(runs.to_vec()), too_many("runs", 3));
    let wide = [VERSION, HOST, 3, 1, 0, 65, 0, 0];
    assert_eq!(Block::decode(&wide), Err(DecodeError::Code { what: "width" }));
    let long = vec![0; limits::BLOCK_BYTES + 1];
    let got = limits::BLOCK_BYTES as u64 + 1;
    let max = limits::BLOCK_BYTES;
    assert_eq!(Block::decode(&long), Err(DecodeError::TooMany { what: "block bytes", got, max }));
}

#[test]
fn unknown_codes_are_named() {
    let error = |bytes: &[u8]| Block::decode(bytes).unwrap_err();
    assert_eq!(error(&[]), DecodeError::Truncated);
    assert_eq!(error(&[2, GPU]), DecodeError::Version(2));
    assert_eq!(error(&[2, GPU]).code(), "unknown_version");
    assert_eq!(error(&[VERSION, 0]), DecodeError::Code { what: "block kind" });
    assert_eq!(error(&[VERSION, GPU, 1, b' ']), DecodeError::Id { what: "gpu uuid" });
    let gpu = [VERSION, GPU, 1, b'x', 1, b'y', 0];
    assert_eq!(error(&[&gpu[..], &[9, 1]].concat()), DecodeError::Code { what: "track source" });
    let metric = [&gpu[..], &[1, 1, 1, 1, 0, 0, 0]].concat();
    assert_eq!(error(&metric), DecodeError::Code { what: "metric" });
}
