//! Checks of what the board is: product, memory, power limits, modes.

use leasewatch_core::catalogue::gpu::EccSupport;
use leasewatch_core::sample::Metric;

use super::subject::{Subject, products};
use super::terms::names_product;
use crate::command::finding::Finding;
use crate::source::nvml::{ComputeMode, code_text};

/// A total may be this much below a wanted one, in thousandths: the same figure is rounded in
/// several ways.
const MEMORY_TOLERANCE_PERMILLE: i64 = 15;
/// Driver and firmware keep less than this for themselves, or less than the share below.
const RESERVED_MIB: i64 = 1_024;
const RESERVED_PERMILLE: i64 = 30;
/// A default limit this far below the catalogue's is another variant of the board.
const DEFAULT_LIMIT_PERMILLE: i64 = 900;

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    vec![
        model(subject),
        memory_total(subject),
        memory_reserved(subject),
        power_limit(subject),
        power_default(subject),
        ecc_mode(subject),
        mig_mode(subject),
        compute_mode(subject),
        persistence(subject),
    ]
}

/// PCI id and name must name one product, and it must be the wanted one.
fn model(subject: &Subject<'_>) -> Finding {
    let id = "gpu.model";
    let look = subject.look;
    let inventory = &look.gpu.inventory;
    let name = inventory.name.clone();
    let memory = look.number(Metric::MemoryTotal).or(inventory.memory_total_mib);
    if let [Some(by_id), Some(by_name)] = products(look, memory)
        && by_id.key != by_name.key
    {
        let found = format!("its PCI id is that of {}, its name is {name}", by_id.key);
        return Finding::differs(id, found)
            .expecting("one product")
            .advising("The driver's library was changed, or the board was: ask the provider");
    }
    let Some(wanted) = &subject.terms.model else {
        return match subject.model {
            Some(model) => Finding::ok(id, format!("{name} ({})", model.key)),
            None if subject.is_vgpu() => Finding::ok(id, format!("{name}, a virtual GPU")),
            None => Finding::not_readable(id, format!("{name} is not in the catalogue")),
        };
    };
    let is_wanted = match subject.model {
        Some(model) => names_product(wanted, model),
        None => name.eq_ignore_ascii_case(wanted),
    };
    Finding::judged(id, is_wanted, name)
        .expecting(wanted.clone())
        .advising("This is not the card that was sold: show it to the provider")
}

fn memory_total(subject: &Subject<'_>) -> Finding {
    let id = "memory.total";
    let Some(total) = subject.number(Metric::MemoryTotal) else {
        return Finding::not_readable(id, "the driver does not tell it");
    };
    let found = format!("{total} MiB");
    let advice = "A part of the card is kept back, or it is another variant: ask the provider";
    if let Some(wanted) = subject.terms.memory_mib {
        let least = wanted - wanted * MEMORY_TOLERANCE_PERMILLE / 1_000;
        let finding = Finding::judged(id, total >= least, found);
        return finding.expecting(format!("{wanted} MiB")).advising(advice);
    }
    let Some(model) = subject.model else {
        return Finding::ok(id, found);
    };
    match (model.memory_fits(total), model.memory_mib) {
        (Some(fits), Some(known)) => Finding::judged(id, fits, found)
            .expecting(format!("{known} MiB of a {}", model.key))
            .advising(advice),
        _ => Finding::ok(id, found),
    }
}

fn memory_reserved(subject: &Subject<'_>) -> Finding {
    let id = "memory.reserved";
    let (Some(reserved), Some(total)) =
        (subject.number(Metric::MemoryReserved), subject.number(Metric::MemoryTotal))
    else {
        return Finding::not_readable(id, "the driver does not tell it");
    };
    let most = RESERVED_MIB.max(total * RESERVED_PERMILLE / 1_000);
    Finding::judged(id, reserved <= most, format!("{reserved} MiB kept by driver and firmware"))
        .expecting(format!("at most {most} MiB"))
        .advising("Memory is kept from you: ask the provider")
}

