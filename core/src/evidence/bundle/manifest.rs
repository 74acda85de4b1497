//! The manifest: what was asked for, and every file with its length and hash.

use ed25519_dalek::{SigningKey, VerifyingKey};

use crate::evidence::canonical::Value;
use crate::evidence::log::checkpoint::LogOrigin;
use crate::evidence::statement::{
    Fields, SignatureError, StatementBuilder, StatementError, StatementKind, sign, verify,
};
use crate::id::{Hash, Slug};
use crate::time::{Period, Timestamp, Zone};

/// Most bytes of a manifest.
pub const BYTES_MAX: usize = 8 << 20;
/// Most files of a bundle.
const FILES_MAX: usize = 65_536;
/// Most leases of a bundle.
const LEASES_MAX: usize = 1_024;

/// How much a bundle holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BundleForm {
    /// Heads around claimed intervals alone.
    Small,
    /// Every head of the window, one before and one after.
    Full,
    /// The segments too, so that every hour can be computed again.
    Raw,
}

/// What somebody asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Whose.
    pub tenant: Slug,
    /// Whose nodes supplied it.
    pub provider: Slug,
    /// Leases by name, ascending; none: every node of the provider.
    pub leases: Vec<Slug>,
    /// From when to when.
    pub window: Period,
    /// How much.
    pub form: BundleForm,
    /// The zone that documents print times in, beside UTC.
    pub zone: Zone,
}

/// A file of the bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleFile {
    /// Its name: `[a-z0-9._/-]`, no step upwards.
    pub name: String,
    /// Bytes.
    pub length: u64,
    /// SHA-256 of them.
    pub sha256: Hash,
}

/// What a bundle says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// What was asked for.
    pub scope: Scope,
    /// The log.
    pub log: LogOrigin,
    /// How many leaves of it there were.
    pub log_size: u64,
    /// Every file but the manifest and its signature, ascending by name.
    pub files: Vec<BundleFile>,
    /// The server's identity key.
    pub key: [u8; 32],
    /// Version of the program that made it.
    pub tool: String,
    /// Version of the time zone database that it used.
    pub tz_database: String,
}

impl BundleForm {
    /// Its name in a manifest and in requests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Full => "full",
            Self::Raw => "raw",
        }
    }

    /// The form with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Small, Self::Full, Self::Raw].into_iter().find(|form| form.name() == name)
    }
}

impl Manifest {
    /// The canonical statement of kind `manifest`.
    #[must_use]
    pub fn statement(&self) -> Vec<u8> {
        let files = self.files.iter().map(|file| {
            StatementBuilder::object_of()
                .text("name", &file.name)
                .int("length", i64::try_from(file.length).unwrap_or(i64::MAX))
                .id("sha256", file.sha256)
        });
        let leases = self.scope.leases.iter().map(|lease| Value::Str(lease.to_string()));
        StatementBuilder::new(StatementKind::Manifest)
            .id("tenant", &self.scope.tenant)
            .id("provider", &self.scope.provider)
            .value("leases", Value::Array(leases.collect()))
            .time("from", self.scope.window.start)
            .time("to", self.scope.window.end)
            .text("form", self.scope.form.name())
            .text("zone", self.scope.zone.name())
            .text("tz_database", &self.tz_database)
            .text("log", self.log.as_str())
            .decimal("log_size", self.log_size)
            .objects("files", files)
            .id("key", Hash(self.key))
            .text("tool", &self.tool)
            .to_bytes()
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// [`StatementError`], also for files that do not ascend by name or have one that leads out of
    /// the bundle, and for leases that do not ascend.
    pub fn from_statement(bytes: &[u8]) -> Result<Self, StatementError> {
        let mut fields = Fields::of_statement(StatementKind::Manifest, bytes, BYTES_MAX)?;
        let leases = fields.array("leases", LEASES_MAX)?.into_iter().map(lease);
        let window = Period::new(fields.time("from")?, fields.time("to")?);
        let log_size = fields.decimal("log_size")?;
        let files = fields.array("files", FILES_MAX)?.into_iter().map(file);
        let manifest = Self {
            scope: Scope {
                tenant: fields.id("tenant")?,
                provider: fields.id("provider")?,
                leases: leases.collect::<Result<_, _>>()?,
                window,
                form: fields.name("form", BundleForm::from_name)?,
                zone: fields.name("zone", |name| Zone::parse(name).ok())?,
            },
            log: fields.name("log", LogOrigin::from_text)?,
            log_size: u64::try_from(log_size)
                .map_err(|_| StatementError::Invalid { field: "log_size" })?,
            files: files.collect::<Result<_, _>>()?,
            key: fields.id::<Hash>("key")?.0,
            tool: fields.text("tool", 64)?,
            tz_database: fields.text("tz_database", 16)?,
        };
        fields.finish()?;
        let invalid = |field| Err(StatementError::Invalid { field });
        if window.is_empty() || window.end > Timestamp::MAX {
            return invalid("to");
        }
        if !manifest.scope.leases.is_sorted_by(|a, b| a < b) {
            return invalid("leases");
        }
        if !manifest.files.is_sorted_by(|a, b| a.name < b.name) {
            return invalid("files");
        }
        Ok(manifest)
    }

    /// The content of `manifest.sig`.
    #[must_use]
    pub fn signature_file(statement: &[u8], key: &SigningKey) -> String {
        let signature = sign(StatementKind::Manifest, statement, key);
        let hex: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
        hex + "\n"
    }

    /// Checks the content of `manifest.sig`.
    ///
    /// # Errors
    /// [`SignatureError`].
    pub fn verify(
        statement: &[u8],
        signature_file: &str,
        key: &VerifyingKey,
    ) -> Result<(), SignatureError> {
        let line = signature_file.strip_suffix('\n').ok_or(SignatureError::Signature)?;
        let signature = signature_of_line(line).ok_or(SignatureError::Signature)?;
        verify(StatementKind::Manifest, statement, &signature, key)
    }

    /// The file of this name.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<&BundleFile> {
        let found = self.files.binary_search_by(|file| file.name.as_str().cmp(name));
        found.ok().and_then(|at| self.files.get(at))
    }
}

