//! Live values as text: the same on the page and in the events that update it.
//!
//! The script in the browser formats nothing. The server sends [`event`] to each listener in the
//! listener's language; [`figures`] writes the same words into the page.

use serde::Serialize;

use crate::format::{Datum, Measure, Quantity};
use crate::i18n::{Language, phrase};
use crate::names::Standing;
use crate::wire;

/// The name of the server-sent event that [`event`] is the data of.
pub const NODES_EVENT: &str = "nodes";
/// The name of the server-sent event that [`totals_event`] is the data of.
pub const TOTALS_EVENT: &str = "totals";
/// The name of the server-sent event after which a page is to be read again; its data says nothing.
pub const FRESH_EVENT: &str = "fresh";

/// Current readings of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LiveValues {
    /// Utilization.
    pub busy_pct: Datum,
    /// Memory in use.
    pub memory_used_mib: Datum,
    /// Memory in all.
    pub memory_total_mib: Datum,
    /// Board power draw.
    pub power_draw_mw: Datum,
    /// Enforced power limit.
    pub power_limit_mw: Datum,
    /// Core temperature.
    pub temperature_c: Datum,
}

impl LiveValues {
    /// Nothing is known.
    pub const NONE: Self = Self {
        busy_pct: Datum::NO_DATA,
        memory_used_mib: Datum::NO_DATA,
        memory_total_mib: Datum::NO_DATA,
        power_draw_mw: Datum::NO_DATA,
        power_limit_mw: Datum::NO_DATA,
        temperature_c: Datum::NO_DATA,
    };
}

/// A node for [`event`]: what the server holds in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LiveNode {
    /// The node's id.
    pub id: String,
    /// Where it stands.
    #[serde(serialize_with = "wire::standing")]
    pub standing: Standing,
    /// Its GPUs.
    pub gpus: Vec<LiveGpu>,
}

/// A GPU for [`event`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LiveGpu {
    /// NVML's UUID.
    pub uuid: String,
    /// Its readings.
    pub values: LiveValues,
    /// True while it is off the bus.
    pub lost: bool,
    /// True while a call into the driver hangs.
    pub stalled: bool,
}

/// One node of the event's data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LiveNodeView {
    /// The node's id.
    pub node: String,
    /// `up`, `late`, `unknown` or `ended`.
    pub state: &'static str,
    /// The state in words, with its reason.
    pub state_text: String,
    /// Its GPUs.
    pub gpus: Vec<LiveGpuView>,
}

/// One GPU of the event's data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LiveGpuView {
    /// NVML's UUID.
    pub uuid: String,
    /// The words of each figure.
    #[serde(flatten)]
    pub figures: Figures,
    /// True while it is off the bus.
    pub lost: bool,
    /// True while a call into the driver hangs.
    pub stalled: bool,
}

/// Live values in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Utilization.
    pub busy: String,
    /// Width of the bar of utilization, as a value of SVG's `width`.
    pub bar: String,
    /// Memory in use and in all.
    pub memory: String,
    /// Power draw and limit.
    pub power: String,
    /// Temperature.
    pub temperature: String,
    /// Which of the figures are a reason instead of a value.
    pub missing: Vec<&'static str>,
}

impl Figures {
    /// True when the figure with this name is a reason.
    #[must_use]
    pub fn is_missing(&self, name: &str) -> bool {
        self.missing.contains(&name)
    }
}

/// The words of a GPU's live values.
#[must_use]
pub fn figures(values: &LiveValues, language: Language) -> Figures {
    let busy = values.busy_pct.measure(Quantity::percent);
    let memory = values.memory_used_mib.measure(Quantity::memory_mib);
    let power = values.power_draw_mw.measure(Quantity::power_mw);
    let temperature = values.temperature_c.measure(Quantity::temperature_c);
    let named =
        [("busy", busy), ("memory", memory), ("power", power), ("temperature", temperature)];
    Figures {
        busy: busy.text(language),
        bar: format!("{}%", values.busy_pct.number().map_or(0, |pct| pct.clamp(0, 100))),
        memory: of(memory, values.memory_total_mib.measure(Quantity::memory_mib), language),
        power: of(power, values.power_limit_mw.measure(Quantity::whole_power_mw), language),
        temperature: temperature.text(language),
        missing: named.iter().filter(|(_, m)| m.is_missing()).map(|(name, _)| *name).collect(),
    }
}

/// The data of a `nodes` event: a JSON array of [`LiveNodeView`].
///
/// # Errors
/// Never in practice: nothing in it can fail to serialise.
pub fn event(nodes: &[LiveNode], language: Language) -> Result<String, serde_json::Error> {
    let views: Vec<LiveNodeView> = nodes.iter().map(|node| node_view(node, language)).collect();
    serde_json::to_string(&views)
}

/// The state in words with its reason: `unknown: no connection ..`.
#[must_use]
pub fn standing_text(standing: Standing, language: Language) -> String {
    let (state, reason) = (standing.text().words(language), standing.reason().words(language));
    phrase::state_with_reason(language, reason, state)
}

fn node_view(node: &LiveNode, language: Language) -> LiveNodeView {
    let gpu = |gpu: &LiveGpu| LiveGpuView {
        uuid: gpu.uuid.clone(),
        figures: figures(&gpu.values, language),
        lost: gpu.lost,
        stalled: gpu.stalled,
    };
    LiveNodeView {
        node: node.id.clone(),
        state: node.standing.name(),
        state_text: standing_text(node.standing, language),
        gpus: node.gpus.iter().map(gpu).collect(),
    }
}

/// `62.1 GiB / 80.0 GiB`; the part that is missing is left out when the other is known.
fn of(part: Measure, whole: Measure, language: Language) -> String {
    match (part, whole) {
        (Measure::Known(part), Measure::Known(whole)) => {
            phrase::live_of(language, part.text(language), whole.text(language))
        }
        _ => part.text(language),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Missing;
    use leasewatch_core::delivery::{NodeState, UnknownReason};

    fn node(standing: Standing, values: LiveValues) -> LiveNode {
        let gpu = LiveGpu { uuid: "GPU-1".to_owned(), values, lost: false, stalled: true };
        LiveNode { id: "ab".to_owned(), standing, gpus: vec![gpu] }
    }

    #[test]
    fn an_event_is_one_line_of_finished_words() {
        let values = LiveValues {
            busy_pct: Datum::Number(97),
            memory_used_mib: Datum::Number(512),
            memory_total_mib: Datum::Number(81_920),
            power_draw_mw: Datum::Number(512_340),
            temperature_c: Datum::Missing { missing: Missing::Unsupported },
            ..LiveValues::NONE
        };
        let data = event(&[node(Standing::Live(NodeState::Up), values)], Language::En).unwrap();
        assert_eq!(
            data.replace('\u{202f}', " "),
            concat!(
                r#"[{"node":"ab","state":"up","state_text":"up: reporting","gpus":[{"uuid":"GPU-1","#,
                r#""busy":"97 %","bar":"97%","memory":"512 MiB / 80.0 GiB","power":"512.3 W","#,
                r#""temperature":"not supported by hardware","missing":["temperature"],"#,
                r#""lost":false,"stalled":true}]}]"#
            )
        );
    }

    #[test]
    fn silence_is_said_in_the_language_of_the_listener() {
        let standing = Standing::Live(NodeState::Unknown(UnknownReason::NeverSeen));
        let data = event(&[node(standing, LiveValues::NONE)], Language::ZhCn).unwrap();
        assert!(data.contains("无法确认：从未上报"), "{data}");
        assert!(data.contains(r#""busy":"无数据""#), "{data}");
    }
}
