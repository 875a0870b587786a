//! The command line and environment of every call, as values: testable without a process.

use camino::{Utf8Path, Utf8PathBuf};

use super::environment::Environment;
use super::input::Input;

/// Where a command runs.
#[derive(Debug, Clone)]
pub struct Dirs {
    /// The root module's directory in the *checkout*. Terraform is started there and told to change to the mirror, so
    /// that `path.cwd` has the value that it has without kl. Nothing is written there.
    pub checkout_dir: Utf8PathBuf,
    /// The root module's directory in the mirror.
    pub root_module_dir: Utf8PathBuf,
    /// The data directory (`TF_DATA_DIR`), outside the configuration's tree.
    pub data_dir: Utf8PathBuf,
    /// Where files with the output of an apply go, outside the configuration's tree; private.
    pub output_dir: Utf8PathBuf,
    /// The Terraform workspace; `default` is one, too.
    pub workspace: String,
}

/// What to plan.
#[derive(Debug, Clone, Default)]
pub struct PlanRequest {
    /// Where the plan is written.
    pub out: Utf8PathBuf,
    /// Addresses to limit the plan to, in Terraform's own text.
    pub targets: Vec<String>,
    /// Addresses to replace.
    pub replace: Vec<String>,
    /// Values of input variables, in front of those in files.
    pub inputs: Vec<Input>,
    /// Files with input variables; a relative path counts from the root module in the mirror.
    pub var_files: Vec<Utf8PathBuf>,
    /// Plan the destruction of everything.
    pub destroy: bool,
    /// Only take over what really exists.
    pub refresh_only: bool,
    /// Look at the real objects first (Terraform's default). Without it the plan trusts the state.
    pub refresh: bool,
    /// How many resources at the same time, when not Terraform's default.
    pub parallelism: Option<u32>,
}

impl PlanRequest {
    /// A plan of the whole configuration.
    pub fn new(out: impl Into<Utf8PathBuf>) -> Self {
        Self { out: out.into(), refresh: true, ..Self::default() }
    }
}

/// What to apply.
#[derive(Debug, Clone, Default)]
pub struct ApplyRequest {
    /// The saved plan.
    pub plan: Utf8PathBuf,
    /// Values of ephemeral input variables: a saved plan does not hold them. Terraform refuses others here.
    pub inputs: Vec<Input>,
    /// How many resources at the same time, when not Terraform's default.
    pub parallelism: Option<u32>,
}

impl ApplyRequest {
    /// An apply of a saved plan.
    pub fn new(plan: impl Into<Utf8PathBuf>) -> Self {
        Self { plan: plan.into(), ..Self::default() }
    }
}

/// A process to start: no shell between kl and it.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The program.
    pub program: Utf8PathBuf,
    /// Its arguments. Every user of the machine can read them: none of them is a secret.
    pub args: Vec<String>,
    /// Its whole environment.
    pub environment: Environment,
    /// The directory in which it starts.
    pub dir: Utf8PathBuf,
    /// Whether the program is a script that runs the real one as its child.
    pub script: bool,
}

impl Invocation {
    /// The short name for messages: program and verb, as `terraform plan`.
    #[must_use]
    pub fn name(&self) -> String {
        let program = self.program.file_name().unwrap_or("terraform");
        let verb = self.args.iter().find(|arg| !arg.starts_with('-')).map_or("", String::as_str);
        format!("{program} {verb}").trim_end().to_owned()
    }
}

/// The verb with what all have in common.
fn start(dirs: &Dirs, verb: &str) -> Vec<String> {
    vec![format!("-chdir={}", dirs.root_module_dir), verb.to_owned()]
}

/// `terraform init`. With a lock file in the checkout it must not select anything else.
#[must_use]
pub fn init(dirs: &Dirs, lock_file_exists: bool) -> Vec<String> {
    let mut args = start(dirs, "init");
    args.extend(["-input=false", "-no-color"].map(str::to_owned));
    if lock_file_exists {
        args.push("-lockfile=readonly".to_owned());
    }
    args
}

