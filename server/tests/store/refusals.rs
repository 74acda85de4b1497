//! The server program and what it refuses to start with: exit code 2, the place, and what to do.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use leasewatch_server::store::create_database;

use crate::fixture::{self, connect, run};
use crate::support;

/// What the program says when it ends with 2.
fn refused(arguments: &[&str], data_dir: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasewatch-server"));
    command.args(arguments).arg("--data-dir").arg(data_dir);
    let output = command.env_clear().output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    error
}

#[test]
fn a_mistake_in_the_file_or_on_the_command_line_is_named_with_its_place() {
    let base = fixture::base_dir();
    let file = base.path().join("leasewatch.toml");
    let path = file.display().to_string();
    for (text, expected) in [
        ("\ninterval = '0s'", "line 2: unknown field `interval`"),
        ("listen = 7443", "line 1: invalid type"),
        ("\n\nupload_mib_max = -1", "line 3: invalid value"),
        ("node_address = ['gpus']", "line 1: node_address: "),
        ("listen = ", "line 1: "),
    ] {
        fs::write(&file, text).unwrap();
        let error = refused(&["serve", "--config", &path], base.path());
        assert!(error.contains(&format!("{path}: {expected}")), "{text}: {error}");
    }
    let missing = refused(&["serve", "--config", "/nowhere.toml"], base.path());
    assert!(missing.contains("cannot read /nowhere.toml: No such file"), "{missing}");
    for (flag, expected) in [
        ("--upload-mib-max=-1", "invalid value '-1' for '--upload-mib-max <MIB>'"),
        ("--listen=here", "invalid value 'here' for '--listen <ADDRESS:PORT>'"),
        ("--interval=0s", "unexpected argument '--interval'"),
    ] {
        let error = refused(&["serve", flag], base.path());
        assert!(error.contains(expected), "{flag}: {error}");
    }
}

#[test]
fn an_identity_key_that_may_be_known_or_is_none_is_refused_with_what_to_do() {
    let base = fixture::base_dir();
    let key = base.path().join("identity.key");
    let shown = |expected: &str| {
        let error = refused(&["identity", "show"], base.path());
        let expected = format!("{}{expected}", key.display());
        assert!(error.contains(&expected), "{error}");
    };
    fs::write(&key, format!("{}\n", "0".repeat(64))).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    shown(" has mode 0644, so others may know the key; if nobody read it: chmod 600");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&key, "").unwrap();
    shown(" does not hold a key; restore it from the backup");
    fs::remove_file(&key).unwrap();
    symlink("/dev/zero", &key).unwrap();
    shown(" is not a regular file; put the key itself there");
    assert!(fs::symlink_metadata(&key).unwrap().is_symlink(), "nothing was replaced");
}

#[tokio::test]
async fn a_database_that_cannot_be_trusted_is_refused_with_the_exact_reason() {
    let test = support::database().await;
    let base = fixture::base_dir();
    let serve = |url: &str, more: &[&str]| {
        let named = ["serve", "--listen", "127.0.0.1:0", "--database-url", url];
        refused(&[&named, more].concat(), base.path())
    };
    let unsynced = serve(&test.url, &[]);
    assert!(unsynced.contains("the database runs with fsync = off: rows"), "{unsynced}");
    let superuser = serve(&test.admin_url, &[]);
    assert!(superuser.contains("is a superuser or bypasses row-level security"), "{superuser}");
    assert!(superuser.contains("connect as leasewatch_login"), "{superuser}");
    let empty = |url: &str| url.replace("postgres:///test_", "postgres:///unmigrated_");
    create_database(&empty(&test.admin_url)).await.unwrap();
    let older = serve(&empty(&test.url), &[]);
    assert!(older.contains("the schema is at version 0, this program needs"), "{older}");
    let mut admin = connect(&test.admin_url).await;
    run(&mut admin, "insert into _sqlx_migrations values (9999, 'later', now(), true, '\\x00', 0)")
        .await
        .unwrap();
    let newer = serve(&test.url, &[]);
    assert!(newer.contains("the schema is at version 9999, this program knows"), "{newer}");
    let migrated = serve(&test.url, &["--database-admin-url", &test.admin_url]);
    assert!(migrated.contains("the database has migration 9999, which"), "{migrated}");
}
