//! Checks of the links: PCI Express and NVLink.

use leasewatch_core::sample::Metric;

use super::subject::Subject;
use crate::command::finding::Finding;
use crate::source::nvml::{NvlinkLink, code_text};
use crate::source::survey::Look;

/// A link's speed may be this much below its nominal one, in thousandths.
const SPEED_PERMILLE: i64 = 900;

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    vec![
        pcie_width(subject),
        pcie_generation(subject),
        nvlink_links(subject),
        nvlink_speed(subject),
    ]
}

/// The width does not depend on load.
fn pcie_width(subject: &Subject<'_>) -> Finding {
    let id = "pcie.width";
    let Some(width) = subject.number(Metric::PcieWidth) else {
        return Finding::not_readable(id, "the driver does not tell it");
    };
    let found = format!("x{width}");
    let most = subject.look.gpu.inventory.pcie_width_max;
    match subject.terms.pcie_width.or(most) {
        Some(wanted) => Finding::judged(id, width >= wanted, found)
            .expecting(format!("x{wanted}"))
            .advising("The link trained narrower than board and slot can: ask the provider"),
        None => Finding::ok(id, found),
    }
}

/// At idle boards go down to a lower generation, which says nothing.
fn pcie_generation(subject: &Subject<'_>) -> Finding {
    let id = "pcie.generation";
    let Some(generation) = subject.number(Metric::PcieGeneration) else {
        return Finding::not_readable(id, "the driver does not tell it");
    };
    let most = subject.look.gpu.inventory.pcie_generation_max;
    let found = format!("generation {generation}");
    let Some(wanted) = subject.terms.pcie_gen.or(most) else {
        return Finding::ok(id, found);
    };
    let expected = format!("generation {wanted}");
    let advice = "The link trained slower than board and slot can: ask the provider";
    if generation >= wanted {
        return Finding::ok(id, found).expecting(expected);
    }
    if let Some(most) = most.filter(|most| *most < wanted) {
        let found = format!("board and slot allow generation {most}");
        return Finding::differs(id, found).expecting(expected).advising(advice);
    }
    match subject.is_loaded() {
        Some(true) => Finding::differs(id, found).expecting(expected).advising(advice),
        _ => Finding::not_readable(id, format!("{found}; at idle a lower one is normal"))
            .expecting(expected)
            .advising("Check under load"),
    }
}

fn nvlink_links(subject: &Subject<'_>) -> Finding {
    let id = "nvlink.links";
    let wanted = subject.terms.nvlink.or_else(|| expected_links(subject));
    let links = match &subject.look.settings.links {
        Ok(links) => links,
        Err(_) if wanted.is_none_or(|wanted| wanted == 0) => {
            return Finding::ok(id, "none on this board");
        }
        Err(code) => return Finding::not_readable(id, code_text(*code)),
    };
    let active = count_active(links);
    let down: Vec<String> =
        links.iter().filter(|link| !link.active).map(|link| link.link.to_string()).collect();
    let found = match down.len() {
        0 => format!("{active} up"),
        _ => format!("{active} up, down: {}", down.join(" ")),
    };
    match wanted {
        Some(wanted) => Finding::judged(id, active >= wanted, found)
            .expecting(wanted.to_string())
            .advising("Links are down: jobs over several GPUs are slower. Ask the provider"),
        None => Finding::ok(id, found),
    }
}

/// What the product has as a module; a PCIe board has as many as its bridges, so there the best
/// of the same product on this node is the measure.
fn expected_links(subject: &Subject<'_>) -> Option<i64> {
    let model = subject.model?;
    if model.form.starts_with("SXM") {
        return model.nvlink_links;
    }
    let name = &subject.look.gpu.inventory.name;
    let alike = |look: &&&Look| look.gpu.inventory.name == *name;
    let links = |look: &&Look| look.settings.links.as_deref().ok().map(count_active);
    subject.node.iter().filter(alike).filter_map(links).max()
}

fn nvlink_speed(subject: &Subject<'_>) -> Finding {
    let id = "nvlink.speed";
    let links = match &subject.look.settings.links {
        Ok(links) => links,
        Err(code) => return Finding::not_readable(id, code_text(*code)),
    };
    let speeds = links.iter().filter(|link| link.active).map(|link| link.speed_mb_s);
    let speeds: Vec<i64> = match speeds.collect::<Result<_, _>>() {
        Ok(speeds) => speeds,
        Err(code) => return Finding::not_readable(id, code_text(code)),
    };
    let (Some(slowest), Some(fastest)) = (speeds.iter().min(), speeds.iter().max()) else {
        return Finding::not_readable(id, "no link is up");
    };
    let found = match slowest == fastest {
        true => format!("{slowest} MB/s each way on each link"),
        false => format!("{slowest} to {fastest} MB/s each way"),
    };
    let least = nominal_mb_s(subject).map_or(*fastest, |nominal| nominal.max(*fastest))
        * SPEED_PERMILLE
        / 1_000;
    Finding::judged(id, *slowest >= least, found)
        .expecting(format!("at least {least} MB/s"))
        .advising("A link trained slower than the others or than the product's: ask the provider")
}

/// One link, one direction; the catalogue counts all links and both directions.
fn nominal_mb_s(subject: &Subject<'_>) -> Option<i64> {
    let model = subject.model?;
    model.nvlink_total_mb_s?.checked_div(model.nvlink_links?.checked_mul(2)?)
}

fn count_active(links: &[NvlinkLink]) -> i64 {
    i64::try_from(links.iter().filter(|link| link.active).count()).unwrap_or(i64::MAX)
}
