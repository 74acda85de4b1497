//! Who PostgreSQL runs as. It refuses root, so as root it gets the account `postgres` or `nobody`.
//!
//! Read from /etc/passwd; accounts that only a directory service knows are not found.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use super::EmbeddedError;

/// Another account to become, or `None` to stay who we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Account(Option<Ids>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ids {
    uid: u32,
    gid: u32,
}

impl Account {
    /// Stay as we are, unless that is root.
    pub(super) fn for_postgres() -> Result<Self, EmbeddedError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self(None));
        }
        let passwd =
            fs::read_to_string("/etc/passwd").map_err(EmbeddedError::io("read /etc/passwd"))?;
        let ids = ["postgres", "nobody"].iter().find_map(|name| find(&passwd, name));
        ids.map(|ids| Self(Some(ids))).ok_or(EmbeddedError::NoAccount)
    }

    /// Lets a command run as this account. Supplementary groups of root are dropped with it.
    pub(super) fn apply(self, command: &mut Command) {
        if let Some(Ids { uid, gid }) = self.0 {
            command.uid(uid).gid(gid);
        }
    }

    /// Gives a file or directory to this account.
    pub(super) fn own(self, path: &Path) -> Result<(), EmbeddedError> {
        let Some(Ids { uid, gid }) = self.0 else {
            return Ok(());
        };
        std::os::unix::fs::chown(path, Some(uid), Some(gid)).map_err(EmbeddedError::io(format!(
            "give {} to the account of PostgreSQL",
            path.display()
        )))
    }
}

fn find(passwd: &str, name: &str) -> Option<Ids> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let matches = fields.next() == Some(name);
        let _password = fields.next();
        let ids = Ids { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? };
        (matches && ids.uid != 0).then_some(ids)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_whole_name_and_never_root() {
        let passwd = "root:x:0:0::/root:/bin/sh\npostgresql:x:7:7::/:\npostgres:x:101:104:,,,:/var:/bin/sh\n\nnobody:x:0:0::/:\n";
        assert_eq!(find(passwd, "postgres"), Some(Ids { uid: 101, gid: 104 }));
        assert_eq!(find(passwd, "nobody"), None);
        assert_eq!(find(passwd, "post"), None);
    }
}
