//! The state in a directory, and whether it is this machine's.

use std::path::Path;

use leasewatch_core::id::{ChainId, GpuUuid};

use super::run::random;
use crate::config::Config;
use crate::identity::{IdentityError, Instance, State, StateDir, put_aside};
use crate::source::Source;
use crate::source::nvml::{SLICE_PREFIX, attached_gpus};

/// The state in the directory, unless that was used on another machine: then it is put aside, key
/// and all, and this machine joins as a node of its own.
pub(super) fn state_of_this_machine(
    config: &Config,
    dir: &StateDir,
    source: &Source,
) -> anyhow::Result<State> {
    let here = Instance::observe(Path::new("/"));
    let state = State::load(dir, ChainId(random()?))?;
    let then = || state.gpus.iter().map(|gpu| gpu.uuid.clone()).filter(is_whole).collect();
    let last = Instance::last(dir);
    let moved_from =
        last.filter(|last| here.is_elsewhere(last, || (then(), attached_gpus(source))));
    let Some(last) = moved_from else {
        keep(&here, dir);
        return Ok(state);
    };
    if config.joining.is_none() {
        let (path, host_name) = (dir.path().to_owned(), last.host_name);
        return Err(IdentityError::Elsewhere { path, host_name }.into());
    }
    let aside = put_aside(dir)?;
    tracing::warn!(
        made_on = last.host_name,
        aside = %aside.display(),
        "the state directory was copied from another machine: it is put aside, and this machine \
         joins as a node of its own"
    );
    let state = State::load(dir, ChainId(random()?))?;
    keep(&here, dir);
    Ok(state)
}

/// A directory that cannot be written now is not a reason not to record.
fn keep(here: &Instance, dir: &StateDir) {
    if Instance::last(dir).as_ref() != Some(here)
        && let Err(error) = here.keep(dir)
    {
        tracing::warn!(error = %error, "which machine this is could not be noted");
    }
}

fn is_whole(uuid: &GpuUuid) -> bool {
    !uuid.as_str().starts_with(SLICE_PREFIX)
}
