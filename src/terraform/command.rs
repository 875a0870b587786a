//! The command line and environment of every call, as values: testable without a process.

use std::ffi::OsString;
use std::fmt;

use camino::{Utf8Path, Utf8PathBuf};
use secrecy::{ExposeSecret, SecretString};

use super::environment::Environment;

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

/// An input variable given on the command line. Its value never shows in `Debug`, errors or logs; like every
/// argument, other users of the machine can see it in the list of processes while Terraform starts.
#[derive(Debug, Clone)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value, as Terraform reads it after `-var name=`.
    pub value: SecretString,
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
    /// Input variables.
    pub variables: Vec<Variable>,
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
    /// Ephemeral input variables: a saved plan does not hold them. Terraform refuses others here.
    pub variables: Vec<Variable>,
    /// How many resources at the same time, when not Terraform's default.
    pub parallelism: Option<u32>,
}

impl ApplyRequest {
    /// An apply of a saved plan.
    pub fn new(plan: impl Into<Utf8PathBuf>) -> Self {
        Self { plan: plan.into(), ..Self::default() }
    }
}

/// One argument, which may be secret.
#[derive(Debug, Clone)]
pub enum Arg {
    /// Shown as it is.
    Plain(String),
    /// `-var=NAME=VALUE`, shown without the value.
    Variable(Variable),
}

impl Arg {
    fn to_os_string(&self) -> OsString {
        match self {
            Self::Plain(text) => text.into(),
            Self::Variable(variable) => format!("-var={}={}", variable.name, variable.value.expose_secret()).into(),
        }
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(text) => f.write_str(text),
            Self::Variable(variable) => write!(f, "-var={}=(hidden)", variable.name),
        }
    }
}

/// A process to start: no shell between kl and it.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The program.
    pub program: Utf8PathBuf,
    /// Its arguments.
    pub args: Vec<Arg>,
    /// Its whole environment.
    pub environment: Environment,
    /// The directory in which it starts.
    pub dir: Utf8PathBuf,
    /// Whether the program is a script that runs the real one as its child.
    pub script: bool,
}

impl Invocation {
    /// The arguments as the process gets them, secrets in clear.
    #[must_use]
    pub fn argv(&self) -> Vec<OsString> {
        self.args.iter().map(Arg::to_os_string).collect()
    }

    /// The short name for messages: program and verb, as `terraform plan`.
    #[must_use]
    pub fn name(&self) -> String {
        let program = self.program.file_name().unwrap_or("terraform");
        let verb = self.args.iter().find_map(|arg| match arg {
            Arg::Plain(text) if !text.starts_with('-') => Some(text.as_str()),
            _ => None,
        });
        format!("{program} {}", verb.unwrap_or_default()).trim_end().to_owned()
    }
}

/// The verb with what all have in common.
fn start(dirs: &Dirs, verb: &str) -> Vec<Arg> {
    vec![plain(format!("-chdir={}", dirs.root_module_dir)), plain(verb)]
}

fn plain(text: impl Into<String>) -> Arg {
    Arg::Plain(text.into())
}

/// `terraform init`. With a lock file in the checkout it must not select anything else.
#[must_use]
pub fn init(dirs: &Dirs, lock_file_exists: bool) -> Vec<Arg> {
    let mut args = start(dirs, "init");
    args.extend(["-input=false", "-no-color"].map(plain));
    if lock_file_exists {
        args.push(plain("-lockfile=readonly"));
    }
    args
}

/// `terraform plan`: exit code 2 when there is something to apply.
#[must_use]
pub fn plan(dirs: &Dirs, request: &PlanRequest) -> Vec<Arg> {
    let mut args = start(dirs, "plan");
    args.extend(["-input=false", "-no-color", "-json", "-detailed-exitcode"].map(plain));
    args.push(plain(format!("-out={}", request.out)));
    for (wanted, flag) in
        [(request.destroy, "-destroy"), (request.refresh_only, "-refresh-only"), (!request.refresh, "-refresh=false")]
    {
        if wanted {
            args.push(plain(flag));
        }
    }
    args.extend(request.parallelism.map(parallelism));
    args.extend(request.var_files.iter().map(|file| plain(format!("-var-file={file}"))));
    args.extend(request.variables.iter().cloned().map(Arg::Variable));
    args.extend(request.replace.iter().map(|address| plain(format!("-replace={address}"))));
    args.extend(request.targets.iter().map(|address| plain(format!("-target={address}"))));
    args
}