/// The limit that holds, against what was agreed, what the driver was set to and the board's own.
fn power_limit(subject: &Subject<'_>) -> Finding {
    let id = "power.limit";
    let Some(enforced) = subject.number(Metric::PowerLimitEnforced) else {
        return Finding::not_readable(id, "the driver does not tell the enforced limit");
    };
    let management = subject.number(Metric::PowerLimitManagement);
    let default = subject.number(Metric::PowerLimitDefault);
    let found = format!("{} W", enforced / 1_000);
    let advice = match management {
        Some(management) if enforced < management => {
            "Something outside the driver holds it down (BMC or platform): ask the provider"
        }
        _ if default.is_some_and(|default| enforced >= default) => {
            "The board's own default is below what was agreed: ask the provider"
        }
        _ => "It was set below the board's default (nvidia-smi -pl): ask the provider, or set it",
    };
    if let Some(wanted) = subject.terms.power_limit_w {
        let finding = Finding::judged(id, enforced >= wanted * 1_000, found);
        return finding.expecting(format!("{wanted} W")).advising(advice);
    }
    match [management, default].into_iter().flatten().max() {
        Some(limit) => Finding::judged(id, enforced >= limit, found)
            .expecting(format!("{} W", limit / 1_000))
            .advising(advice),
        None => Finding::ok(id, found),
    }
}

fn power_default(subject: &Subject<'_>) -> Finding {
    let id = "power.default";
    let Some(default) = subject.number(Metric::PowerLimitDefault) else {
        return Finding::not_readable(id, "the driver does not tell the board's default limit");
    };
    let found = format!("{} W", default / 1_000);
    match subject.model.and_then(|model| model.default_limit_mw) {
        // What was agreed is what counts then, and is judged by power.limit.
        _ if subject.terms.power_limit_w.is_some() => Finding::ok(id, found),
        None => Finding::ok(id, found),
        Some(known) => {
            let is_near = default >= known / 1_000 * DEFAULT_LIMIT_PERMILLE;
            Finding::judged(id, is_near, found)
                .expecting(format!("about {} W", known / 1_000))
                .advising("Another variant of the board, or another VBIOS: ask the provider")
        }
    }
}

fn ecc_mode(subject: &Subject<'_>) -> Finding {
    let id = "ecc.mode";
    let mode = match subject.look.settings.ecc {
        Ok(mode) => mode,
        Err(code) => {
            let none = subject.model.and_then(|model| model.ecc) == Some(EccSupport::Unsupported);
            let why = if none { "this class has none" } else { code_text(code) };
            return Finding::not_readable(id, why);
        }
    };
    let pending = match mode.pending == mode.enabled {
        true => "",
        false => ", changes at the next reset",
    };
    let found = format!("{}{pending}", on_off(mode.enabled));
    let is_default = subject.model.and_then(|model| model.ecc) == Some(EccSupport::OnByDefault);
    match subject.terms.ecc.or(is_default.then_some(true)) {
        Some(wanted) => Finding::judged(id, mode.enabled == wanted, found)
            .expecting(on_off(wanted))
            .advising("nvidia-smi -e changes it, with a reset; or ask the provider"),
        None => Finding::ok(id, found),
    }
}

fn mig_mode(subject: &Subject<'_>) -> Finding {
    let id = "mig.mode";
    let Some(mode) = subject.number(Metric::MigMode) else {
        return Finding::not_readable(id, "not offered by this board or driver");
    };
    let found = match mode {
        1 => format!("on, {} slices", subject.look.slices.len()),
        _ => "off".to_owned(),
    };
    match subject.terms.mig {
        Some(wanted) => Finding::judged(id, (mode == 1) == wanted, found)
            .expecting(on_off(wanted))
            .advising("nvidia-smi -mig changes it, with a reset; or ask the provider"),
        None => Finding::ok(id, found),
    }
}

fn compute_mode(subject: &Subject<'_>) -> Finding {
    let id = "compute.mode";
    let (found, is_usable) = match subject.look.settings.compute_mode {
        Ok(ComputeMode::Default) => ("default", true),
        Ok(ComputeMode::Exclusive) => ("exclusive: one process at a time", true),
        Ok(ComputeMode::Prohibited) => ("prohibited: no program can use it", false),
        Err(code) => return Finding::not_readable(id, code_text(code)),
    };
    Finding::judged(id, is_usable, found).advising("nvidia-smi -c 0 sets it back")
}

fn persistence(subject: &Subject<'_>) -> Finding {
    let id = "persistence.mode";
    let mode = match subject.look.settings.persistence {
        Ok(mode) => mode,
        Err(code) => return Finding::not_readable(id, code_text(code)),
    };
    match subject.terms.persistence {
        Some(wanted) => Finding::judged(id, mode == wanted, on_off(mode))
            .expecting(on_off(wanted))
            .advising("Start nvidia-persistenced, or nvidia-smi -pm 1"),
        None => Finding::ok(id, on_off(mode)),
    }
}

fn on_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}
