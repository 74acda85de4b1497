//! What happened on a node, in a sentence.
//!
//! The match is exhaustive: a new kind of event in core needs its words here. Text inside an event
//! comes from a driver or a kernel and is only ever a placeholder's value.

pub mod wiring;

use leasewatch_core::evidence::chain::ChainStartReason;
use leasewatch_core::segment::{Event, EventKind, GpuInventory, HostInventory, JobEnd, StopReason};

use crate::format::{Measure, Missing, Quantity};
use crate::i18n::{Language, Text, phrase};

/// How much attention an event deserves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// A fault of hardware or driver.
    Fault,
    /// Something to know when reading the hours around it.
    Notice,
    /// The normal course of things.
    Plain,
}

impl Weight {
    /// The weight of an event.
    #[must_use]
    pub fn of(event: &Event) -> Self {
        match event.kind {
            EventKind::GpuLost { .. }
            | EventKind::GpuMissing { .. }
            | EventKind::Xid { .. }
            | EventKind::EccUncorrected { .. }
            | EventKind::CollectorStalled
            | EventKind::NvmlUnavailable { .. } => Self::Fault,
            EventKind::GpuReplaced { .. }
            | EventKind::NoGpuAttached
            | EventKind::DriverReloaded
            | EventKind::CollectorResumed { .. }
            | EventKind::ClockStepped { .. }
            | EventKind::MigChanged { .. }
            | EventKind::PartitionRemoved
            | EventKind::PowerLimitChanged { .. }
            | EventKind::ReadingsDropped { .. }
            | EventKind::TicksMissed { .. } => Self::Notice,
            EventKind::AgentStarted { .. }
            | EventKind::Goodbye { .. }
            | EventKind::HostSeen(_)
            | EventKind::GpuSeen(_)
            | EventKind::GpuWired(_)
            | EventKind::DiskSeen(_)
            | EventKind::GpuBack
            | EventKind::JobStarted { .. } => Self::Plain,
            EventKind::JobEnded { end: JobEnd::Exited(0), .. } => Self::Plain,
            EventKind::JobEnded { .. } => Self::Notice,
        }
    }

    /// The weight of the start of a chain: a break is to be known, a first one is not alarming.
    #[must_use]
    pub fn of_chain_start(reason: ChainStartReason) -> Self {
        if reason.is_break() { Self::Notice } else { Self::Plain }
    }

    /// Its name in class names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Notice => "notice",
            Self::Plain => "plain",
        }
    }
}