/// `terraform show -json` of a saved plan.
#[must_use]
pub fn show(dirs: &Dirs, plan: &Utf8Path) -> Vec<Arg> {
    let mut args = start(dirs, "show");
    args.extend(["-no-color", "-json"].map(plain));
    args.push(plain(plan.as_str()));
    args
}

/// `terraform graph` of what a plan would walk: ten times faster than the graph without a type.
#[must_use]
pub fn graph(dirs: &Dirs) -> Vec<Arg> {
    let mut args = start(dirs, "graph");
    args.push(plain("-type=plan"));
    args
}

/// `terraform apply` of a saved plan.
#[must_use]
pub fn apply(dirs: &Dirs, request: &ApplyRequest) -> Vec<Arg> {
    let mut args = start(dirs, "apply");
    args.extend(["-input=false", "-no-color", "-json"].map(plain));
    args.extend(request.parallelism.map(parallelism));
    args.extend(request.variables.iter().cloned().map(Arg::Variable));
    args.push(plain(request.plan.as_str()));
    args
}

fn parallelism(number: u32) -> Arg {
    plain(format!("-parallelism={number}"))
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

    fn variable(name: &str, value: &str) -> Variable {
        Variable { name: name.to_owned(), value: SecretString::from(value.to_owned()) }
    }

    fn invocation(args: Vec<Arg>) -> Invocation {
        Invocation {
            program: "/usr/bin/terraform".into(),
            args,
            environment: Environment::default(),
            dir: "/repo/envs/prod".into(),
            script: false,
        }
    }

    fn argv(args: Vec<Arg>) -> Vec<String> {
        invocation(args).argv().into_iter().map(|arg| arg.into_string().unwrap()).collect()
    }

    #[test]
    fn a_plan_has_one_argument_for_each_target_whatever_is_in_it() {
        let mut request = PlanRequest::new("/tmp/kl-1/plan.bin");
        request.targets = vec![r#"x.y["a b.c\"$${d}"]"#.to_owned(), "module.m[\"*\"]".to_owned()];
        request.replace = vec!["x.z".to_owned()];
        request.variables = vec![variable("token", "a=b c")];
        request.var_files = vec!["prod.tfvars".into()];
        request.parallelism = Some(3);
        assert_eq!(
            argv(plan(&dirs("default"), &request)),
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
                "-var=token=a=b c",
                "-replace=x.z",
                r#"-target=x.y["a b.c\"$${d}"]"#,
                "-target=module.m[\"*\"]",
            ]
        );
    }

    #[test]
    fn modes_are_flags() {
        let request = PlanRequest { destroy: true, refresh: false, ..PlanRequest::new("p") };
        let args = argv(plan(&dirs("default"), &request));
        assert!(args.contains(&"-destroy".to_owned()) && args.contains(&"-refresh=false".to_owned()));
        let request = PlanRequest { refresh_only: true, ..PlanRequest::new("p") };
        assert!(argv(plan(&dirs("default"), &request)).contains(&"-refresh-only".to_owned()));
    }

    #[test]
    fn secrets_do_not_show() {
        let request = ApplyRequest { variables: vec![variable("token", "s3cret")], ..ApplyRequest::new("p") };
        let invocation = invocation(apply(&dirs("default"), &request));
        assert!(!format!("{request:?} {invocation:?}").contains("s3cret"));
        let shown: Vec<String> = invocation.args.iter().map(ToString::to_string).collect();
        assert!(shown.contains(&"-var=token=(hidden)".to_owned()));
        assert_eq!(invocation.name(), "terraform apply");
    }

    #[test]
    fn the_lock_file_is_read_only_when_there_is_one() {
        assert!(argv(init(&dirs("default"), true)).contains(&"-lockfile=readonly".to_owned()));
        assert!(!argv(init(&dirs("default"), false)).contains(&"-lockfile=readonly".to_owned()));
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