/// A signature as a line of a `.sig` file: 128 lower-case hex digits.
#[must_use]
pub fn signature_of_line(line: &str) -> Option<[u8; 64]> {
    let (first, second) = line.split_at_checked(64)?;
    let (first, second): (Hash, Hash) = (first.parse().ok()?, second.parse().ok()?);
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&first.0);
    signature[32..].copy_from_slice(&second.0);
    Some(signature)
}

fn lease(value: Value) -> Result<Slug, StatementError> {
    let invalid = StatementError::Invalid { field: "leases" };
    match value {
        Value::Str(name) => Slug::new(&name).map_err(|_| invalid),
        _ => Err(invalid),
    }
}

fn file(value: Value) -> Result<BundleFile, StatementError> {
    let mut fields = Fields::of_value("files", value)?;
    let file = BundleFile {
        name: fields.name("name", file_name)?,
        length: fields.unsigned("length")?,
        sha256: fields.id("sha256")?,
    };
    fields.finish()?;
    Ok(file)
}

fn file_name(name: &str) -> Option<String> {
    let is_part = |part: &str| {
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(fits)
    };
    let own = [super::name::MANIFEST, super::name::MANIFEST_SIGNATURE];
    let fits = name.len() <= 200 && name.split('/').all(is_part) && !own.contains(&name);
    fits.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let slug = |text| Slug::new(text).unwrap();
        let file = |name: &str| BundleFile {
            name: name.to_owned(),
            length: 3,
            sha256: Hash::of(name.as_bytes()),
        };
        Manifest {
            scope: Scope {
                tenant: slug("tenant-a"),
                provider: slug("provider-a"),
                leases: vec![slug("lease-a"), slug("lease-b")],
                window: Period::new(Timestamp(1_785_542_400_000), Timestamp(1_788_220_800_000)),
                form: BundleForm::Small,
                zone: Zone::parse("Asia/Shanghai").unwrap(),
            },
            log: LogOrigin::from_text("leasewatch/0123456789abcdef/tenant-a/provider-a").unwrap(),
            log_size: 49_152,
            files: vec![file("hours.jsonl"), file("log.jsonl"), file("segments/1.bin")],
            key: SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes(),
            tool: "0.1.0".to_owned(),
            tz_database: "2025b".to_owned(),
        }
    }

    #[test]
    fn a_manifest_reads_back_and_its_signature_holds() {
        let bytes = manifest().statement();
        assert_eq!(Manifest::from_statement(&bytes), Ok(manifest()));
        let key = SigningKey::from_bytes(&[1; 32]);
        let signature = Manifest::signature_file(&bytes, &key);
        assert_eq!(Manifest::verify(&bytes, &signature, &key.verifying_key()), Ok(()));
        let wrong = Err(SignatureError::Signature);
        for other in
            [signature.trim_end().to_owned(), signature.to_uppercase(), signature.replace('a', "b")]
        {
            assert_eq!(Manifest::verify(&bytes, &other, &key.verifying_key()), wrong);
        }
        assert_eq!(manifest().file("log.jsonl").map(|file| file.length), Some(3));
        assert_eq!(manifest().file("log"), None);
    }

    #[test]
    fn names_that_lead_elsewhere_and_lists_out_of_order_are_refused() {
        for name in ["", "/a", "../a", "a/../b", "a//b", ".a", "A", "a\\b", "manifest.json", "c:d"]
        {
            let mut wrong = manifest();
            wrong.files[0].name = name.to_owned();
            let read = Manifest::from_statement(&wrong.statement());
            assert_eq!(read, Err(StatementError::Invalid { field: "name" }), "{name}");
        }
        let mut wrong = manifest();
        wrong.files.swap(0, 1);
        let invalid = |field| Err(StatementError::Invalid { field });
        assert_eq!(Manifest::from_statement(&wrong.statement()), invalid("files"));
        let mut wrong = manifest();
        wrong.scope.leases[1] = wrong.scope.leases[0].clone();
        assert_eq!(Manifest::from_statement(&wrong.statement()), invalid("leases"));
        let mut wrong = manifest();
        wrong.scope.window.end = wrong.scope.window.start;
        assert_eq!(Manifest::from_statement(&wrong.statement()), invalid("to"));
    }
}
