//! Style sheet, script and icon, compiled in. Their names carry a hash of their content, so they
//! can be cached for ever.

use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/static"]
struct Static;

/// A file that pages refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asset {
    /// The style sheet.
    Style,
    /// Live values, pausing, copying.
    Script,
    /// Crosshair and zoom of a GPU's page.
    GpuScript,
    /// The icon.
    Icon,
}

/// A file to serve, immutable under its name.
#[derive(Debug, Clone)]
pub struct File {
    /// Its bytes.
    pub bytes: std::borrow::Cow<'static, [u8]>,
    /// Its media type.
    pub content_type: &'static str,
}

impl Asset {
    /// Every asset.
    pub const ALL: [Self; 4] = [Self::Style, Self::Script, Self::GpuScript, Self::Icon];

    /// Its URL, hash included.
    #[must_use]
    pub fn url(self) -> String {
        crate::path::pattern::ASSET.replace("{file}", &self.file_name())
    }

    /// Name, hash, ending: `leasewatch.0123456789ab.css`.
    fn file_name(self) -> String {
        let (stem, ending, _) = self.parts();
        let hash = Static::get(self.source()).map(|file| file.metadata.sha256_hash());
        let bytes = hash.unwrap_or_default();
        let digest: String = bytes.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        format!("{stem}.{digest}.{ending}")
    }

    fn source(self) -> &'static str {
        match self {
            Self::Style => "leasewatch.css",
            Self::Script => "live.js",
            Self::GpuScript => "gpu.js",
            Self::Icon => "icon.svg",
        }
    }

    fn parts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Style => ("leasewatch", "css", "text/css; charset=utf-8"),
            Self::Script => ("live", "js", "text/javascript; charset=utf-8"),
            Self::GpuScript => ("gpu", "js", "text/javascript; charset=utf-8"),
            Self::Icon => ("icon", "svg", "image/svg+xml"),
        }
    }
}

/// The file with this name, hash included; `None` for any other, also for an old hash.
#[must_use]
pub fn find(file_name: &str) -> Option<File> {
    let asset = Asset::ALL.into_iter().find(|asset| asset.file_name() == file_name)?;
    let (_, _, content_type) = asset.parts();
    Some(File { bytes: Static::get(asset.source())?.data, content_type })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_leads_to_its_file_and_an_old_hash_to_nothing() {
        for asset in Asset::ALL {
            let url = asset.url();
            let name = url.strip_prefix("/assets/").unwrap();
            assert!(!find(name).unwrap().bytes.is_empty());
            assert!(!name.contains("000000000000"));
        }
        assert!(find("leasewatch.000000000000.css").is_none());
        assert!(find("../Cargo.toml").is_none());
    }
}
