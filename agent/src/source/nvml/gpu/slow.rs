//! The slow lane: limits, counters, links, errors and GPM activity.

use leasewatch_core::sample::{Metric, Reading};
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError};
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::gpm::gpm_metrics_get;

use super::{Gone, GpuReader, mib, present};
use crate::source::nvml::checked;
use crate::source::nvml::failure::Failure;
use crate::source::nvml::field::{NVLINK_COUNT, fields, low_63_bits, whole};
use crate::source::nvml_raw;

/// GPM metrics and what they are readings of, in the order they are asked for.
pub(super) const GPM: [(Metric, GpmMetricId); 3] = [
    (Metric::SmActive, GpmMetricId::SmUtil),
    (Metric::TensorActive, GpmMetricId::AnyTensorUtil),
    (Metric::DramActive, GpmMetricId::DramBwUtil),
];
/// More links than any board has; bounds the loop over what the driver claims.
const NVLINK_MAX: u32 = 64;

impl<'nvml> GpuReader<'nvml> {
    pub(super) fn slow(&mut self, out: &mut Vec<(Metric, Reading)>) -> Result<(), Gone> {
        self.mode(out)?;
        self.memory(out)?;
        self.limits(out)?;
        self.errors(out)?;
        self.fields(out)?;
        self.gpm(out)
    }