/// `terraform state pull`: reads the backend, and nothing else.
#[must_use]
pub fn state_pull(dirs: &Dirs) -> Vec<String> {
    let mut args = start(dirs, "state");
    args.push("pull".to_owned());
    args
}

/// A command that takes the backend's lock, gives it back, and changes nothing: it looks whether there is a resource that
/// nobody has. It needs no provider, and reads the backend alone.
#[must_use]
pub fn state_lock(dirs: &Dirs) -> Vec<String> {
    let mut args = start(dirs, "state");
    let rest = ["rm", "-dry-run", "-lock=true", "-lock-timeout=0s", "terraform_data.kl_looks_whether_the_lock_is_free"];
    args.extend(rest.map(str::to_owned));
    args
}

/// `terraform workspace list`: reads the backend, and nothing else.
#[must_use]
pub fn workspace_list(dirs: &Dirs) -> Vec<String> {
    let mut args = start(dirs, "workspace");
    args.push("list".to_owned());
    args
}

/// The workspaces in what `terraform workspace list` prints: one a line behind two columns, of which the first has a star
/// for the selected one. Anything else is talk.
#[must_use]
pub fn workspaces(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.strip_prefix("* ").or_else(|| line.strip_prefix("  ")));
    names.filter(|name| !name.is_empty() && !name.contains(char::is_whitespace)).map(str::to_owned).collect()
}

/// `terraform plan`: exit code 2 when there is something to apply. `given` are the files that hold the request's inputs.
#[must_use]
pub fn plan(dirs: &Dirs, request: &PlanRequest, given: &[Utf8PathBuf]) -> Vec<String> {
    let mut args = start(dirs, "plan");
    args.extend(["-input=false", "-no-color", "-json", "-detailed-exitcode"].map(str::to_owned));
    args.push(format!("-out={}", request.out));
    for (wanted, flag) in
        [(request.destroy, "-destroy"), (request.refresh_only, "-refresh-only"), (!request.refresh, "-refresh=false")]
    {
        if wanted {
            args.push(flag.to_owned());
        }
    }
    args.extend(request.parallelism.map(parallelism));
    // The last one counts.
    args.extend(var_files(&request.var_files));
    args.extend(var_files(given));
    args.extend(request.replace.iter().map(|address| format!("-replace={address}")));
    args.extend(request.targets.iter().map(|address| format!("-target={address}")));
    args
}

/// `terraform show -json` of a saved plan.
#[must_use]
pub fn show(dirs: &Dirs, plan: &Utf8Path) -> Vec<String> {
    let mut args = start(dirs, "show");
    args.extend(["-no-color", "-json"].map(str::to_owned));
    args.push(plan.to_string());
    args
}

/// `terraform graph` of what a plan would walk: ten times faster than the graph without a type.
#[must_use]
pub fn graph(dirs: &Dirs) -> Vec<String> {
    let mut args = start(dirs, "graph");
    args.push("-type=plan".to_owned());
    args
}

/// `terraform apply` of a saved plan. `given` are the files that hold the request's inputs.
#[must_use]
pub fn apply(dirs: &Dirs, request: &ApplyRequest, given: &[Utf8PathBuf]) -> Vec<String> {
    let mut args = start(dirs, "apply");
    args.extend(["-input=false", "-no-color", "-json"].map(str::to_owned));
    args.extend(request.parallelism.map(parallelism));
    args.extend(var_files(given));
    args.push(request.plan.to_string());
    args
}

fn parallelism(number: u32) -> String {
    format!("-parallelism={number}")
}

fn var_files(files: &[Utf8PathBuf]) -> impl Iterator<Item = String> {
    files.iter().map(|file| format!("-var-file={file}"))
}

