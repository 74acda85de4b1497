//! `run --once`: one sample, with everything named and nothing written.

use crate::rig::Rig;

#[test]
fn a_sample_has_every_reading_with_its_unit_and_names_what_is_not_offered() {
    let rig = Rig::of_cards("RTX-4090", 70, "");
    let state = rig.state_dir().display().to_string();
    let text = rig.run(&["run", "--once", "--state-dir", &state]);
    assert_eq!(text.code, Some(0), "{}", text.err);
    assert!(text.out.contains("SIMULATED") && text.out.contains("NVIDIA GeForce RTX 4090"));
    let has =
        |line: &str| text.out.lines().any(|other| other.split_whitespace().eq(line.split(' ')));
    for line in
        ["utilization_pct 70 %", "memory_total_mib 24564 MiB", "memory_temperature_c unsupported"]
    {
        assert!(has(line), "{line}: {}", text.out);
    }
    let json = rig.run(&["run", "--once", "--json", "--state-dir", &state]).json();
    assert_eq!(json["origin"], "simulated");
    let readings = &json["gpus"][1]["readings"];
    assert_eq!(readings["utilization_pct"], 70);
    assert_eq!(readings["memory_temperature_c"], "unsupported");
    assert!(readings["power_draw_mw"].as_i64().unwrap() > 10_000);
    assert!(json["host"]["host_memory_total_mib"].as_i64().unwrap() > 0);
    assert!(!rig.state_dir().exists(), "nothing is written");
}

#[test]
fn slices_are_shown_and_a_card_that_is_lost_is_named() {
    let cut = "[[faults]]\nkind = \"mig_on\"\ncard = 0\nslices = [{ compute_slices = 3, \
               gpu_instance = 2, percent = 90 }]\n[[faults]]\nkind = \"gpu_lost\"\ncard = 1\n";
    let ended = Rig::of_cards("H100-SXM5-80GB", 40, cut).run(&["run", "--once", "--json"]);
    let json = ended.json();
    let gpu = &json["gpus"][0];
    assert_eq!(gpu["readings"]["utilization_pct"], "unsupported");
    assert_eq!(gpu["slices"][0]["readings"]["utilization_pct"], 90);
    assert!(json["gpus"][1]["error"].as_str().unwrap().contains("lost"), "{json}");
    assert_eq!(ended.code, Some(0), "one was read");
}

#[test]
fn without_a_driver_the_host_is_shown_and_the_code_says_so() {
    let rig = Rig::of_cards("T4", 0, "[[faults]]\nkind = \"driver_not_loaded\"\n");
    let ended = rig.run(&["run", "--once", "--json"]);
    assert_eq!(ended.code, Some(4));
    assert!(ended.json()["host"].is_object());
}
