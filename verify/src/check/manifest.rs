//! The manifest, its signature, and that every file is the one that it lists.

use leasewatch_core::evidence::bundle::{MANIFEST_BYTES_MAX, Manifest, name};
use leasewatch_core::evidence::chain::public_key;
use leasewatch_core::id::Hash;

use super::Evidence;
use crate::report::Fault;

pub(super) fn check(evidence: &mut Evidence<'_>) -> Result<String, Fault> {
    let max = u64::try_from(MANIFEST_BYTES_MAX).unwrap_or(u64::MAX);
    let bytes = evidence.archive.whole(name::MANIFEST, max)?;
    let signature = evidence.archive.whole(name::MANIFEST_SIGNATURE, 1_024)?;
    let manifest = Manifest::from_statement(&bytes)
        .map_err(|error| Fault::Malformed(format!("{}: {error}", name::MANIFEST)))?;
    let altered = |what: &str| Fault::Mismatch(format!("{}: {what}", name::MANIFEST));
    let key = public_key(&manifest.key).map_err(|error| altered(&error.to_string()))?;
    Manifest::verify(&bytes, &String::from_utf8_lossy(&signature), &key)
        .map_err(|error| altered(&error.to_string()))?;
    let servers = &evidence.trust.servers;
    if !servers.is_empty() && !servers.contains(&key) {
        return Err(altered("it is signed by another server than the one that you trust"));
    }
    let listed = manifest.files.iter().map(|file| file.name.as_str());
    let mut listed: Vec<&str> = listed.chain([name::MANIFEST, name::MANIFEST_SIGNATURE]).collect();
    listed.sort_unstable();
    let odd = |name: &&String| listed.binary_search(&name.as_str()).is_err();
    if let Some(odd) = evidence.archive.names().iter().find(odd) {
        return Err(Fault::Mismatch(format!("{odd} is not in the manifest")));
    }
    if let Some(missing) = listed.iter().find(|name| !evidence.archive.has(name)) {
        return Err(Fault::Mismatch(format!(
            "{missing} is in the manifest and not in the archive"
        )));
    }
    for file in &manifest.files {
        if evidence.archive.digest(&file.name, file.length)? != (file.length, file.sha256) {
            return Err(Fault::Mismatch(format!(
                "{} is not the file that the manifest lists",
                file.name
            )));
        }
    }
    let said = format!(
        "signed by {}{}; {} files as listed; {} at {} from {} to {}",
        Hash(manifest.key),
        if servers.is_empty() { " (compare it with what the server's owner told you)" } else { "" },
        manifest.files.len(),
        manifest.scope.tenant,
        manifest.scope.provider,
        manifest.scope.window.start,
        manifest.scope.window.end,
    );
    evidence.manifest = Some(manifest);
    Ok(said)
}
