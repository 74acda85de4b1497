//! `check`: each fault of a card shows under its own id, and nothing else does.

use crate::rig::Rig;

fn fault(kind_and_more: &str) -> String {
    format!("[[faults]]\ncard = 0\n{kind_and_more}\n")
}

/// Ids that differ, and the exit code.
fn differs(model: &str, percent: u32, faults: &str, want: &str) -> (Vec<String>, Option<i32>) {
    let rig = Rig::of_cards(model, percent, faults);
    let mut words = vec!["check", "--json"];
    if !want.is_empty() {
        words.extend(["--want", want]);
    }
    let ended = rig.run(&words);
    (ended.ids("differs"), ended.code)
}

#[test]
fn a_machine_as_it_was_sold_is_all_right_idle_and_under_load() {
    let want = "gpus=2,model=H100-SXM,memory-mib=81559,power-limit-w=700,pcie-width=16,pcie-gen=5,\
                nvlink=18,ecc=on,mig=off,persistence=on";
    for percent in [0, 100] {
        let nothing: Vec<String> = Vec::new();
        assert_eq!(differs("H100-SXM5-80GB", percent, "", want), (nothing.clone(), Some(0)));
        for model in ["RTX-4090", "V100-SXM2-32GB", "A100-PCIE-80GB", "L40S", "B200", "T4"] {
            assert_eq!(differs(model, percent, "", ""), (nothing.clone(), Some(0)), "{model}");
        }
    }
}

#[test]
fn each_fault_shows_under_its_own_id_and_no_other() {
    let cases = [
        ("kind = \"power_limit\"\nlimit_mw = 400000", "power.limit"),
        ("kind = \"enforced_below_management\"\nlimit_mw = 450000", "power.limit"),
        ("kind = \"reserved_memory\"\nmib = 8192", "memory.reserved"),
        ("kind = \"foreign_memory\"\nmib = 10240", "memory.foreign"),
        ("kind = \"locked_clocks\"\nsm_mhz = 1200", "clock.load"),
        ("kind = \"thermal_throttle\"", "throttle.now"),
        ("kind = \"power_brake\"", "throttle.now"),
        ("kind = \"nvlink_down\"\nlinks = 2", "nvlink.links"),
        ("kind = \"pcie_link\"\ngeneration = 5\nwidth = 8", "pcie.width"),
        ("kind = \"pcie_link\"\ngeneration = 3\nwidth = 16", "pcie.generation"),
        ("kind = \"ecc_uncorrected\"\ncount = 3", "ecc.uncorrected"),
        ("kind = \"remapped_rows\"\nuncorrected = 1\npending = true", "memory.rows"),
        ("kind = \"remapped_rows\"\nuncorrected = 1\nfailure = true", "memory.rows"),
        ("kind = \"recovery_action\"\ncode = 2", "recovery.action"),
        ("kind = \"masked\"\nmetrics = [\"memory_temperature\"]", "sensors.masked"),
        (
            "kind = \"masked\"\nmetrics = [\"power\", \"utilization\", \"samples\"]",
            "sensors.masked",
        ),
        ("kind = \"gpu_lost\"", "gpu.answers"),
        ("kind = \"reset_required\"", "gpu.answers"),
    ];
    for (kind, id) in cases {
        let found = differs("H100-SXM5-80GB", 100, &fault(kind), "");
        assert_eq!(found, (vec![id.to_owned()], Some(1)), "{kind}");
    }
    let pages = fault("kind = \"retired_pages\"\ncount = 2\npending = true");
    assert_eq!(differs("V100-SXM2-32GB", 0, &pages, "").0, ["memory.pages"]);
}

