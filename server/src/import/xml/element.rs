//! One `<gpu>` element as paths and texts.

use std::collections::HashMap;

use leasewatch_core::sample::Reading;

/// Values of one GPU; a real one has about 200.
const VALUES_MAX: usize = 4_096;

/// NVML's bits by the names that the schema has for them.
const REASONS: [(&str, i64); 9] = [
    ("gpu_idle", 0x1),
    ("applications_clocks_setting", 0x2),
    ("sw_power_cap", 0x4),
    ("hw_slowdown", 0x8),
    ("sync_boost", 0x10),
    ("sw_thermal_slowdown", 0x20),
    ("hw_thermal_slowdown", 0x40),
    ("hw_power_brake_slowdown", 0x80),
    ("display_clocks_setting", 0x100),
];

/// What stands in a `<gpu>` element.
pub(super) struct Element {
    /// Its attribute: the bus id.
    pub(super) id: Option<String>,
    values: HashMap<String, String>,
}

impl Element {
    pub(super) fn new(id: Option<String>) -> Self {
        Self { id, values: HashMap::new() }
    }

    /// The first text of a path counts.
    pub(super) fn put(&mut self, path: String, text: &str) {
        if self.values.len() < VALUES_MAX {
            self.values.entry(path).or_insert_with(|| text.to_owned());
        }
    }

    pub(super) fn get(&self, path: &str) -> Option<&str> {
        self.values.get(path).map(String::as_str)
    }

    /// The mask that the schema spells out; `None` when it has no such list.
    pub(super) fn clock_event_reasons(&self) -> Option<Reading> {
        let (mut bits, mut found) = (0, false);
        for (reason, bit) in REASONS {
            let states = ["clocks_event_reason", "clocks_throttle_reason"];
            let state =
                states.iter().find_map(|name| self.get(&format!("{name}s/{name}_{reason}")));
            found |= state.is_some_and(|state| matches!(state, "Active" | "Not Active"));
            if state == Some("Active") {
                bits |= bit;
            }
        }
        found.then_some(Reading::Number(bits))
    }
}
