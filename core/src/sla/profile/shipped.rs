//! The profiles that come with the program: the files of `profiles/`, as they are there.

/// The id of the own objectives, for leases without a provider's profile and for the verdict on
/// quality.
pub const OWN_OBJECTIVE: &str = "own-objective";

macro_rules! files {
    ($($name:literal,)+) => {
        &[$(($name, include_str!(concat!("../../../../profiles/", $name, ".toml"))),)+]
    };
}

/// Ids and texts of the profiles that come with the program, by id.
#[must_use]
pub fn shipped() -> &'static [(&'static str, &'static str)] {
    files![
        "alibaba-ecs",
        "atlas-cloud",
        "aws-ec2",
        "azure-vm",
        "coreweave",
        "gcp-gce",
        "gpuhub",
        "huawei-cloud",
        "ionstream-bare-metal",
        "lumin-house",
        "nebius-compute",
        "nebius-kubernetes",
        "nevskiy",
        "nvidia-ncp",
        "oci-compute",
        "own-objective",
        "runpod-host",
        "tencent-cloud",
        "tensordock",
        "voltage-park-vm",
        "vultr",
        "yandex-compute",
    ]
}
