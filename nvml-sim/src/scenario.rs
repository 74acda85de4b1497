//! Scenarios: what cards there are, what they do, and what goes wrong when.
//!
//! The grammar is `nvml-sim/README.md`. A scenario is refused as a whole when any part of it is
//! not understood: a misspelt fault that is silently not played makes a test pass for nothing.

pub(crate) mod fault;
pub(crate) mod load;
mod trace;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasewatch_core::catalogue::gpu::{self, GpuModel};
use serde::Deserialize;

use crate::replay::{Capture, Recording, Timeline};
use fault::{Effect, Fault, GpuInstancePlan};
use load::Load;

/// Cards in one scenario.
const MAX_CARDS: usize = 64;

/// A scenario as it is played.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) driver: Driver,
    pub(crate) seed: u64,
    pub(crate) epoch_file: Option<PathBuf>,
    pub(crate) started_s_ago: u32,
    pub(crate) samples_per_second: u32,
    pub(crate) sample_ring: usize,
    pub(crate) cards: Vec<CardPlan>,
    pub(crate) faults: Vec<Fault>,
    /// How the capture is played, if the cards come from one.
    pub(crate) replay: Option<Timeline>,
}

/// One card, with its load ready to play.
#[derive(Debug)]
pub(crate) struct CardPlan {
    pub(crate) model: &'static GpuModel,
    pub(crate) facts: Arc<CardFacts>,
    pub(crate) load: Load,
    /// Where its readings come from, if not from its load.
    pub(crate) recording: Option<Arc<Recording>>,
}

/// A card as the scenario writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CardFacts {
    model: String,
    #[serde(default = "one")]
    count: usize,
    load: load::Shape,
    pub(crate) uuid: Option<String>,
    pub(crate) bus_id: Option<String>,
    pub(crate) serial: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) pci_device_id: Option<u32>,
    pub(crate) memory_mib: Option<u32>,
    pub(crate) memory_used_mib: Option<u32>,
    pub(crate) default_limit_mw: Option<u32>,
    /// Default: that of the half of all cards that it is in, where there are more than four.
    pub(crate) numa_node: Option<u32>,
    /// NVML's code: 0 none, 1 passthrough, 2 vGPU guest.
    #[serde(default)]
    pub(crate) virtualization: u32,
}

/// A driver version and what follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Driver {
    pub(crate) version: String,
    pub(crate) major: u32,
    pub(crate) minor: u32,
    /// `major * 1000 + minor * 10`, as NVML gives it.
    pub(crate) cuda: i32,
}

/// Why a scenario or control file is not played.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScenarioError {
    #[error("{path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}: {source}")]
    Toml { path: PathBuf, source: toml::de::Error },
    #[error("{path}: {what}")]
    Invalid { path: PathBuf, what: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    driver_version: String,
    cuda_version: Option<i32>,
    #[serde(default)]
    seed: u64,
    epoch_file: Option<PathBuf>,
    #[serde(default)]
    started_s_ago: u32,
    #[serde(default = "six")]
    samples_per_second: u32,
    #[serde(default = "twenty_seconds_of_samples")]
    sample_ring: usize,
    #[serde(default)]
    cards: Vec<CardFacts>,
    #[serde(default)]
    faults: Vec<Fault>,
    replay: Option<ReplayFacts>,
}

/// A capture as the scenario names it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplayFacts {
    file: PathBuf,
    #[serde(default = "one_times")]
    speed: u32,
    #[serde(default)]
    repeat: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Control {
    #[serde(default)]
    faults: Vec<Fault>,
}

