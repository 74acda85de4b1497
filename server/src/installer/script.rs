//! The script that installs an agent: one file for a POSIX shell, put together from the files
//! beside this one.
//!
//! It is the same for everybody who asks, and holds the digests of the agents and the addresses of
//! the server, and no secret. Everything that is put in has been checked to hold no quote.

use leasewatch_core::join::JoinAddress;

use super::agents::Agent;

const INSTALL: &str = include_str!("install.sh");
const RESPAWN: &str = include_str!("respawn.sh");
const UNINSTALL: &str = include_str!("uninstall.sh");
const UNIT: &str = include_str!("leasewatch-agent.service");

/// The text; it ends with a newline.
pub(super) fn render(agents: &[Agent], addresses: &[JoinAddress]) -> String {
    let version = agents.first().map_or("", |agent| agent.version.as_str());
    let known: Vec<String> =
        agents.iter().map(|agent| format!("{} {}", agent.architecture, agent.digest)).collect();
    let addresses: Vec<&str> = addresses.iter().map(JoinAddress::as_str).collect();
    INSTALL
        .replace("@VERSION@", version)
        .replace("@ADDRESSES@", &addresses.join(" "))
        .replace("@AGENTS@", &known.join("\n"))
        .replace("@RESPAWN@", RESPAWN.trim_end())
        .replace("@UNINSTALL@", UNINSTALL.trim_end())
        .replace("@UNIT@", UNIT.trim_end())
}