/// The event in words.
#[must_use]
pub fn describe(kind: &EventKind, language: Language) -> String {
    let words = |text: Text| text.words(language).to_owned();
    let count = |count: &i64| Quantity::count(*count).text(language);
    match kind {
        EventKind::AgentStarted { version, .. } => phrase::event_agent_started(language, version),
        EventKind::Goodbye { reason } => {
            phrase::event_goodbye(language, stop_reason(*reason).words(language))
        }
        EventKind::HostSeen(host) => host_seen(host, language),
        EventKind::GpuSeen(gpu) => gpu_seen(gpu, language),
        EventKind::GpuWired(wiring) => wiring::wiring(wiring, language),
        EventKind::DiskSeen(disk) => {
            phrase::wiring_disk_seen(language, wiring::disk(disk, language))
        }
        EventKind::GpuLost { nvml_code } => phrase::event_gpu_lost(language, nvml_code),
        EventKind::GpuBack => words(Text::EventGpuBack),
        EventKind::GpuMissing { bus_id } => phrase::event_gpu_missing(language, bus_id),
        EventKind::GpuReplaced { bus_id, old, new } => {
            phrase::event_gpu_replaced(language, bus_id, new, old)
        }
        EventKind::NoGpuAttached => words(Text::EventNoGpuAttached),
        EventKind::NvmlUnavailable { nvml_code } => {
            phrase::event_nvml_unavailable(language, nvml_code)
        }
        EventKind::DriverReloaded => words(Text::EventDriverReloaded),
        EventKind::Xid { code } => phrase::event_xid(language, code),
        EventKind::EccUncorrected { count: n } => phrase::event_ecc_uncorrected(language, count(n)),
        EventKind::CollectorStalled => words(Text::EventCollectorStalled),
        EventKind::CollectorResumed { stalled_ms } => phrase::event_collector_resumed(
            language,
            Quantity::duration_ms(*stalled_ms).text(language),
        ),
        EventKind::ClockStepped { by_ms } => {
            let by = Quantity::offset_us(by_ms.saturating_mul(1_000));
            phrase::event_clock_stepped(language, by.text(language))
        }
        EventKind::PartitionRemoved => words(Text::EventPartitionRemoved),
        EventKind::MigChanged { enabled: true } => words(Text::EventMigOn),
        EventKind::MigChanged { enabled: false } => words(Text::EventMigOff),
        EventKind::PowerLimitChanged { from_mw, to_mw } => phrase::event_power_limit_changed(
            language,
            Quantity::whole_power_mw(*from_mw).text(language),
            Quantity::whole_power_mw(*to_mw).text(language),
        ),
        EventKind::ReadingsDropped { metric, count: n } => {
            phrase::event_readings_dropped(language, count(n), metric)
        }
        EventKind::TicksMissed { count: n } => phrase::event_ticks_missed(language, count(n)),
        EventKind::JobStarted { name } => phrase::event_job_started(language, name),
        EventKind::JobEnded { name, end: JobEnd::Exited(code) } => {
            phrase::event_job_exited(language, code, name)
        }
        EventKind::JobEnded { name, end: JobEnd::Signalled(signal) } => {
            phrase::event_job_signalled(language, name, signal)
        }
    }
}

/// The start of a chain in words.
#[must_use]
pub fn describe_chain_start(reason: ChainStartReason, language: Language) -> &'static str {
    let text = match reason {
        ChainStartReason::Joined => Text::EventChainJoined,
        ChainStartReason::LostState => Text::EventChainLostState,
        ChainStartReason::Refused => Text::EventChainRefused,
    };
    text.words(language)
}

fn host_seen(host: &HostInventory, language: Language) -> String {
    phrase::event_host_seen(
        language,
        Quantity::count(host.cpus).text(language),
        &host.driver_version,
        &host.hostname,
        Quantity::memory_mib(host.memory_mib).text(language),
    )
}

fn gpu_seen(gpu: &GpuInventory, language: Language) -> String {
    let memory = gpu.memory_total_mib.map(Quantity::memory_mib);
    let memory = memory.map_or(Measure::Missing(Missing::Unsupported), Measure::Known);
    phrase::event_gpu_seen(language, &gpu.bus_id, memory.text(language), &gpu.name)
}

fn stop_reason(reason: StopReason) -> Text {
    match reason {
        StopReason::Upgrade => Text::StopUpgrade,
        StopReason::Shutdown => Text::StopShutdown,
        StopReason::LeaseEnd => Text::StopLeaseEnd,
        StopReason::ImportEnd => Text::StopImportEnd,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_sentence_in_both_languages() {
        let limit = EventKind::PowerLimitChanged { from_mw: 700_000, to_mw: 500_000 };
        assert_eq!(
            describe(&limit, Language::En),
            "Power limit changed from 700\u{202f}W to 500\u{202f}W"
        );
        assert_eq!(describe(&limit, Language::ZhCn), "功耗上限由 700\u{202f}W 变为 500\u{202f}W");
        let stalled = EventKind::CollectorResumed { stalled_ms: 65_000 };
        assert_eq!(
            describe(&stalled, Language::En),
            "Driver answered again after 1\u{202f}min\u{a0}5\u{202f}s"
        );
        let killed = EventKind::JobEnded { name: "train".to_owned(), end: JobEnd::Signalled(9) };
        assert_eq!(describe(&killed, Language::En), "Job train was ended by signal 9");
        assert_eq!(describe(&killed, Language::ZhCn), "作业 train 被信号 9 终止");
    }
}
