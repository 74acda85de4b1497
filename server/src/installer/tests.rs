use super::*;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut sums = String::new();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
        sums += &format!("{}  {name}\n", Hash::of(text.as_bytes()));
    }
    fs::write(folder.path().join("SHA256SUMS"), sums).unwrap();
    folder
}

fn installers(folder: &Path) -> Installers {
    let addresses = ["https://203.0.113.7:7443", "https://[::1]:7443"];
    let addresses = addresses.map(|text| JoinAddress::new(text).unwrap()).to_vec();
    Installers::new(folder.to_owned(), addresses)
}

#[test]
fn an_agent_is_handed_out_by_its_sum_and_the_script_knows_it() {
    let x86 = ("leasewatch-agent-0.1.0-x86_64", "an agent");
    let folder = folder(&[x86, ("leasewatch-agent-0.1.1-rc.1-aarch64", "another agent")]);
    let installers = installers(folder.path());
    let installer = installers.current().unwrap();
    assert_eq!(installer.agents[1].version, "0.1.1-rc.1");
    let digest = Hash::of(b"an agent");
    let (agent, mut file) = installer.open(&digest).unwrap().unwrap();
    let mut text = String::new();
    io::Read::read_to_string(&mut file, &mut text).unwrap();
    assert_eq!((agent.bytes, text.as_str()), (8, "an agent"));
    assert!(installer.open(&Hash::of(b"")).unwrap().is_none());

    let script = &installer.script;
    assert!(script.contains(&format!("\nagents='x86_64 {digest}\naarch64 ")), "{script}");
    assert!(script.contains("\naddresses='https://203.0.113.7:7443 https://[::1]:7443'\n"));
    assert!(script.ends_with("\nmain \"$@\"\n") && script.len() < 60_000);
    for name in ["VERSION", "ADDRESSES", "AGENTS", "RESPAWN", "UNINSTALL", "UNIT"] {
        assert!(!script.contains(&format!("@{name}@")), "{name}");
    }
    assert_eq!(installer.digest, Hash::of(script.as_bytes()));
    assert_eq!(installers.url().unwrap(), "https://203.0.113.7:7443/install.sh");
}

#[test]
fn a_folder_whose_sums_do_not_match_is_refused_with_the_file_and_read_again_when_it_changes() {
    let name = "leasewatch-agent-0.1.0-x86_64";
    let folder = folder(&[(name, "an agent")]);
    let installers = installers(folder.path());
    let before = installers.current().unwrap();
    fs::write(folder.path().join(name), "an agent that was exchanged").unwrap();
    let refused = installers.current().unwrap_err().to_string();
    assert!(refused.contains(name) && refused.contains("SHA256SUMS"), "{refused}");
    // Whoever has asked before the change gets nothing that was not compared.
    assert!(before.open(&Hash::of(b"an agent")).is_err());
    let sum = Hash::of(b"an agent that was exchanged");
    fs::write(folder.path().join("SHA256SUMS"), format!("{sum}  {name}\n")).unwrap();
    let after = installers.current().unwrap();
    assert!(after.open(&sum).unwrap().is_some());
    assert_ne!(after.digest, before.digest);
    fs::remove_file(folder.path().join("SHA256SUMS")).unwrap();
    let absent = installers.current().unwrap_err().to_string();
    assert!(absent.contains("scripts/agent-dir"), "{absent}");
}

#[test]
fn sums_that_name_anything_else_are_refused() {
    let sum = Hash::of(b"x");
    for line in [
        format!("{sum}  ../leasewatch-agent-0.1.0-x86_64"),
        format!("{sum}  leasewatch-agent-0.1.0-x86_64/../x-x86_64"),
        format!("{sum}  leasewatch-agent-0.1.0-sparc"),
        format!("{sum}  leasewatch-agent-'-x86_64"),
        format!("{sum}  leasewatch-agent--x86_64"),
        format!("{sum} leasewatch-agent-0.1.0-x86_64"),
        "abc  leasewatch-agent-0.1.0-x86_64".to_owned(),
        String::new(),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("SHA256SUMS"), format!("{line}\n")).unwrap();
        let refused = installers(folder.path()).current().unwrap_err();
        assert!(matches!(*refused, AgentsError::Malformed { line: 1, .. }), "{line}: {refused}");
    }
    let twice = folder(&[
        ("leasewatch-agent-0.1.0-x86_64", "one"),
        ("leasewatch-agent-0.2.0-x86_64", "two"),
    ]);
    let refused = installers(twice.path()).current().unwrap_err();
    assert!(matches!(*refused, AgentsError::Twice { .. }), "{refused}");
}
