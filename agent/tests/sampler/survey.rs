//! One look at every GPU: a card that hangs or is gone keeps nobody else from being seen.

use std::time::Duration;

use leasewatch_agent::source::Source;
use leasewatch_agent::source::nvml::Failure;
use leasewatch_agent::source::survey::{Look, Unseen, survey};
use leasewatch_core::sample::Reading;

use crate::case::{SECOND, fault, library, play};

/// Enough for a card that answers; one that hangs takes all of it.
const PATIENCE: Duration = Duration::from_secs(3);

fn second(seen: &[Result<Look, Unseen>]) -> &Look {
    let look = seen[1].as_ref().unwrap();
    assert_eq!(look.gpu.uuid.as_str(), SECOND);
    assert_eq!(look.busy, Some(Reading::Number(70)));
    look
}

#[test]
fn a_card_that_hangs_is_told_and_the_other_is_seen() {
    play(&fault("kind = \"hang\"\ncard = 0\nat_s = 601"), |case| {
        // The sampler's own session: the library is one, and it hangs for the first card.
        case.until("the stall", |case| {
            case.live.snapshot().gpus.iter().any(|gpu| gpu.stalled_since_boot_ms.is_some())
        });
        let seen = survey(&Source::open(&library()), PATIENCE).unwrap();
        assert_eq!(seen.gpus[0], Err(Unseen::Hung));
        second(&seen.gpus);
    });
}

#[test]
fn a_card_that_is_lost_is_told_with_its_code() {
    play(&fault("kind = \"gpu_lost\"\ncard = 0"), |_| {
        let seen = survey(&Source::open(&library()), PATIENCE).unwrap();
        assert_eq!(seen.gpus[0], Err(Unseen::Refused(Failure::Lost(15))));
        let look = second(&seen.gpus);
        assert_eq!(look.settings.links.as_ref().unwrap().len(), 18);
        assert_eq!(look.settings.processes.as_ref().unwrap().len(), 1);
    });
}
