//! How agent, clock and host are, in words.

use super::{HostFacts, Page};
use crate::format::{Datum, Measure, Quantity};
use crate::i18n::phrase;

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

    pub(super) fn memory(&self, host: &HostFacts) -> String {
        Quantity::memory_mib(host.memory_mib).text(self.cx.language)
    }
}