#[test]
fn what_differs_from_the_wanted_terms_is_told_with_both_sides() {
    let cases = [
        ("gpus=8", "gpu.count", "2 GPUs", "8"),
        ("model=H200", "gpu.model", "NVIDIA H100 80GB HBM3", "H200"),
        ("memory-mib=143771", "memory.total", "81559 MiB", "143771 MiB"),
        ("power-limit-w=750", "power.limit", "700 W", "750 W"),
        ("pcie-gen=6", "pcie.generation", "board and slot allow generation 5", "generation 6"),
        ("ecc=off", "ecc.mode", "on", "off"),
        ("mig=on", "mig.mode", "off", "on"),
        ("path=switch", "topology.path", "numa-node", "switch or nearer"),
    ];
    let rig = Rig::of_cards("H100-SXM5-80GB", 0, "");
    for (want, id, found, expected) in cases {
        let ended = rig.run(&["check", "--json", "--want", want]);
        assert_eq!((ended.ids("differs"), ended.code), (vec![id.to_owned()], Some(1)), "{want}");
        let json = ended.json();
        let checks = json["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["id"] == id).unwrap();
        assert_eq!((&check["found"], &check["expected"]), (&found.into(), &expected.into()));
        assert!(!check["advice"].as_str().unwrap().is_empty(), "{want}");
        let text = rig.run(&["check", "--want", want]).out;
        let line = text.lines().find(|line| line.starts_with("differs")).unwrap();
        assert!(line.contains(id) && line.contains(expected), "{line}");
    }
}

#[test]
fn the_way_between_gpus_is_judged_where_there_is_one_and_it_can_be_read() {
    let of = |rig: &Rig, want: &str| rig.run(&["check", "--json", "--want", want]);
    let near = Rig::new(
        "driver_version = \"590.48.01\"\n[[cards]]\nmodel = \"L40S\"\ncount = 3\n\
         numa_node = 0\nload = { shape = \"idle\" }\n",
    );
    assert_eq!(of(&near, "path=numa-node").code, Some(0));
    assert_eq!(of(&near, "path=switch").ids("differs"), ["topology.path"]);
    let alone = Rig::new(
        "driver_version = \"590.48.01\"\n[[cards]]\nmodel = \"L40S\"\nload = { shape = \"idle\" }\n",
    );
    let alone = of(&alone, "path=switch");
    assert!(alone.code == Some(0) && !alone.out.contains("topology.path"), "{}", alone.out);
    let hidden = fault("kind = \"masked\"\nmetrics = [\"topology\"]");
    let hidden = of(&Rig::of_cards("L40S", 0, &hidden), "path=switch");
    let unread = hidden.ids("not_readable");
    assert!(unread.contains(&"topology.path".to_owned()), "{}", hidden.out);
}

#[test]
fn a_card_that_bears_another_s_name_is_named() {
    let plan = "driver_version = \"590.48.01\"\n[[cards]]\nmodel = \"H100-SXM5-80GB\"\n\
                pci_device_id = 589893854\nload = { shape = \"idle\" }\n";
    let ended = Rig::new(plan).run(&["check", "--json"]);
    assert_eq!((ended.ids("differs"), ended.code), (vec!["gpu.model".to_owned()], Some(1)));
}

/// Fourteen cards of a public report showed this after a crashed job: full, with nothing on them.
#[test]
fn full_utilization_that_nothing_does_is_phantom() {
    let check = |memory_mib: u32, power_mw: u32| {
        let rig = Rig::new(
            "driver_version = \"590.48.01\"\nstarted_s_ago = 60\n[[cards]]\nmodel = \"RTX-5090\"\n\
             load = { shape = \"trace\", file = \"trace.csv\" }\n",
        );
        let row = |t_ms: u32| format!("{t_ms},100,{memory_mib},{power_mw},41\n");
        let trace = format!("t_ms,busy,mem_used_mib,power_mw,temp_c\n{}{}", row(0), row(1_000));
        std::fs::write(rig.path("trace.csv"), trace).unwrap();
        rig.run(&["check", "--json"])
    };
    let phantom = check(0, 114_000);
    assert_eq!(phantom.ids("differs"), ["utilization.phantom"], "{}", phantom.out);
    assert_eq!(check(24_000, 540_000).code, Some(0), "work");
    assert_eq!(check(0, 540_000).code, Some(0), "power without memory is no sign of it");
}

#[test]
fn idle_says_nothing_about_links_and_clocks_that_idle_lowers() {
    let rig = Rig::of_cards("RTX-4090", 0, "");
    let ended = rig.run(&["check", "--json", "--want", "pcie-gen=4"]);
    let unread = ended.ids("not_readable");
    assert_eq!(ended.code, Some(0), "{}", ended.out);
    for id in ["pcie.generation", "pstate.load", "clock.load", "ecc.uncorrected", "memory.rows"] {
        assert!(unread.contains(&id.to_owned()), "{id}: {unread:?}");
    }
}

#[test]
fn missing_readings_are_neither_good_nor_bad_and_nonsense_is_no_number() {
    let old = Rig::of_cards("V100-SXM2-32GB", 40, "[[faults]]\nkind = \"old_driver\"\n");
    assert_eq!(old.run(&["check"]).code, Some(0));
    let failing = fault("kind = \"nvml_error\"\ncode = 999\nmetrics = [\"power\", \"ecc\"]");
    let failing = Rig::of_cards("H100-SXM5-80GB", 40, &failing).run(&["check", "--json"]);
    assert_eq!((failing.ids("differs").len(), failing.code), (0, Some(0)), "{}", failing.out);
    assert!(failing.ids("not_readable").contains(&"sensors.error".to_owned()));
    let garbage = Rig::of_cards("H100-SXM5-80GB", 40, &fault("kind = \"garbage\""));
    let garbage = garbage.run(&["check", "--json"]);
    for id in ["throttle.now", "ecc.uncorrected", "power.limit"] {
        assert!(!garbage.ids("differs").contains(&id.to_owned()), "{}", garbage.out);
    }
}

#[test]
fn nothing_to_check_and_nothing_to_understand_have_codes_of_their_own() {
    let none = Rig::of_cards("T4", 0, "[[faults]]\nkind = \"zero_devices\"\n");
    assert_eq!(none.run(&["check"]).code, Some(4));
    assert_eq!(none.run(&["check", "--want", "gpus=2"]).code, Some(1), "none is not two");
    let unloaded = Rig::of_cards("T4", 0, "[[faults]]\nkind = \"driver_not_loaded\"\n");
    assert_eq!(unloaded.run(&["check"]).code, Some(4));
    assert_eq!(unloaded.run(&["check", "--nvml-library", "/nowhere.so"]).code, Some(4));
    let mismatch = "[[faults]]\nkind = \"nvml_error\"\ncode = 18\nmetrics = [\"identity\"]\n";
    assert_eq!(Rig::of_cards("T4", 0, mismatch).run(&["check"]).code, Some(1));
    for bad in [&["--want", "gpus=x"][..], &["--terms", "/nowhere"], &["--wan", "gpus=8"]] {
        assert_eq!(none.run(&[&["check"], bad].concat()).code, Some(2), "{bad:?}");
    }
}

#[test]
fn terms_can_stand_in_a_file() {
    let rig = Rig::of_cards("H100-SXM5-80GB", 0, "");
    std::fs::write(rig.path("terms.toml"), "gpus = 8\nmodel = \"H100-SXM\"\n").unwrap();
    let path = rig.path("terms.toml").display().to_string();
    let of = |more: &[&str]| rig.run(&[&["check", "--json", "--terms", &path], more].concat());
    assert_eq!(of(&[]).ids("differs"), ["gpu.count"]);
    assert_eq!(of(&["--want", "gpus=2"]).code, Some(0));
}
