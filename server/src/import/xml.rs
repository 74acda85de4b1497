//! Snapshots of `nvidia-smi -q -x`, one or many in a file: inventory, and one row for each GPU.
//!
//! Both generations of the schema (drivers up to 515, and later). Read as a stream of events: a
//! file that is cut gives the GPUs that are whole. Entities and the document type are not
//! expanded. Not here: MIG devices, which are parts of a GPU and no GPUs, and processes.

mod element;
mod field;

use leasewatch_core::log_fault::{LineFault, LogText};
use quick_xml::Reader as XmlReader;
use quick_xml::events::{BytesStart, Event};

use super::chosen::Chosen;
use super::log::{Draft, Gatherer, Identity, ImportLog, Reader};
use super::{LogError, cell, local_time};
use element::Element;
use field::{FIELDS, Field};

/// Elements in elements; a real snapshot has 7.
const DEPTH_MAX: usize = 32;
/// Lists that are long and say nothing that is recorded.
const SKIPPED: [&str; 3] = ["supported_clocks", "processes", "mig_devices"];

/// True for a text that is XML, and no CSV.
#[must_use]
pub fn is_xml(text: &str) -> bool {
    text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}').starts_with('<')
}

/// Reads snapshots.
///
/// # Errors
/// [`LogError`] when nothing in it can be read.
pub fn parse(text: &str, reader: Reader<'_>) -> Result<ImportLog, LogError> {
    let mut snapshots = Snapshots {
        text,
        reader,
        gatherer: Gatherer::new(reader),
        path: Vec::new(),
        at: None,
        attached: None,
        gpus: 0,
        gpu: None,
        counted: (0, 1),
    };
    let mut xml = XmlReader::from_str(text);
    loop {
        let at = usize::try_from(xml.buffer_position()).unwrap_or(usize::MAX);
        match xml.read_event() {
            Ok(Event::Eof) if snapshots.path.is_empty() => break,
            Ok(Event::Eof) => {
                snapshots.problem(text.len(), LineFault::SnapshotCut);
                break;
            }
            Ok(event) => {
                if let Err(fault) = snapshots.event(at, &event) {
                    snapshots.problem(at, fault);
                    break;
                }
            }
            Err(error) => {
                let said = LogText::quote(&error.to_string());
                snapshots.problem(at, LineFault::XmlBroken { said });
                break;
            }
        }
    }
    snapshots.gatherer.finish().map_err(|_| LogError::GpusNotNamed)
}

struct Snapshots<'a> {
    text: &'a str,
    reader: Reader<'a>,
    gatherer: Gatherer<'a>,
    /// Names of the open elements.
    path: Vec<String>,
    /// What the snapshot says of itself.
    at: Option<String>,
    attached: Option<String>,
    gpus: usize,
    gpu: Option<Element>,
    /// A position, and its line: positions ascend.
    counted: (usize, usize),
}