/// The environment of a call: the pinned one, the data directory, the workspace.
#[must_use]
pub fn environment(pinned: &Environment, dirs: &Dirs) -> Environment {
    let mut environment = pinned.clone();
    environment.set("TF_DATA_DIR", dirs.data_dir.as_str());
    if dirs.workspace != "default" {
        environment.set("TF_WORKSPACE", &dirs.workspace);
    }
    // Terraform takes `path.cwd` from here when it names the directory that it is in.
    environment.set("PWD", dirs.checkout_dir.as_str());
    environment
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    #[test]
    fn workspaces_are_told_from_talk() {
        let text = "* default\n  dev\n  ümlaut\n\n\nThe active workspace is being overridden using the TF_WORKSPACE\nenvironment variable.\n";
        assert_eq!(super::workspaces(text), ["default", "dev", "ümlaut"]);
        assert!(super::workspaces("").is_empty());
    }

    use super::*;

    fn dirs(workspace: &str) -> Dirs {
        Dirs {
            checkout_dir: "/repo/envs/prod".into(),
            root_module_dir: "/tmp/kl-1/mirror/envs/prod".into(),
            data_dir: "/tmp/kl-1/data".into(),
            output_dir: "/tmp/kl-1".into(),
            workspace: workspace.to_owned(),
        }
    }

    fn invocation(args: Vec<String>) -> Invocation {
        Invocation {
            program: "/usr/bin/terraform".into(),
            args,
            environment: Environment::default(),
            dir: "/repo/envs/prod".into(),
            script: false,
        }
    }

    #[test]
    fn a_plan_has_one_argument_for_each_target_whatever_is_in_it() {
        let mut request = PlanRequest::new("/tmp/kl-1/plan.bin");
        request.targets = vec![r#"x.y["a b.c\"$${d}"]"#.to_owned(), "module.m[\"*\"]".to_owned()];
        request.replace = vec!["x.z".to_owned()];
        request.var_files = vec!["prod.tfvars".into()];
        request.parallelism = Some(3);
        assert_eq!(
            plan(&dirs("default"), &request, &["/tmp/kl-1/given/token.tfvars.json".into()]),
            [
                "-chdir=/tmp/kl-1/mirror/envs/prod",
                "plan",
                "-input=false",
                "-no-color",
                "-json",
                "-detailed-exitcode",
                "-out=/tmp/kl-1/plan.bin",
                "-parallelism=3",
                "-var-file=prod.tfvars",
                "-var-file=/tmp/kl-1/given/token.tfvars.json",
                "-replace=x.z",
                r#"-target=x.y["a b.c\"$${d}"]"#,
                "-target=module.m[\"*\"]",
            ]
        );
    }

    #[test]
    fn modes_are_flags() {
        let request = PlanRequest { destroy: true, refresh: false, ..PlanRequest::new("p") };
        let args = plan(&dirs("default"), &request, &[]);
        assert!(args.contains(&"-destroy".to_owned()) && args.contains(&"-refresh=false".to_owned()));
        let request = PlanRequest { refresh_only: true, ..PlanRequest::new("p") };
        assert!(plan(&dirs("default"), &request, &[]).contains(&"-refresh-only".to_owned()));
    }

    #[test]
    fn an_apply_is_of_the_plan_and_has_a_name() {
        let args = apply(&dirs("default"), &ApplyRequest::new("/p"), &["/tmp/kl-1/given/token.tfvars.json".into()]);
        assert_eq!(args[args.len() - 2..], ["-var-file=/tmp/kl-1/given/token.tfvars.json", "/p"]);
        assert_eq!(invocation(args).name(), "terraform apply");
    }

    #[test]
    fn the_lock_file_is_read_only_when_there_is_one() {
        assert!(init(&dirs("default"), true).contains(&"-lockfile=readonly".to_owned()));
        assert!(!init(&dirs("default"), false).contains(&"-lockfile=readonly".to_owned()));
    }

    #[test]
    fn the_workspace_is_in_the_environment_unless_default() {
        let pinned = Environment::default();
        assert_eq!(environment(&pinned, &dirs("default")).get("TF_WORKSPACE"), None);
        let named = environment(&pinned, &dirs("dev"));
        assert_eq!(named.get("TF_WORKSPACE"), Some(OsStr::new("dev")));
        assert_eq!(named.get("TF_DATA_DIR"), Some(OsStr::new("/tmp/kl-1/data")));
        assert_eq!(named.get("PWD"), Some(OsStr::new("/repo/envs/prod")));
    }
}
