//! Time of a scenario: since its epoch, on the clock that also runs while the host sleeps.

use std::io;

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::scenario::Scenario;

/// Where a session stands in its scenario.
pub(super) struct Clock {
    /// Boot time at which the scenario began; negative when it began before the boot.
    epoch_boot_us: i64,
    /// Host time of the epoch. Fixed at init: a sample keeps its time when the host clock is set,
    /// as in NVML, whose time stamps come from the CPU's clock.
    epoch_host_us: i64,
}

impl Clock {
    /// Begins at the epoch that the scenario's epoch file names, or now and writes that file.
    /// An epoch in the future was written before a reboot and is replaced.
    pub(super) fn start(scenario: &Scenario) -> io::Result<Self> {
        let now = micros(ClockId::Boottime);
        let fresh = now - i64::from(scenario.started_s_ago) * 1_000_000;
        let kept = scenario.epoch_file.as_deref().and_then(|path| {
            let text = std::fs::read_to_string(path).ok()?;
            let epoch_us: i64 = text.trim().parse::<i64>().ok()?.checked_mul(1_000)?;
            (epoch_us <= now).then_some(epoch_us)
        });
        if let (None, Some(path)) = (kept, &scenario.epoch_file) {
            std::fs::write(path, format!("{}\n", fresh.div_euclid(1_000)))?;
        }
        // Through milliseconds, so that this session and later ones count the same ticks.
        let epoch_boot_us = kept.unwrap_or(fresh.div_euclid(1_000) * 1_000);
        let epoch_host_us = micros(ClockId::Realtime) - now + epoch_boot_us;
        Ok(Self { epoch_boot_us, epoch_host_us })
    }

    pub(super) fn elapsed_us(&self) -> u64 {
        u64::try_from(micros(ClockId::Boottime) - self.epoch_boot_us).unwrap_or(0)
    }

    pub(super) fn elapsed_s(&self) -> u64 {
        self.elapsed_us() / 1_000_000
    }

    pub(super) fn host_time_us(&self, at_us: u64) -> u64 {
        u64::try_from(self.epoch_host_us).unwrap_or(0).saturating_add(at_us)
    }
}

fn micros(clock: ClockId) -> i64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    tv_sec * 1_000_000 + tv_nsec / 1_000
}
