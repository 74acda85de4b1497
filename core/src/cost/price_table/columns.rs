//! Which column of a price table holds what: by the headers that are known, or as a person said.

use csv::StringRecord;

/// A table whose header is known. All but the first are catalogues of one provider each, in the
/// format of SkyPilot; they differ in columns and order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// `Cloud, GPU Type, .., On-demand, Per-GPU, Spot, Name`: many providers in one table.
    CloudGpus,
    /// SkyPilot with `GpuInfo`, as for Lambda.
    SkyPilot,
    /// The same with `StorageGiB`, as for Hyperbolic.
    SkyPilotStorage,
    /// The same with `AvailabilityZone`, as for RunPod.
    SkyPilotZone,
}

/// Names of the columns of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Columns {
    /// Name of the GPU.
    pub gpu: String,
    /// How many GPUs the instance has.
    pub count: String,
    /// Price of the instance for an hour.
    pub on_demand: Option<String>,
    /// Price of the spot instance for an hour.
    pub spot: Option<String>,
    /// Price of a GPU for an hour; only compared.
    pub per_gpu: Option<String>,
    /// The provider.
    pub provider: Option<String>,
    /// Name of the instance.
    pub instance: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// A cell that names the GPU as its driver does.
    pub details: Option<String>,
}

/// A column that was named is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the table has no column `{name}`; it has {header}")]
pub struct ColumnsFault {
    /// The name.
    pub name: String,
    /// Those that are there.
    pub header: String,
}

/// Where the columns stand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    pub(super) gpu: usize,
    pub(super) count: usize,
    pub(super) on_demand: Option<usize>,
    pub(super) spot: Option<usize>,
    pub(super) per_gpu: Option<usize>,
    pub(super) provider: Option<usize>,
    pub(super) instance: Option<usize>,
    pub(super) region: Option<usize>,
    pub(super) details: Option<usize>,
}

const SKY: [&str; 7] = [
    "InstanceType",
    "AcceleratorName",
    "AcceleratorCount",
    "Price",
    "Region",
    "GpuInfo",
    "SpotPrice",
];

impl Schema {
    /// The table with this header, whatever the order of its columns.
    #[must_use]
    pub fn of(header: &StringRecord) -> Option<Self> {
        let has = |name: &str| header.iter().any(|cell| cell.trim() == name);
        let clouds = ["Cloud", "GPU Type", "GPUs", "On-demand", "Per-GPU", "Spot", "Name"];
        match () {
            () if clouds.into_iter().all(has) => Some(Self::CloudGpus),
            () if !SKY.into_iter().all(has) => None,
            () if has("StorageGiB") => Some(Self::SkyPilotStorage),
            () if has("AvailabilityZone") => Some(Self::SkyPilotZone),
            () => Some(Self::SkyPilot),
        }
    }

    /// Its name in the database and on pages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CloudGpus => "cloud-gpus",
            Self::SkyPilot => "skypilot",
            Self::SkyPilotStorage => "skypilot-storage",
            Self::SkyPilotZone => "skypilot-zone",
        }
    }

    pub(super) fn columns(self) -> Columns {
        let some = |name: &str| Some(name.to_owned());
        match self {
            Self::CloudGpus => Columns {
                gpu: "GPU Type".to_owned(),
                count: "GPUs".to_owned(),
                on_demand: some("On-demand"),
                spot: some("Spot"),
                per_gpu: some("Per-GPU"),
                provider: some("Cloud"),
                instance: some("Name"),
                region: None,
                details: None,
            },
            Self::SkyPilot | Self::SkyPilotStorage | Self::SkyPilotZone => Columns {
                gpu: "AcceleratorName".to_owned(),
                count: "AcceleratorCount".to_owned(),
                on_demand: some("Price"),
                spot: some("SpotPrice"),
                per_gpu: None,
                provider: None,
                instance: some("InstanceType"),
                region: some("Region"),
                details: some("GpuInfo"),
            },
        }
    }
}

impl Columns {
    /// Where they stand in `header`.
    ///
    /// # Errors
    /// [`ColumnsFault`] for the first name that is not there.
    pub(super) fn places(&self, header: &StringRecord) -> Result<Places, ColumnsFault> {
        let place = |name: &str| {
            let found = header.iter().position(|cell| cell.trim() == name.trim());
            let fault = || ColumnsFault { name: name.to_owned(), header: listed(header) };
            found.ok_or_else(fault)
        };
        let optional = |name: &Option<String>| name.as_deref().map(place).transpose();
        Ok(Places {
            gpu: place(&self.gpu)?,
            count: place(&self.count)?,
            on_demand: optional(&self.on_demand)?,
            spot: optional(&self.spot)?,
            per_gpu: optional(&self.per_gpu)?,
            provider: optional(&self.provider)?,
            instance: optional(&self.instance)?,
            region: optional(&self.region)?,
            details: optional(&self.details)?,
        })
    }
}

/// The names of a header for people, as much as fits a message.
pub(super) fn listed(header: &StringRecord) -> String {
    let names: Vec<&str> = header.iter().map(str::trim).collect();
    let clean = names.join(", ").replace(char::is_control, " ");
    clean.chars().take(300).collect()
}
