//! Where systemd runs. What it is told is compared, not done: a stub stands in for `systemctl`, for
//! there is no systemd in a namespace. The unit itself is judged by the real systemd-analyze.

use std::process::Command;

use super::machine::{Machine, worked};
use super::{Site, UNINSTALL, command};

/// Of `systemd-analyze security`, in tenths: 0 is closed, 100 open. An unhardened service has 96.
const EXPOSURE_MAX: &str = "35";
const UNIT: &str = "/etc/systemd/system/leasewatch-agent.service";

/// Notes what it is told. What was started is active.
const SYSTEMCTL: &str = r#"mkdir -p /run/systemd/system /run/told
cat >/usr/local/bin/systemctl <<'END'
#!/bin/sh
echo "$*" >>/run/told/systemctl
case "$*" in *is-active*) [ -e /run/told/started ] ;; *restart*) touch /run/told/started ;; *is-failed*) exit 1 ;; esac
END
chmod 755 /usr/local/bin/systemctl
"#;

#[test]
fn with_systemd_there_is_a_hardened_unit_that_keeps_the_gpus_and_goes_when_removed() {
    let site = Site::new();
    let machine = Machine::new("managed", "dash", &[]);
    machine.ran(SYSTEMCTL);
    let before = machine.listing();
    let shown = command(&site.page(1), "join-image");
    worked(machine.run(&shown));
    let told = machine.ran("cat /run/told/systemctl");
    assert_eq!(told, "daemon-reload\n-q enable leasewatch-agent\n");
    // It was not started, so the string is kept, for root alone.
    assert_eq!(machine.ran("stat -c %a /usr/local/lib/leasewatch-agent/join"), "600\n");

    let unit = machine.ran(&format!("cat {UNIT}"));
    assert!(!unit.contains('@') || unit.contains("@system-service"), "{unit}");
    assert!(
        unit.contains("\nDynamicUser=yes\n") && unit.contains("\nAmbientCapabilities=CAP_SYSLOG\n")
    );
    // Each of these takes /dev/nvidia* away.
    for setting in ["PrivateDevices=", "DevicePolicy=", "DeviceAllow=", "ProtectClock="] {
        assert!(!unit.lines().any(|line| line.starts_with(setting)), "{setting}");
    }
    judge(&unit);

    worked(machine.run(&format!("{UNINSTALL} --purge")));
    let told = machine.ran("cat /run/told/systemctl; rm /run/told/systemctl");
    assert!(told.contains("-q disable --now leasewatch-agent\ndaemon-reload\n"), "{told}");
    assert_eq!(machine.listing(), before);

    // A state directory that somebody chose cannot belong to an account that comes and goes.
    let elsewhere = shown.replace("--no-start", "--no-start --state-dir /srv/agent/state");
    worked(machine.run(&elsewhere));
    let unit = machine.ran(&format!("cat {UNIT}"));
    assert!(unit.contains("\nReadWritePaths=/srv/agent/state\n") && !unit.contains("DynamicUser"));
    judge(&unit);
    worked(machine.run(&format!("{UNINSTALL} --purge; rm /run/told/systemctl")));
    assert_eq!(machine.listing(), before);
}

/// As systemd sees it: no mistake, and little exposed.
fn judge(unit: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leasewatch-agent.service");
    // The program has to be there to be verified.
    let program = env!("CARGO_BIN_EXE_leasewatch-server");
    let text = unit.replace("/usr/local/lib/leasewatch-agent/leasewatch-agent", program);
    std::fs::write(&path, text).unwrap();
    let analyze = |arguments: &[&str]| {
        let output = Command::new("systemd-analyze").args(arguments).arg(&path).output();
        output.unwrap()
    };
    let verified = analyze(&["verify", "--man=no"]);
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && said.is_empty(), "{said}");
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    worked(analyze(&["security", "--offline=true", &threshold]));
}
