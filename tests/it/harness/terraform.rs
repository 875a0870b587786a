//! Plain Terraform, without kl: what kl's results are compared with.

use std::fs;
use std::process::{Command, Output, Stdio};

use camino::{Utf8Path, Utf8PathBuf};
use tempfile::TempDir;

use super::site::{Site, copy};

/// For programs written in Go: Terraform runs for a tenth of a second, a fifth of which is the collection of garbage.
pub(crate) const GO: [(&str, &str); 2] = [("GOGC", "off"), ("GOMEMLIMIT", "512MiB")];

/// The program that the tests use: `KL_TERRAFORM`, else terraform or tofu on PATH.
#[track_caller]
pub(crate) fn program() -> Utf8PathBuf {
    if let Ok(chosen) = std::env::var("KL_TERRAFORM")
        && !chosen.is_empty()
    {
        return chosen.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<Utf8PathBuf> =
        std::env::split_paths(&path).filter_map(|dir| Utf8PathBuf::from_path_buf(dir).ok()).collect();
    ["terraform", "tofu"]
        .into_iter()
        .find_map(|name| dirs.iter().map(|dir| dir.join(name)).find(|program| program.is_file()))
        .expect("the tests need terraform (1.4 or newer) or tofu on PATH: https://developer.hashicorp.com/terraform/install")
}

/// A root module in a copy of a site's checkout, with a local state: what one engineer alone would have.
pub(crate) struct Plain {
    root: Utf8PathBuf,
    module: Utf8PathBuf,
    _temp: TempDir,
}

impl Plain {
    /// A copy of the checkout as it is now.
    pub(crate) fn new(site: &Site, module: &str) -> Self {
        let temp = tempfile::Builder::new().prefix("kl-plain-").tempdir().expect("a temporary directory can be made");
        let root = Utf8PathBuf::from_path_buf(temp.path().to_owned()).expect("temporary directories have plain names");
        copy(&site.repo(), &root.join("repo"));
        let plain = Self { module: root.join("repo").join(module), root, _temp: temp };
        // Whatever backend the configuration names, this copy keeps its state in a file. The name sorts last.
        let backend = "terraform {\n  backend \"local\" {}\n}\n";
        fs::write(plain.module.join("\u{10fffd}_override.tf"), backend).expect("the copy is ours");
        fs::write(plain.root.join("terraformrc"), super::providers::terraformrc()).expect("the copy is ours");
        plain
    }

    /// `terraform apply`, with further arguments such as `-var=x=1`. Gives the state document.
    #[track_caller]
    pub(crate) fn apply(&self, args: &[&str]) -> String {
        self.init();
        let output = self.run(&[&["apply", "-auto-approve", "-input=false", "-no-color"], args].concat());
        assert!(output.status.success(), "terraform apply failed:\n{}", said(&output));
        fs::read_to_string(self.module.join("terraform.tfstate")).expect("an apply writes the state")
    }

    /// `terraform apply` from this state on.
    #[track_caller]
    pub(crate) fn apply_to(&self, state: &str, args: &[&str]) -> String {
        self.init();
        fs::write(self.module.join("terraform.tfstate"), state).expect("the copy is ours");
        self.apply(args)
    }

    /// The plan that Terraform makes of this state, as JSON.
    #[track_caller]
    pub(crate) fn plan(&self, state: &str) -> serde_json::Value {
        self.init();
        fs::write(self.module.join("terraform.tfstate"), state).expect("the copy is ours");
        let output = self.run(&["plan", "-out=plan", "-input=false", "-no-color"]);
        assert!(output.status.success(), "terraform plan failed:\n{}", said(&output));
        let output = self.run(&["show", "-json", "plan"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}\n{}", said(&output)))
    }

    /// What `terraform plan` would change about this state; nothing when it would not.
    #[track_caller]
    pub(crate) fn changes(&self, state: &str, args: &[&str]) -> Option<String> {
        self.init();
        fs::write(self.module.join("terraform.tfstate"), state).expect("the copy is ours");
        let output = self.run(&[&["plan", "-detailed-exitcode", "-input=false", "-no-color"], args].concat());
        match output.status.code() {
            Some(0) => None,
            Some(2) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
            _ => panic!("terraform plan failed:\n{}", said(&output)),
        }
    }

    /// Any Terraform command, such as `show -json plan`, which must succeed. Gives its standard output.
    #[track_caller]
    pub(crate) fn output(&self, args: &[&str]) -> String {
        self.init();
        let output = self.run(args);
        assert!(output.status.success(), "terraform {args:?} failed:\n{}", said(&output));
        String::from_utf8(output.stdout).expect("Terraform writes UTF-8")
    }

    /// Any Terraform command, which may be refused. Gives whether it succeeded, and what was said.
    pub(crate) fn tries(&self, args: &[&str]) -> (bool, String) {
        self.init();
        let output = self.run(args);
        (output.status.success(), said(&output))
    }

    /// The module's directory, where a local state lies.
    pub(crate) fn module(&self) -> &Utf8Path {
        &self.module
    }

    #[track_caller]
    fn init(&self) {
        if !self.module.join(".terraform").exists() {
            let output = self.run(&["init", "-input=false", "-no-color"]);
            assert!(output.status.success(), "terraform init failed:\n{}", said(&output));
        }
    }

    #[track_caller]
    fn run(&self, args: &[&str]) -> Output {
        Command::new(program())
            .args(args)
            .current_dir(&self.module)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.root)
            .envs(GO)
            .env("TF_CLI_CONFIG_FILE", self.root.join("terraformrc"))
            .stdin(Stdio::null())
            .output()
            .expect("Terraform can be started")
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}
