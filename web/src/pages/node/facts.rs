//! How agent, clock and host are, in words.

use std::collections::BTreeMap;

use leasewatch_core::segment::{EventKind, Found, GpuWiring, PathLevel};

use super::{HostFacts, Page};
use crate::events::wiring;
use crate::format::{Datum, Measure, Quantity};
use crate::i18n::{Text, phrase};

impl Page<'_> {
    pub(super) fn offset_words(&self) -> String {
        let language = self.cx.language;
        let offset = self.view.agent.clock_offset_us.measure(Quantity::offset_us);
        match self.view.agent.clock_bound_us.measure(Quantity::offset_us) {
            Measure::Known(bound) if !offset.is_missing() => {
                phrase::node_offset(language, bound.text(language), offset.text(language))
            }
            _ => offset.text(language),
        }
    }

    pub(super) fn duration(&self, datum: &Datum) -> String {
        self.cx.say(datum.measure(Quantity::duration_ms))
    }

    pub(super) fn cpus(&self, host: &HostFacts) -> String {
        Quantity::count(host.cpus).text(self.cx.language)
    }

    /// The disk below the working directory.
    pub(super) fn disk(&self) -> Option<String> {
        self.view.wiring.iter().find_map(|event| match &event.kind {
            EventKind::DiskSeen(disk) => Some(wiring::disk(disk, self.cx.language)),
            _ => None,
        })
    }

    /// A line for all GPUs that hang in the host alike.
    pub(super) fn wiring(&self) -> Vec<String> {
        let language = self.cx.language;
        let mut alike: Vec<(String, Vec<String>)> = Vec::new();
        for (name, wired) in self.wired() {
            let words = wiring::wiring(wired, language);
            match alike.iter_mut().find(|(known, _)| *known == words) {
                Some((_, names)) => names.push(name),
                None => alike.push((words, vec![name])),
            }
        }
        let separator = Text::ListSeparator.words(language);
        let line = |(words, names): (String, Vec<String>)| {
            phrase::wiring_unread(language, words, names.join(separator))
        };
        alike.into_iter().map(line).collect()
    }

    /// How many pairs of GPUs have what in common.
    pub(super) fn paths(&self) -> Option<String> {
        let language = self.cx.language;
        let mut pairs: BTreeMap<(bool, Option<PathLevel>), (Found<PathLevel>, i64)> =
            BTreeMap::new();
        for paths in self.wired().flat_map(|(_, wired)| &wired.paths) {
            let count = i64::try_from(paths.bus_ids.len()).unwrap_or(i64::MAX);
            let key = (paths.level.is_err(), paths.level.ok());
            let sum = pairs.entry(key).or_insert((paths.level, 0));
            sum.1 = sum.1.saturating_add(count);
        }
        let words = pairs.into_values().map(|(level, count)| {
            let count = Quantity::count(count).text(language);
            phrase::wiring_pair(language, count, wiring::level(level).words(language))
        });
        let words: Vec<String> = words.collect();
        (!words.is_empty()).then(|| words.join(Text::ListSeparator.words(language)))
    }

    /// GPUs of the page with their wiring, in their order.
    fn wired(&self) -> impl Iterator<Item = (String, &GpuWiring)> {
        self.view.gpus.iter().filter_map(|gpu| {
            let mine = |event: &&leasewatch_core::segment::Event| {
                event.gpu.as_ref().is_some_and(|uuid| uuid.as_str() == gpu.row.uuid)
            };
            match &self.view.wiring.iter().find(mine)?.kind {
                EventKind::GpuWired(wired) => Some((self.full_label(gpu), wired)),
                _ => None,
            }
        })
    }

    pub(super) fn memory(&self, host: &HostFacts) -> String {
        Quantity::memory_mib(host.memory_mib).text(self.cx.language)
    }
}
