//! Commands that join a node, exactly as they can be pasted into a shell.
//!
//! A join string is a secret, and every account of a machine can read the arguments of its
//! programs. So it stands where only the shell has it: in its own `printf`, or in front of a command
//! as a variable. What fetches the installer checks no certificate; the SHA-256 that stands beside
//! it is all that is trusted. Nothing put in here holds a quote: join strings are letters, digits,
//! `-` and `_`, addresses are checked where they are set.

use super::InstallerFacts;
use crate::i18n::Text;

/// A way to join a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    /// For the copy button.
    pub(super) id: &'static str,
    /// What it is for.
    pub(super) title: Text,
    /// What to know about it.
    pub(super) note: Option<Text>,
    /// Whether it is folded away at first.
    pub(super) is_folded: bool,
    /// What to paste.
    pub(super) command: String,
}

/// What fetches a text to the standard output. `-g` because of the brackets of IPv6.
const CURL: &str = "curl -gfsSk";
const WGET: &str = "wget -qO- --no-check-certificate";
const PYTHON: &str = "python3 -c 'import ssl,sys,urllib.request as r; sys.stdout.write(r.urlopen(sys.argv[1], \
                      context=ssl._create_unverified_context()).read().decode())'";

pub(super) fn ways(join: &str, installer: Option<&InstallerFacts>) -> Vec<Way> {
    let way = |id, title, note, command| Way { id, title, note, is_folded: false, command };
    let folded = |id, title, note, command| Way { id, title, note, is_folded: true, command };
    let mut ways = Vec::new();
    if let Some(facts) = installer {
        let install = |fetch, options| install(Some(join), facts, fetch, options);
        ways.extend([
            way("join-curl", Text::EnrollMachine, Some(Text::EnrollMachineNote), install(CURL, "")),
            folded("join-wget", Text::EnrollWget, None, install(WGET, "")),
            folded("join-python", Text::EnrollPython, None, install(PYTHON, "")),
            folded(
                "join-user",
                Text::EnrollUser,
                Some(Text::EnrollUserNote),
                install(CURL, "--user"),
            ),
            folded(
                "join-image",
                Text::EnrollImage,
                Some(Text::EnrollImageNote),
                install(CURL, "--no-start"),
            ),
        ]);
    } else {
        let command = format!("LEASEWATCH_JOIN={join} leasewatch-agent run");
        ways.push(way("join-run", Text::EnrollRun, Some(Text::EnrollNoAgents), command));
    }
    ways.extend([
        way("join-container", Text::EnrollContainer, Some(Text::EnrollContainerNote), docker(join)),
        way(
            "join-kubernetes",
            Text::EnrollKubernetes,
            Some(Text::EnrollKubernetesNote),
            kube(join),
        ),
        folded("join-string", Text::EnrollAlone, None, join.to_owned()),
    ]);
    ways
}

/// What brings the agent of this server to a node that has one.
pub(super) fn upgrade(installer: &InstallerFacts) -> Way {
    Way {
        id: "upgrade",
        title: Text::EnrollUpgrade,
        note: Some(Text::EnrollUpgradeNote),
        is_folded: true,
        command: install(None, installer, CURL, ""),
    }
}

/// The script is kept in a variable and given to a shell on its standard input, so there is no file
/// that anybody could exchange after it was compared, and none that stays. Root needs no sudo.
fn install(join: Option<&str>, installer: &InstallerFacts, fetch: &str, options: &str) -> String {
    let InstallerFacts { url, sha256 } = installer;
    let join = join.map(|join| format!("LEASEWATCH_JOIN={join} ")).unwrap_or_default();
    let shell = match options {
        "" => "$([ \"$(id -u)\" = 0 ] || echo sudo) sh".to_owned(),
        "--user" => "sh -s -- --user".to_owned(),
        options => format!("$([ \"$(id -u)\" = 0 ] || echo sudo) sh -s -- {options}"),
    };
    format!(
        "if i=$({fetch} '{url}') &&\n  \
           [ \"$(printf '%s\\n' \"$i\" | sha256sum | cut -c 1-64)\" = {sha256} ]\n\
         then printf '%s\\n' {join}\"$i\" |\n  \
           {shell}\n\
         else echo 'Nothing was installed: the installer that this command knows did not come.' >&2; false; fi"
    )
}

fn docker(join: &str) -> String {
    format!(
        "LEASEWATCH_JOIN={join} docker run --detach --restart unless-stopped \\\n  \
           --name leasewatch-agent --hostname \"$(hostname)\" --gpus all \\\n  \
           --env LEASEWATCH_JOIN --volume leasewatch-agent:/var/lib/leasewatch-agent leasewatch-agent"
    )
}

fn kube(join: &str) -> String {
    format!(
        "kubectl create namespace leasewatch\n\
         printf '%s' {join} |\n  \
           kubectl -n leasewatch create secret generic leasewatch-join --from-file=join=/dev/stdin\n\
         kubectl apply -f deploy/kubernetes/agent.yaml"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOIN: &str = "lwj1_abc-_09";

    fn facts() -> InstallerFacts {
        let url = "https://[2001:db8::1]:7443/install.sh".to_owned();
        InstallerFacts { url, sha256: "ab".repeat(32) }
    }

    #[test]
    fn every_form_names_the_digest_and_gives_the_string_to_no_program_as_an_argument() {
        let facts = facts();
        let ways = ways(JOIN, Some(&facts));
        let installs: Vec<&Way> =
            ways.iter().filter(|way| way.command.contains("/install.sh")).collect();
        assert_eq!(installs.len(), 5);
        for way in installs {
            assert!(way.command.contains(&facts.sha256), "{}", way.command);
            // Quoted, for shells and curl read brackets as patterns.
            assert!(way.command.contains(&format!("'{}'", facts.url)), "{}", way.command);
        }
        for way in ways.iter().filter(|way| way.id != "join-string") {
            let before = way.command.split(JOIN).next().unwrap();
            let words = ["printf '%s\\n' LEASEWATCH_JOIN=", "printf '%s' ", "LEASEWATCH_JOIN="];
            assert!(words.iter().any(|words| before.ends_with(words)), "{}", way.command);
            assert!(!before.ends_with("--env LEASEWATCH_JOIN="), "{}", way.command);
            assert_eq!(way.command.matches(JOIN).count(), 1);
        }
    }

    #[test]
    fn a_server_without_agents_shows_what_can_be_done_all_the_same() {
        let ways = ways(JOIN, None);
        assert_eq!(ways[0].command, "LEASEWATCH_JOIN=lwj1_abc-_09 leasewatch-agent run");
        assert!(ways.iter().all(|way| !way.command.contains("install.sh")));
    }
}
