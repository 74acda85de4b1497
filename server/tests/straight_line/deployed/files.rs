//! The files of `deploy` and `docker-compose.yml`, taken apart as Docker and Kubernetes do as far as
//! they use it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What a container runs, and what it finds in its environment.
#[derive(Debug, Clone, Default)]
pub(super) struct Container {
    pub(super) environment: BTreeMap<String, String>,
    /// Program and arguments.
    pub(super) line: Vec<String>,
    /// The same of its health check.
    pub(super) health: Vec<String>,
}

/// A stage of the Dockerfile that can be built.
#[derive(Debug, Clone, Default)]
struct Image {
    container: Container,
    entrypoint: Vec<String>,
    command: Vec<String>,
    user: String,
}

/// All files.
pub(super) struct Deployed {
    compose: Value,
    daemon_set: Value,
    dockerfile: String,
    images: BTreeMap<String, Image>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The documents of a YAML file.
fn yaml(path: &str) -> Vec<Value> {
    let program = "import json, sys, yaml; \
                   print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1], encoding='utf-8')))))";
    let output = Command::new(root().join("scripts/deploy/tool"))
        .args(["python", "-c", program])
        .arg(root().join(path))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{path}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap_or_else(|| panic!("no list: {list}"));
    list.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

impl Deployed {
    pub(super) fn read() -> Self {
        let dockerfile = text("deploy/Dockerfile");
        let images = images(&dockerfile);
        let compose = yaml("docker-compose.yml").remove(0);
        let mut documents = yaml("deploy/kubernetes/agent.yaml");
        assert_eq!(documents.len(), 1);
        Self { compose, daemon_set: documents.remove(0), dockerfile, images }
    }

    /// A service of the compose file, on the image that it builds.
    pub(super) fn service(&self, name: &str) -> Container {
        let service = &self.compose["services"][name];
        assert!(service.is_object(), "no service {name}");
        let image = match service["build"]["target"].as_str() {
            Some(target) => self.images[target].clone(),
            // An image of others, with a command line of its own.
            None => Image::default(),
        };
        let mut container = image.container;
        for (name, value) in service["environment"].as_object().into_iter().flatten() {
            container.environment.insert(name.clone(), interpolated(value.as_str().unwrap()));
        }
        let own = |key: &str| (!service[key].is_null()).then(|| strings(&service[key]));
        let has_own_entrypoint = !service["entrypoint"].is_null();
        let entrypoint = own("entrypoint").unwrap_or(image.entrypoint);
        // An entrypoint of the service takes the image's command away.
        let command = if has_own_entrypoint { Vec::new() } else { image.command };
        container.line = [entrypoint, own("command").unwrap_or(command)].concat();
        if let Some(test) = service["healthcheck"].get("test") {
            container.health = match strings(test).split_first().unwrap() {
                (kind, shell) if kind == "CMD-SHELL" => {
                    [&["sh".to_owned(), "-c".to_owned()], shell].concat()
                }
                (_, line) => line.to_vec(),
            };
        }
        container
    }

    /// The container of the DaemonSet; its readiness is its health.
    pub(super) fn daemon_set(&self) -> Container {
        let pod = &self.daemon_set["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let image = &self.images["agent"];
        let mut environment = image.container.environment.clone();
        for variable in container["env"].as_array().unwrap() {
            let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
                Some("spec.nodeName") => "node-of-the-pod".to_owned(),
                Some(other) => panic!("{other} is not known to this test"),
                None => variable["value"].as_str().unwrap().to_owned(),
            };
            environment.insert(variable["name"].as_str().unwrap().to_owned(), value);
        }
        let line = [strings(&container["command"]), strings(&container["args"])].concat();
        let health = strings(&container["readinessProbe"]["exec"]["command"]);
        Container { environment, line, health }
    }

    /// How the head of the DaemonSet's file says to make the string for its secret.
    pub(super) fn daemon_set_token(&self) -> Vec<String> {
        let text = text("deploy/kubernetes/agent.yaml");
        let line = text.lines().find_map(|line| line.strip_prefix("#   leasewatch-server "));
        let line = line.unwrap().split(" >").next().unwrap();
        let secret = &self.daemon_set["spec"]["template"]["spec"]["volumes"][1]["secret"];
        let name = secret["secretName"].as_str().unwrap();
        assert!(text.contains(&format!("create secret generic {name} --from-file=join")), "{name}");
        let words = line.split(' ').map(str::to_owned);
        std::iter::once("leasewatch-server".to_owned()).chain(words).collect()
    }

    pub(super) fn containers(&self) -> Vec<Container> {
        let services = ["postgres", "setup", "server", "agent"].map(|name| self.service(name));
        services.into_iter().chain([self.daemon_set()]).collect()
    }

    pub(super) fn published(&self, service: &str) -> Vec<String> {
        let ports = &self.compose["services"][service]["ports"];
        if ports.is_null() { Vec::new() } else { strings(ports) }
    }

    /// Everything that is read.
    pub(super) fn texts(&self) -> [String; 3] {
        [self.compose.to_string(), self.daemon_set.to_string(), self.dockerfile.clone()]
    }

    pub(super) fn image_user(&self, target: &str) -> &str {
        &self.images[target].user
    }

    /// The scenario that the simulated image is given, in the repository.
    pub(super) fn scenario(&self) -> String {
        let copied = self.dockerfile.lines().find_map(|line| line.strip_prefix("COPY nvml-sim/"));
        format!("nvml-sim/{}", copied.unwrap().split(' ').next().unwrap())
    }
}

/// `${NAME:-default}`, where nobody set NAME.
fn interpolated(text: &str) -> String {
    let Some((before, rest)) = text.split_once("${") else { return text.to_owned() };
    let (inside, after) = rest.split_once('}').unwrap();
    let (_, default) = inside.split_once(":-").unwrap();
    format!("{before}{default}{}", interpolated(after))
}

/// The stages after the build, by name. A stage that begins with another one inherits from it.
fn images(dockerfile: &str) -> BTreeMap<String, Image> {
    let mut images: BTreeMap<String, Image> = BTreeMap::new();
    let mut current = String::new();
    let text = dockerfile.replace("\\\n", " ");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "FROM" {
            let (base, name) = rest.split_once(" AS ").unwrap();
            current = name.to_owned();
            let inherited = images.get(base).cloned().unwrap_or_default();
            images.insert(current.clone(), inherited);
            continue;
        }
        let Some(image) = images.get_mut(&current) else { continue };
        let list = || -> Vec<String> {
            let list =
                &rest[rest.find('[').unwrap_or_else(|| panic!("not in exec form: {line}"))..];
            serde_json::from_str(list).unwrap()
        };
        match word {
            "ENV" => {
                let pairs = rest.split_whitespace().map(|pair| pair.split_once('=').unwrap());
                let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
                image.container.environment.extend(pairs);
            }
            "ENTRYPOINT" => image.entrypoint = list(),
            "CMD" => image.command = list(),
            "HEALTHCHECK" => image.container.health = list(),
            "USER" => image.user = rest.to_owned(),
            _ => {}
        }
    }
    images
}