impl Scenario {
    /// Reads and checks a scenario file.
    pub(crate) fn load(path: &Path) -> Result<Self, ScenarioError> {
        let file: File = parse(path, &read(path)?)?;
        let invalid = |what: String| ScenarioError::Invalid { path: path.to_owned(), what };
        let driver = Driver::parse(&file.driver_version, file.cuda_version).ok_or_else(|| {
            invalid(format!("driver_version {:?} is not like 550.127.05", file.driver_version))
        })?;
        if !(1..=10).contains(&file.samples_per_second) || !(1..=4_096).contains(&file.sample_ring)
        {
            let bounds = "samples_per_second is 1 to 10 and sample_ring 1 to 4096";
            return Err(invalid(bounds.to_owned()));
        }
        let mut cards = Vec::new();
        for card in file.cards {
            cards.extend(card.plans(path)?);
        }
        let capture = file.replay.map(|replay| replay.capture(path)).transpose()?;
        if let Some(capture) = &capture {
            if !cards.is_empty() {
                return Err(invalid("cards come from [replay] or from [[cards]]".to_owned()));
            }
            let plans = capture.cards.iter().map(CardPlan::of_recording);
            cards = plans.collect::<Option<_>>().unwrap_or_default();
        }
        if cards.len() > MAX_CARDS {
            return Err(invalid(format!("{} cards are more than {MAX_CARDS}", cards.len())));
        }
        check_faults(&file.faults, cards.len()).map_err(invalid)?;
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Ok(Self {
            name: file.name.or(stem).unwrap_or_default(),
            driver,
            seed: file.seed,
            epoch_file: file.epoch_file,
            started_s_ago: file.started_s_ago,
            samples_per_second: file.samples_per_second,
            sample_ring: file.sample_ring,
            cards,
            faults: file.faults,
            replay: capture.map(|capture| capture.timeline),
        })
    }
}

/// Reads the faults of a control file's text: active from now on, so without times.
pub(crate) fn control_faults(
    path: &Path,
    text: &str,
    cards: usize,
) -> Result<Vec<Fault>, ScenarioError> {
    let control: Control = parse(path, text)?;
    let invalid = |what: String| ScenarioError::Invalid { path: path.to_owned(), what };
    if control.faults.iter().any(|fault| fault.at_s != 0 || fault.until_s.is_some()) {
        return Err(invalid("faults of a control file have no at_s and until_s".to_owned()));
    }
    check_faults(&control.faults, cards).map_err(invalid)?;
    Ok(control.faults)
}

impl CardFacts {
    fn plans(self, path: &Path) -> Result<Vec<CardPlan>, ScenarioError> {
        let invalid = |what: String| ScenarioError::Invalid { path: path.to_owned(), what };
        let model = gpu::by_key(&self.model)
            .ok_or_else(|| invalid(format!("model {:?} is not in the catalogue", self.model)))?;
        let single = self.uuid.is_some() || self.bus_id.is_some() || self.serial.is_some();
        if self.count == 0 || self.count > MAX_CARDS || (single && self.count > 1) {
            let what = "count is 1 to 64, and 1 where uuid, bus_id or serial is given";
            return Err(invalid(what.to_owned()));
        }
        let load = self.load.ready(path)?;
        let count = self.count;
        let facts = Arc::new(self);
        let plan =
            || CardPlan { model, facts: Arc::clone(&facts), load: load.clone(), recording: None };
        Ok(std::iter::repeat_with(plan).take(count).collect())
    }
}

impl CardPlan {
    /// The load and the model of a played card show nowhere: what its recording does not hold is
    /// not answered. `None` only for an empty catalogue.
    fn of_recording(recording: &Arc<Recording>) -> Option<Self> {
        let inventory = recording.inventory.as_ref();
        let facts = CardFacts {
            model: String::new(),
            count: 1,
            load: load::Shape::Idle {},
            uuid: Some(recording.uuid.to_string()),
            bus_id: Some(recording.bus_id.to_string()),
            serial: inventory.and_then(|seen| seen.serial.clone()),
            name: Some(inventory.map(|seen| seen.name.clone()).unwrap_or_default()),
            pci_device_id: inventory
                .and_then(|seen| seen.pci_device_id.try_into().ok())
                .or(Some(0)),
            memory_mib: None,
            memory_used_mib: None,
            default_limit_mw: None,
            numa_node: None,
            virtualization: 0,
        };
        Some(Self {
            model: gpu::all().first()?,
            facts: Arc::new(facts),
            load: Load::Idle,
            recording: Some(Arc::clone(recording)),
        })
    }
}

impl ReplayFacts {
    /// Reads the capture; its path is relative to the scenario.
    fn capture(&self, scenario: &Path) -> Result<Capture, ScenarioError> {
        let path = scenario.parent().unwrap_or(Path::new("")).join(&self.file);
        let invalid = |what: String| ScenarioError::Invalid { path: path.clone(), what };
        if !(1..=60).contains(&self.speed) {
            return Err(invalid("speed is 1 to 60".to_owned()));
        }
        Capture::load(&path, self.speed, self.repeat).map_err(|error| invalid(error.to_string()))
    }
}

impl Driver {
    /// The driver that the `old_driver` fault plays: the last branch for Kepler.
    pub(crate) fn old() -> Self {
        Self { version: "418.226.00".to_owned(), major: 418, minor: 226, cuda: 10_010 }
    }

