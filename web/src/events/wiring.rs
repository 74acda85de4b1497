//! How GPUs hang in their host, and the disk below, in words.

use leasewatch_core::segment::{
    DiskMedium, Found, GpuWiring, NvlinkGroup, NvlinkRemote, PathLevel, Unread, WorkDisk,
};

use crate::format::Quantity;
use crate::i18n::{Language, Text, phrase};

/// One GPU's wiring, without its way to the others: `NUMA node 0, CPUs 0-31, 18 of 18 ..`.
#[must_use]
pub fn wiring(wiring: &GpuWiring, language: Language) -> String {
    let missing = |what: Text, reason: Unread| {
        phrase::wiring_unread(language, unread(reason).words(language), what.words(language))
    };
    let numa = match &wiring.numa_nodes {
        Ok(nodes) => phrase::wiring_numa(language, nodes),
        Err(reason) => missing(Text::WiringWordNuma, *reason),
    };
    let cpus = match &wiring.cpus {
        Ok(cpus) => phrase::wiring_cpus(language, cpus),
        Err(reason) => missing(Text::WiringWordCpus, *reason),
    };
    let links = match &wiring.nvlinks {
        Ok(groups) => nvlinks(groups, language),
        Err(reason) => missing(Text::WiringWordNvlink, *reason),
    };
    [numa, cpus, links].join(Text::ListSeparator.words(language))
}

fn nvlinks(groups: &[NvlinkGroup], language: Language) -> String {
    let sum = |wanted: fn(&&NvlinkGroup) -> bool| -> i64 {
        groups.iter().filter(wanted).map(|group| group.count).fold(0, i64::saturating_add)
    };
    let (up, all) = (sum(|group| group.up), sum(|_| true));
    if all == 0 {
        return Text::WiringNoLinks.words(language).to_owned();
    }
    let count = |count| Quantity::count(count).text(language);
    let links = phrase::wiring_links(language, count(all), count(up));
    match groups.iter().find(|group| group.up).map(|group| group.remote) {
        None | Some(NvlinkRemote::Unknown) => links,
        Some(remote) => phrase::wiring_links_to(language, links, far_end(remote).words(language)),
    }
}

/// The disk: `NVMe (ext4)`.
#[must_use]
pub fn disk(disk: &WorkDisk, language: Language) -> String {
    let medium = match disk.medium {
        Ok(medium) => medium_text(medium),
        Err(reason) => unread(reason),
    };
    let medium = medium.words(language);
    match &disk.filesystem {
        Some(filesystem) => phrase::wiring_disk_of(language, filesystem, medium),
        None => medium.to_owned(),
    }
}

/// What two GPUs have in common.
#[must_use]
pub fn level(level: Found<PathLevel>) -> Text {
    match level {
        Ok(PathLevel::Board) => Text::WiringLevelBoard,
        Ok(PathLevel::Switch) => Text::WiringLevelSwitch,
        Ok(PathLevel::Switches) => Text::WiringLevelSwitches,
        Ok(PathLevel::HostBridge) => Text::WiringLevelBridge,
        Ok(PathLevel::NumaNode) => Text::WiringLevelNuma,
        Ok(PathLevel::System) => Text::WiringLevelSystem,
        Err(reason) => unread(reason),
    }
}

fn far_end(remote: NvlinkRemote) -> Text {
    match remote {
        NvlinkRemote::Gpu => Text::WiringToGpu,
        NvlinkRemote::Switch => Text::WiringToSwitch,
        NvlinkRemote::Cpu => Text::WiringToCpu,
        NvlinkRemote::Unknown => Text::MissingNoData,
    }
}

fn unread(reason: Unread) -> Text {
    match reason {
        Unread::Unsupported => Text::WiringUnsupported,
        Unread::Denied => Text::WiringDenied,
        Unread::Failed => Text::MissingReadError,
    }
}

fn medium_text(medium: DiskMedium) -> Text {
    match medium {
        DiskMedium::Nvme => Text::WiringDiskNvme,
        DiskMedium::SolidState => Text::WiringDiskSolid,
        DiskMedium::Rotational => Text::WiringDiskSpinning,
        DiskMedium::Virtual => Text::WiringDiskVirtual,
        DiskMedium::Network => Text::WiringDiskNetwork,
        DiskMedium::Overlay => Text::WiringDiskOverlay,
        DiskMedium::Memory => Text::WiringDiskMemory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_read_says_so_beside_what_could() {
        let group = |count, up| NvlinkGroup {
            count,
            up,
            version: None,
            speed_mb_s: None,
            remote: NvlinkRemote::Switch,
        };
        let some = GpuWiring {
            numa_nodes: Ok("1".to_owned()),
            cpus: Err(Unread::Denied),
            nvlinks: Ok(vec![group(1, false), group(17, true)]),
            paths: Vec::new(),
        };
        assert_eq!(
            wiring(&some, Language::En),
            "NUMA node 1, CPUs: not permitted, 17 of 18 NVLink links up (switch)"
        );
        let none = GpuWiring {
            numa_nodes: Err(Unread::Unsupported),
            cpus: Ok("0-7".to_owned()),
            nvlinks: Ok(Vec::new()),
            paths: Vec::new(),
        };
        assert_eq!(wiring(&none, Language::ZhCn), "NUMA：此处不提供、CPU 0-7、无 NVLink");
        let overlay =
            WorkDisk { medium: Ok(DiskMedium::Overlay), filesystem: Some("overlay".to_owned()) };
        assert_eq!(disk(&overlay, Language::En), "container layer (overlay)");
    }
}