    /// One call of the slow lane. Only the fast lane decides that a GPU is lost: some calls keep
    /// working on a lost one and some fail on a healthy one.
    fn ask(
        &mut self,
        out: &mut Vec<(Metric, Reading)>,
        metric: Metric,
        call: impl FnOnce(&Device<'nvml>) -> Result<i64, Failure>,
    ) -> Result<(), Gone> {
        match self.take(out, metric, call) {
            Err(Gone::Lost(_)) => {
                out.push((metric, Reading::Error));
                Ok(())
            }
            other => other,
        }
    }

    fn mode(&mut self, out: &mut Vec<(Metric, Reading)>) -> Result<(), Gone> {
        self.ask(out, Metric::MigMode, |device| {
            checked(device.mig_mode()).map(|mode| i64::from(mode.current))
        })?;
        let mig = match out.last() {
            Some((Metric::MigMode, Reading::Number(mode))) => *mode == 1,
            Some((Metric::MigMode, Reading::Unsupported)) => false,
            _ => self.mig,
        };
        if mig != self.mig {
            self.mig = mig;
            self.permanent.forget_all();
        }
        Ok(())
    }

    fn memory(&mut self, out: &mut Vec<(Metric, Reading)>) -> Result<(), Gone> {
        self.ask(out, Metric::MemoryReserved, |device| {
            checked(device.memory_info()).map(|memory| mib(memory.reserved))
        })?;
        // The first version of the call folds the reserved part into the used part, so it can
        // stand in for the total alone.
        self.ask(out, Metric::MemoryTotal, |device| match checked(device.memory_info()) {
            Err(Failure::Unsupported) => {
                nvml_raw::memory_v1(device).map(|(total, _)| mib(total)).map_err(Failure::from_code)
            }
            other => other.map(|memory| mib(memory.total)),
        })
    }

    fn limits(&mut self, out: &mut Vec<(Metric, Reading)>) -> Result<(), Gone> {
        let count = |answer| checked(answer).map(i64::from);
        self.ask(out, Metric::PowerLimitEnforced, |d| count(d.enforced_power_limit()))?;
        self.ask(out, Metric::PowerLimitManagement, |d| count(d.power_management_limit()))?;
        self.ask(out, Metric::PowerLimitDefault, |d| count(d.power_management_limit_default()))?;
        self.ask(out, Metric::SmClockMax, |d| count(d.max_clock_info(Clock::SM)))?;
        self.ask(out, Metric::MemoryClockMax, |d| count(d.max_clock_info(Clock::Memory)))?;
        self.ask(out, Metric::Energy, |d| checked(d.total_energy_consumption()).map(low_63_bits))?;
        self.ask(out, Metric::PcieGeneration, |d| count(d.current_pcie_link_gen()))?;
        self.ask(out, Metric::PcieWidth, |d| count(d.current_pcie_link_width()))?;
        self.ask(out, Metric::FanSpeed, |d| count(d.fan_speed(0)))?;
        self.ask(out, Metric::EncoderBusy, |d| {
            checked(d.encoder_utilization()).map(|info| i64::from(info.utilization))
        })?;
        self.ask(out, Metric::DecoderBusy, |d| {
            checked(d.decoder_utilization()).map(|info| i64::from(info.utilization))
        })?;
        if self.options.process_counts {
            self.ask(out, Metric::ComputeProcesses, |d| {
                count(d.running_compute_processes_count())
            })?;
        }
        let links = self.nvlink_links();
        self.ask(out, Metric::NvlinkActive, |device| active_links(device, links?))
    }

    fn errors(&mut self, out: &mut Vec<(Metric, Reading)>) -> Result<(), Gone> {
        for (metric, error, counter) in [
            (Metric::EccCorrected, MemoryError::Corrected, EccCounter::Volatile),
            (Metric::EccUncorrected, MemoryError::Uncorrected, EccCounter::Volatile),
            (Metric::EccUncorrectedAggregate, MemoryError::Uncorrected, EccCounter::Aggregate),
        ] {
            self.ask(out, metric, |device| {
                checked(device.total_ecc_errors(error, counter)).map(low_63_bits)
            })?;
        }
        let rows = nvml_raw::remapped_rows(&self.device).map_err(Failure::from_code);
        let metrics = [
            Metric::RemappedCorrected,
            Metric::RemappedUncorrected,
            Metric::RemapPending,
            Metric::RemapFailure,
        ];
        for (at, metric) in metrics.into_iter().enumerate() {
            self.ask(out, metric, |_| rows.map(|rows| i64::from(rows[at])))?;
        }
        Ok(())
    }

    fn fields(&mut self, out: &mut Vec<(Metric, Reading)>) -> Result<(), Gone> {
        let fields = fields(self.numbering);
        match nvml_raw::field_values(&self.device, &fields.map(|field| field.query)) {
            Ok(answers) => out.extend(
                fields
                    .iter()
                    .zip(answers)
                    .map(|(field, answer)| (field.metric, field.reading(answer))),
            ),
            Err(code) => {
                let reading = match present(Failure::from_code(code)) {
                    Err(Gone::Lost(_)) => Reading::Error,
                    other => other?,
                };
                out.extend(fields.iter().map(|field| (field.metric, reading)));
            }
        }
        Ok(())
    }

    /// Activity between the last slow read and this one. The first read of a reader has no
    /// interval and gives nothing.
    fn gpm(&mut self, out: &mut Vec<(Metric, Reading)>) -> Result<(), Gone> {
        let supported = checked(self.device.gpm_support());
        let sample = match supported {
            Ok(true) => checked(self.device.gpm_sample()),
            Ok(false) => Err(Failure::Unsupported),
            Err(failure) => Err(failure),
        };
        let reading = match sample {
            Ok(sample) => {
                if let Some(before) = self.gpm.replace(sample) {
                    self.gpm_activity(&before, out);
                }
                return Ok(());
            }
            Err(failure) => failure.reading(),
        };
        self.gpm = None;
        out.extend(GPM.iter().map(|(metric, _)| (*metric, reading)));
        Ok(())
    }

    fn gpm_activity(
        &self,
        before: &nvml_wrapper::GpmSample<'nvml>,
        out: &mut Vec<(Metric, Reading)>,
    ) {
        let Some(after) = &self.gpm else { return };
        let answers =
            checked(gpm_metrics_get(self.device.nvml(), before, after, &GPM.map(|(_, id)| id)));
        match answers {
            Ok(answers) => out.extend(GPM.iter().zip(answers).map(|((metric, _), answer)| {
                let reading = match checked(answer) {
                    Ok(result) => permille(result.value),
                    Err(failure) => failure.reading(),
                };
                (*metric, reading)
            })),
            Err(failure) => out.extend(GPM.iter().map(|(metric, _)| (*metric, failure.reading()))),
        }
    }

    fn nvlink_links(&mut self) -> Result<u32, Failure> {
        if let Some(links) = self.nvlink_links {
            return Ok(links);
        }
        let answers =
            nvml_raw::field_values(&self.device, &[NVLINK_COUNT]).map_err(Failure::from_code)?;
        let number = answers.into_iter().next().unwrap_or(Err(999)).map_err(Failure::from_code)?;
        let links = whole(number).and_then(|links| u32::try_from(links).ok());
        let links = links.filter(|links| *links <= NVLINK_MAX).ok_or(Failure::Failed(999))?;
        self.nvlink_links = Some(links);
        Ok(links)
    }
}

/// Links that are up. Links that a board leaves out on purpose answer "not supported".
fn active_links(device: &Device<'_>, links: u32) -> Result<i64, Failure> {
    let (mut active, mut absent) = (0, 0);
    for link in 0..links {
        match checked(device.link_wrapper_for(link).is_active()) {
            Ok(true) => active += 1,
            Ok(false) => {}
            Err(Failure::Unsupported) => absent += 1,
            Err(failure) => return Err(failure),
        }
    }
    if links > 0 && absent == links { Err(Failure::Unsupported) } else { Ok(active) }
}

/// GPM's percent, a double, as per mille.
pub(super) fn permille(percent: f64) -> Reading {
    rounded(percent * 10.0)
}

/// A fraction of NVML's as the nearest whole number; the only place where fractions come in.
pub(super) fn rounded(value: f64) -> Reading {
    let whole = value.round();
    if !(0.0..=1_000_000.0).contains(&whole) {
        return Reading::Error;
    }
    #[expect(clippy::cast_possible_truncation, reason = "a whole number between 0 and 1,000,000")]
    Reading::Number(whole as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_become_permille_and_garbage_an_error() {
        assert_eq!(permille(0.0), Reading::Number(0));
        assert_eq!(permille(99.96), Reading::Number(1_000));
        assert_eq!(permille(41.24), Reading::Number(412));
        for garbage in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            assert_eq!(permille(garbage), Reading::Error, "{garbage}");
        }
    }
}