    fn parse(version: &str, cuda: Option<i32>) -> Option<Self> {
        let mut parts = version.split('.');
        let major: u32 = parts.next()?.parse().ok()?;
        let minor: u32 = parts.next()?.parse().ok()?;
        let cuda = cuda.unwrap_or(match major {
            ..418 => 9_000,
            418..450 => 10_010,
            450..510 => 11_000,
            510..525 => 11_060,
            525..550 => 12_000,
            550..580 => 12_040,
            _ => 13_000,
        });
        Some(Self { version: version.to_owned(), major, minor, cuda })
    }

    /// True from 580.82 on, where field ids 251 to 273 were renumbered.
    pub(crate) fn renumbered_fields(&self) -> bool {
        (self.major, self.minor) >= (580, 82)
    }
}

pub(crate) fn check_faults(faults: &[Fault], cards: usize) -> Result<(), String> {
    for fault in faults {
        if fault.card.is_some_and(|card| card >= cards) {
            return Err(format!("fault {:?} names a card that is not there", fault.effect));
        }
        if let Effect::MigOn { slices, .. } = &fault.effect
            && let Some(wrong) = GpuInstancePlan::fault(slices)
        {
            return Err(wrong.to_owned());
        }
        if fault.until_s.is_some_and(|until| until <= fault.at_s) {
            return Err(format!("fault {:?} ends before it begins", fault.effect));
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, ScenarioError> {
    std::fs::read_to_string(path)
        .map_err(|source| ScenarioError::Read { path: path.to_owned(), source })
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path, text: &str) -> Result<T, ScenarioError> {
    toml::from_str(text).map_err(|source| ScenarioError::Toml { path: path.to_owned(), source })
}

fn one() -> usize {
    1
}

fn one_times() -> u32 {
    1
}

fn six() -> u32 {
    6
}

fn twenty_seconds_of_samples() -> usize {
    120
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("scenario.toml");
        std::fs::write(&path, text).unwrap();
        Scenario::load(&path).unwrap_err().to_string()
    }

    #[test]
    fn every_scenario_of_the_project_is_understood() {
        let directory = crate::scenario_path("x").parent().unwrap().to_owned();
        let mut seen = 0;
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                Scenario::load(&path).unwrap();
                seen += 1;
            }
        }
        assert!(seen > 20);
    }

    #[test]
    fn what_is_not_understood_is_refused_and_named() {
        let head = "driver_version = \"550.127.05\"\n";
        let card = "[[cards]]\nmodel = \"T4\"\nload = { shape = \"idle\" }\n";
        let cases = [
            (format!("{head}colour = 1\n"), "colour"),
            ("driver_version = \"new\"\n".to_owned(), "driver_version"),
            (format!("{head}[[cards]]\nmodel = \"X1\"\nload = {{ shape = \"idle\" }}\n"), "X1"),
            (
                format!("{head}[[cards]]\nmodel = \"T4\"\nload = {{ shape = \"idle\", x = 1 }}\n"),
                "x",
            ),
            (format!("{head}[[cards]]\nmodel = \"T4\"\nload = {{ shape = \"dance\" }}\n"), "dance"),
            (format!("{head}{card}[[faults]]\nkind = \"xid\"\n"), "code"),
            (format!("{head}{card}[[faults]]\nkind = \"gpu_lots\"\n"), "gpu_lots"),
            (format!("{head}{card}[[faults]]\nkind = \"gpu_lost\"\ncode = 1\n"), "code"),
            (format!("{head}{card}[[faults]]\nkind = \"gpu_lost\"\ncard = 1\n"), "not there"),
            (
                format!("{head}{card}[[faults]]\nkind = \"masked\"\nmetrics = [\"colour\"]\n"),
                "colour",
            ),
            (
                format!("{head}{card}[[faults]]\nkind = \"gpu_lost\"\nat_s = 5\nuntil_s = 5\n"),
                "ends",
            ),
            (
                format!(
                    "{head}{card}[[faults]]\nkind = \"mig_on\"\nslices = [{{ compute_slices = 8 }}]\n"
                ),
                "7 compute slices",
            ),
        ];
        for (text, word) in cases {
            let error = refused(&text);
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn field_ids_change_at_580_82() {
        let new = |version| Driver::parse(version, None).unwrap().renumbered_fields();
        assert!(!new("580.65.06") && !new("570.172.08"));
        assert!(new("580.82.07") && new("590.48.01"));
    }
}
