//! How GPUs hang in their host, through the C interface.

use leasewatch_core::id::BusId;
use leasewatch_core::segment::{
    EventKind, GpuPaths, GpuWiring, NvlinkGroup, NvlinkRemote, PathLevel, Unread, WorkDisk,
};

use super::case::{Case, FIRST, SECOND, SECOND_BUS, fault, fault_free, play};

fn wired<'a>(case: &'a Case, uuid: &str) -> Option<&'a GpuWiring> {
    case.events().into_iter().rev().find_map(|event| match &event.kind {
        EventKind::GpuWired(wiring) if event.gpu.as_ref()?.as_str() == uuid => Some(wiring),
        _ => None,
    })
}

fn both_are_wired(case: &mut Case) {
    case.until("wiring", |case| wired(case, FIRST).is_some() && wired(case, SECOND).is_some());
}

fn links(count: i64, up: bool) -> NvlinkGroup {
    NvlinkGroup {
        count,
        up,
        version: Some(6),
        speed_mb_s: up.then_some(25_000),
        remote: if up { NvlinkRemote::Switch } else { NvlinkRemote::Unknown },
    }
}

#[test]
fn each_gpu_tells_once_how_it_hangs_in_its_host_and_the_host_on_what_it_works() {
    play(&fault_free(), |case| {
        both_are_wired(case);
        let first = wired(case, FIRST).unwrap();
        assert_eq!(first.numa_nodes.as_deref(), Ok("0"));
        assert_eq!(first.cpus.as_deref(), Ok("0-31"));
        let found = first.nvlinks.as_ref().unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(NvlinkGroup { speed_mb_s: Some(25_000), ..found[0].clone() }, links(18, true));
        let second = BusId::new(SECOND_BUS).unwrap();
        let paths = [GpuPaths { level: Ok(PathLevel::NumaNode), bus_ids: vec![second] }];
        assert_eq!(first.paths, paths, "each pair stands once");
        assert_eq!(wired(case, SECOND).unwrap().paths, []);
        // Several more looks at the list.
        case.until_reads(FIRST, 12);
        let told = |is: fn(&EventKind) -> bool| {
            case.events().iter().filter(|event| is(&event.kind)).count()
        };
        assert_eq!(told(|kind| matches!(kind, EventKind::GpuWired(_))), 2);
        assert_eq!(told(|kind| matches!(kind, EventKind::DiskSeen(WorkDisk { .. }))), 1);
    });
}

#[test]
fn links_that_are_down_and_what_may_not_be_asked_say_so() {
    let faults = "kind = \"nvlink_down\"\ncard = 0\nlinks = 2\n\
                  [[faults]]\nkind = \"masked\"\ncard = 1\nmetrics = [\"topology\"]\ncode = 4";
    play(&fault(faults), |case| {
        both_are_wired(case);
        let found = wired(case, FIRST).unwrap().nvlinks.as_ref().unwrap();
        let states: Vec<(i64, bool)> = found.iter().map(|group| (group.count, group.up)).collect();
        assert_eq!(states, [(2, false), (16, true)]);
        let second = wired(case, SECOND).unwrap();
        assert_eq!(
            (&second.numa_nodes, &second.cpus),
            (&Err(Unread::Denied), &Err(Unread::Denied))
        );
        assert!(second.nvlinks.is_ok());
    });
}

#[test]
fn a_hung_gpu_keeps_nobody_from_telling() {
    play(&fault("kind = \"hang\"\ncard = 0"), |case| {
        case.until("wiring", |case| wired(case, SECOND).is_some());
        assert_eq!(wired(case, FIRST), None);
    });
}
