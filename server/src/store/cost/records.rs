//! Hour records of a node with their minutes, and what a lease had of them.

use std::collections::{BTreeMap, HashMap};

use leasewatch_core::availability::{State, StateStretch};
use leasewatch_core::catalogue::gpu as catalogue;
use leasewatch_core::cost::{MeasuredGpu, NodeHour, Reference, SlotTime, StateTime};
use leasewatch_core::id::{GpuUuid, SlotNo};
use leasewatch_core::lease::LeaseTerms;
use leasewatch_core::metering::{HourProfile, HourRecord};
use leasewatch_core::time::{Hour, Period};

use crate::store::gpu::{self, GpuRow};
use crate::store::{NodeKey, StoreError, Tx, hour};

/// Hour records of one node in some hours.
#[derive(Debug, Default)]
pub struct NodeRecords {
    records: BTreeMap<(SlotNo, Hour), Vec<HourRecord>>,
    profiles: HashMap<(SlotNo, Hour, GpuUuid), HourProfile>,
    gpus: Vec<GpuRow>,
}

/// A slot in an hour, or in a part of it.
#[derive(Debug, Clone, Copy)]
pub struct SlotPart<'a> {
    /// Its number.
    pub slot: SlotNo,
    /// The hour.
    pub hour: Hour,
    /// Contracted stretches.
    pub contracted: &'a [Period],
    /// The states of the hour as far as it was judged.
    pub states: &'a [StateStretch],
}

impl NodeRecords {
    /// Of GPUs as they are described now.
    #[must_use]
    pub fn new(gpus: Vec<GpuRow>) -> Self {
        Self { gpus, ..Self::default() }
    }

    /// Reads the latest revisions of these hours; their minutes only if asked for.
    ///
    /// # Errors
    /// [`StoreError::Inconsistent`] for a row that does not unpack.
    pub async fn read(
        tx: &mut Tx,
        key: NodeKey,
        hours: &[Hour],
        with_minutes: bool,
    ) -> Result<Self, StoreError> {
        let mut read = Self::new(gpu::of_node(tx, key).await?);
        for (slot, record) in hour::records_at(tx, key, hours).await? {
            read.add(slot, record);
        }
        if with_minutes {
            for (slot, hour, gpu, profile) in hour::profiles_at(tx, key, hours).await? {
                read.add_profile((slot, hour, gpu), profile);
            }
        }
        Ok(read)
    }

    /// Adds a record.
    pub fn add(&mut self, slot: SlotNo, record: HourRecord) {
        self.records.entry((slot, record.hour)).or_default().push(record);
    }

    /// Adds the minutes of one.
    pub fn add_profile(&mut self, of: (SlotNo, Hour, GpuUuid), profile: HourProfile) {
        self.profiles.insert(of, profile);
    }

    /// Adds what a lease had of a slot.
    pub fn add_to(&self, sum: &mut NodeHour, terms: &LeaseTerms, part: SlotPart<'_>) {
        let own = self.records.get(&(part.slot, part.hour)).map(Vec::as_slice).unwrap_or_default();
        let gpus: Vec<MeasuredGpu<'_>> = own
            .iter()
            .map(|record| MeasuredGpu {
                record,
                profile: self.profiles.get(&(part.slot, part.hour, record.gpu.clone())),
                is_as_contracted: self.is_as_contracted(part.slot, &record.gpu, terms),
                // Fatal conditions are findings, and not part of a record.
                unhealthy_ms: 0,
            })
            .collect();
        let of = |is_wanted: &dyn Fn(&State) -> bool| -> Vec<Period> {
            let stretches = part.states.iter().filter(|stretch| is_wanted(&stretch.state));
            stretches.map(|stretch| stretch.period).collect()
        };
        let down = of(&|state| matches!(state, State::Down(_)));
        let excluded = of(&|state| matches!(state, State::Excluded(_)));
        let (contracted, hour) = (part.contracted, part.hour);
        let states = StateTime::within(contracted, &down, &excluded);
        let reference = reference(terms);
        let slot = SlotTime { hour, contracted, gpus: &gpus, states, reference };
        sum.add(part.slot, &slot);
    }

    /// Whether a GPU is of the model in the contract; what is not known is.
    fn is_as_contracted(&self, slot: SlotNo, uuid: &GpuUuid, terms: &LeaseTerms) -> bool {
        let wanted = catalogue::by_key(&terms.gpu_model);
        let is_it =
            |row: &&GpuRow| row.slot == slot && row.uuid == *uuid && row.partition.is_none();
        let found = self.gpus.iter().find(is_it).and_then(|row| row.catalogue_key.as_deref());
        wanted.zip(found).is_none_or(|(wanted, found)| wanted.key == found)
    }
}

/// What slowed GPUs are compared with.
fn reference(terms: &LeaseTerms) -> Reference {
    let boost = catalogue::by_key(&terms.gpu_model).and_then(|model| model.boost_mhz);
    Reference {
        sm_clock_mhz: terms.minima.sm_clock_mhz.or(boost),
        power_limit_mw: terms.minima.power_limit_mw,
    }
}
