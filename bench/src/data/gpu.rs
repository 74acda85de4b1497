//! One simulated node: a job that comes and goes, and eight H100 that feel it.

use super::noise::Noise;
use super::{BUSY_QUANTILES, NodeSamples, READINGS, Sample};

/// Seconds that a job lasts on average; between jobs there is another draw, which may be idle.
const JOB_S: i64 = 1_200;
/// Above this a GPU's power is capped.
const CAP_MW: i64 = 660_000;

/// A node whose samples are asked for stretch by stretch, without a hole between.
#[derive(Debug, Clone)]
pub struct SimulatedNode {
    noise: Noise,
    level: i64,
    job_ends_in_s: i64,
    gpus: Vec<Gpu>,
}

#[derive(Debug, Clone)]
struct Gpu {
    noise: Noise,
    phase_ms: i64,
    busy: i64,
    power_mw: i64,
    temperature_c: i64,
    energy_mj: i64,
    pcie_kib: [i64; 2],
    nvlink_kib: [i64; 2],
    throttled_ns: i64,
}

impl SimulatedNode {
    /// Node `number` of the fleet with its GPUs.
    #[must_use]
    pub fn new(number: u64, gpus: usize) -> Self {
        let mut noise = Noise::new(number, 0);
        // All GPUs of a node are read within some tens of milliseconds.
        let phase_ms = noise.below(300);
        let gpus =
            (1..).take(gpus).map(|gpu| Gpu::new(Noise::new(number, gpu), phase_ms)).collect();
        let job_ends_in_s = noise.below(JOB_S * 2);
        Self { level: level(&mut noise), job_ends_in_s, gpus, noise }
    }

    /// The next `seconds` seconds; `start_ms` is when the first of them begins.
    pub fn seconds(&mut self, start_ms: i64, seconds: i64) -> NodeSamples {
        let mut gpus = vec![Vec::new(); self.gpus.len()];
        for second in 0..seconds {
            self.job_ends_in_s -= 1;
            if self.job_ends_in_s <= 0 {
                self.level = level(&mut self.noise);
                self.job_ends_in_s = 1 + self.noise.below(JOB_S * 2);
            }
            for (gpu, samples) in self.gpus.iter_mut().zip(&mut gpus) {
                samples.push(gpu.sample(start_ms + second * 1_000, self.level));
            }
        }
        NodeSamples { gpus }
    }
}

/// What a new job keeps its GPUs at.
fn level(noise: &mut Noise) -> i64 {
    // Between the twentieths the distribution is a step, as it is in the trace.
    let place = usize::try_from(noise.below(20)).unwrap_or(0);
    BUSY_QUANTILES[place + 1]
}

impl Gpu {
    fn new(mut noise: Noise, phase_ms: i64) -> Self {
        let mut counter = || 40_000_000_000 + noise.below(1_000_000_000_000);
        Self {
            phase_ms,
            busy: 0,
            power_mw: 70_000,
            temperature_c: 58,
            energy_mj: counter(),
            pcie_kib: [counter(), counter()],
            nvlink_kib: [counter(), counter()],
            throttled_ns: counter(),
            noise,
        }
    }

    fn sample(&mut self, second_ms: i64, level: i64) -> Sample {
        self.step(level);
        let at_ms = second_ms + self.phase_ms + self.noise.below(4) + 1;
        Sample { at_ms, values: self.values(level) }
    }

    fn step(&mut self, level: i64) {
        let noise = &mut self.noise;
        self.busy = match level {
            0 => 0,
            // A training step ends, gradients travel.
            90.. if noise.below(20) == 0 => 60 + noise.below(40),
            90.. => (level + 1 - noise.below(3)).min(100),
            _ => (level + noise.bell(45)).clamp(0, 100),
        };
        let power = match level {
            0 => 71_000 + noise.bell(700),
            _ => 180_000 + self.busy * 4_900 + noise.bell(22_000),
        };
        // The driver averages over about a second.
        self.power_mw = (self.power_mw + 3 * power) / 4;
        self.energy_mj += self.power_mw;
        let target_c = if level == 0 { 33 } else { 48 + self.power_mw / 40_000 };
        if noise.below(6) == 0 {
            self.temperature_c += (target_c - self.temperature_c).signum() + noise.below(3) - 1;
        }
        let active = i64::from(level > 0);
        for kib in &mut self.pcie_kib {
            *kib += active * (1_600_000 + noise.bell(500_000)) + noise.below(40);
        }
        for kib in &mut self.nvlink_kib {
            *kib += i64::from(level >= 90) * (48_000_000 + noise.bell(6_000_000));
        }
        if self.power_mw > CAP_MW {
            self.throttled_ns += noise.below(900_000_000);
        }
    }

    /// Utilization, then the order of [`super::METRICS`].
    fn values(&mut self, level: i64) -> [i64; READINGS] {
        let (idle, capped, busy) = (level == 0, self.power_mw > CAP_MW, self.busy);
        let noise = &mut self.noise;
        let sm_clock = match (idle, capped) {
            (true, _) => 345,
            (false, true) => 1_980 - 15 * noise.below(9),
            (false, false) => 1_980,
        };
        let mut share = |of: i64| match idle {
            true => 0,
            false => (busy * of / 100 + noise.bell(60)).clamp(0, 1_000),
        };
        let (sm, tensor, dram) = (share(930), share(480), share(410));
        let memory_busy = if idle { 0 } else { (busy * 45 / 100 + noise.bell(8)).clamp(0, 100) };
        let used = if idle { 4 } else { 71_204 + i64::from(busy < 70) * 2 };
        let reasons = if idle { 1 } else { 4 * i64::from(capped) };
        let memory_c = self.temperature_c + 9 + noise.below(2);
        let [tx, rx] = self.pcie_kib;
        let [nvlink_tx, nvlink_rx] = self.nvlink_kib;
        [
            [busy, memory_busy, used, 81_559, 551].as_slice(),
            &[self.power_mw, self.temperature_c, memory_c, sm_clock, 2_619],
            &[reasons, i64::from(idle) * 8, 700_000, 700_000, 1_980],
            &[2_619, self.energy_mj, 5, 16, 0],
            &[tx, rx, 18, nvlink_tx, nvlink_rx],
            &[3, 0, 0, 1, 0],
            &[0, self.throttled_ns, 0, 0, sm],
            &[tensor, dram, i64::from(!idle), 0, 0],
        ]
        .concat()
        .try_into()
        .unwrap_or([0; READINGS])
    }
}