impl Snapshots<'_> {
    fn problem(&mut self, position: usize, fault: LineFault) {
        let line = self.line(position);
        self.gatherer.problem(line, fault);
    }

    fn line(&mut self, position: usize) -> usize {
        let (from, line) = self.counted;
        let position = position.clamp(from, self.text.len());
        let between = self.text.as_bytes().get(from..position).unwrap_or_default();
        self.counted = (position, line + between.iter().filter(|byte| **byte == b'\n').count());
        self.reader.tell(position, self.text.len());
        self.counted.1
    }

    fn event(&mut self, position: usize, event: &Event<'_>) -> Result<(), LineFault> {
        match event {
            Event::Start(start) => self.open(start),
            Event::Text(text) => {
                self.value(text.trim());
                Ok(())
            }
            Event::End(_) => {
                self.close(position);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, start: &BytesStart<'_>) -> Result<(), LineFault> {
        if self.path.len() >= DEPTH_MAX {
            return Err(LineFault::XmlTooDeep);
        }
        let name = start.name().as_ref().to_owned();
        if self.path.len() == 1 && name == "gpu" {
            let id = start.try_get_attribute("id").ok().flatten();
            let id = id.map(|id| id.value.into_owned());
            self.gpu = Some(Element::new(id));
        }
        self.path.push(name);
        Ok(())
    }

    fn value(&mut self, text: &str) {
        if text.is_empty() || self.path.iter().any(|name| SKIPPED.contains(&name.as_str())) {
            return;
        }
        match (self.path.as_slice(), &mut self.gpu) {
            ([_, name], _) if name == "timestamp" => self.at = Some(text.to_owned()),
            ([_, name], _) if name == "attached_gpus" => self.attached = Some(text.to_owned()),
            ([_, _, path @ ..], Some(gpu)) if !path.is_empty() => gpu.put(path.join("/"), text),
            _ => {}
        }
    }

    fn close(&mut self, position: usize) {
        self.path.pop();
        match self.path.len() {
            1 => {
                if let Some(gpu) = self.gpu.take() {
                    self.gpus += 1;
                    let line = self.line(position);
                    match self.draft(&gpu, line) {
                        Ok(draft) => self.gatherer.row(line, draft),
                        Err(fault) => self.gatherer.problem(line, fault),
                    }
                }
            }
            0 => self.end(position),
            _ => {}
        }
    }

    /// The end of a snapshot. Fewer GPUs than it says are a file that somebody shortened, not GPUs
    /// that are lost: the driver names those.
    fn end(&mut self, position: usize) {
        let attached = self.attached.take().and_then(|count| count.parse::<usize>().ok());
        let found = std::mem::take(&mut self.gpus);
        if let Some(says) = attached.filter(|attached| *attached != found) {
            self.problem(position, LineFault::SnapshotShort { says, lists: found });
        }
        self.at = None;
    }

    fn draft(&mut self, gpu: &Element, line: usize) -> Result<Draft, LineFault> {
        let at = self.at.as_deref().ok_or(LineFault::SnapshotWithoutTime)?;
        let at = local_time::read(at, self.reader.zone)
            .ok_or_else(|| LineFault::NotATime { text: LogText::quote(at) })?;
        let mut chosen = Chosen::default();
        let mut draft = Draft { at: Some(at), identity: identity(gpu), ..Draft::default() };
        for Field { path, rank, metric, measure } in FIELDS {
            let Some(text) = gpu.get(path) else { continue };
            let wrong =
                || LineFault::NotAValue { key: LogText::quote(path), text: LogText::quote(text) };
            let read = cell::read(text.trim_end_matches('x'), measure).ok_or_else(wrong)?;
            draft.needs_reset |= read.needs_reset;
            match metric {
                Some(metric) => chosen.offer(metric, rank, read.reading),
                None => {
                    let possible = read.reading.number().is_none_or(|n| (0..=100).contains(&n));
                    draft.busy = Some(possible.then_some(read.reading).ok_or_else(wrong)?);
                }
            }
        }
        if let Some(bits) = gpu.clock_event_reasons() {
            chosen.offer(leasewatch_core::sample::Metric::ClockEventReasons, 0, bits);
        }
        draft.readings = chosen.readings(&mut self.gatherer, line);
        Ok(draft)
    }
}

fn identity(gpu: &Element) -> Identity {
    let words = |path| gpu.get(path).filter(|text| !cell::says_nothing(text)).map(str::to_owned);
    let number = |path| {
        let text = gpu.get(path)?.trim_end_matches('x');
        cell::read(text, cell::Measure::Count)?.reading.number()
    };
    let device =
        gpu.get("pci/pci_device_id").map(|id| format!("0x{}", id.trim_start_matches("0x")));
    Identity {
        index: None,
        uuid: words("uuid"),
        bus_id: words("pci/pci_bus_id").or_else(|| gpu.id.clone()),
        name: words("product_name"),
        serial: words("serial"),
        vbios: words("vbios_version"),
        part_number: words("board_part_number"),
        pci_device_id: device.and_then(|id| cell::read(&id, cell::Measure::Bits)?.reading.number()),
        pcie_generation_max: number("pci/pci_gpu_link_info/pcie_gen/max_link_gen"),
        pcie_width_max: number("pci/pci_gpu_link_info/link_widths/max_link_width"),
    }
}

#[cfg(test)]
mod tests;
