//! What the words of a command say before it runs: whether it is Terraform, in which directory, and what it does to a
//! state.

use std::ffi::{OsStr, OsString};

use camino::Utf8Path;

/// What Terraform does with a state. Other commands may run without a backend.
const ABOUT_STATES: [&str; 14] = [
    "apply",
    "console",
    "destroy",
    "force-unlock",
    "graph",
    "import",
    "init",
    "output",
    "plan",
    "refresh",
    "show",
    "state",
    "taint",
    "untaint",
];

/// What writes a state, when it has done its work.
const WRITES: [&str; 6] = ["apply", "destroy", "import", "refresh", "taint", "untaint"];

/// What writes a state among the commands of `terraform state`.
const STATE_WRITES: [&str; 4] = ["mv", "push", "replace-provider", "rm"];

/// How Go's flags spell "no".
const NO: [&str; 6] = ["0", "f", "F", "false", "FALSE", "False"];

/// What is known of a command before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Whether the program is Terraform or OpenTofu, and not a script around it.
    pub(super) terraform: bool,
    /// The directory that Terraform is told to work in.
    pub(super) chdir: Option<&'a str>,
    /// Whether it has to do with states at all.
    pub(super) about_states: bool,
    /// Whether it may well end without having asked for the state.
    pub(super) asks_nothing: bool,
    /// Whether it is an init, which settles anew where the state is.
    pub(super) initialises: bool,
    /// What it tells the backend with `-backend-config`, in the environment or by itself: `KEY=VALUE`, or files. Of another
    /// program, what the Terraform in it would be told by the environment.
    pub(super) backend_config: Vec<String>,
    /// What it is told to do without a lock although it would write the state.
    pub(super) unlocked: Option<&'a str>,
}

impl<'a> Line<'a> {
    /// Reads a command, and the further arguments that Terraform finds in the environment: `variable` gives them.
    pub(super) fn of(command: &'a [OsString], variable: impl Fn(&str) -> Option<String>) -> Self {
        let (program, rest) =
            command.split_first().map_or((OsStr::new(""), command), |(one, rest)| (one.as_os_str(), rest));
        let program = Utf8Path::from_path(program.as_ref()).and_then(Utf8Path::file_name).unwrap_or_default();
        let terraform = is_terraform(program);
        let words = || rest.iter().filter_map(|word| word.to_str());
        let mut plain = words().filter(|word| !word.starts_with('-'));
        let verb = plain.next().filter(|_| terraform);
        let further_verb = plain.next().filter(|_| verb == Some("state"));
        let writes = match verb {
            Some("state") => further_verb.is_some_and(|verb| STATE_WRITES.contains(&verb)),
            Some(verb) => WRITES.contains(&verb),
            None => false,
        };
        let asks_for_help = words().any(|word| matches!(word, "-help" | "--help" | "-h"));
        let further = |names: &[String]| -> Vec<String> {
            let values = names.iter().filter_map(|name| variable(name));
            values.flat_map(|words| words.split_whitespace().map(unquoted).collect::<Vec<_>>()).collect()
        };
        let from_environment = || {
            // Terraform joins the words of a command: `TF_CLI_ARGS_state_rm`.
            let command: Vec<&str> = verb.into_iter().chain(further_verb).collect();
            let names = ["TF_CLI_ARGS".to_owned(), format!("TF_CLI_ARGS_{}", command.join("_"))];
            further(&names).iter().any(|word| leaves_the_lock(word))
        };
        let backend_config = if verb == Some("init") || !terraform {
            let own = words().filter(|_| terraform).map(str::to_owned);
            let all: Vec<String> =
                further(&["TF_CLI_ARGS".to_owned(), "TF_CLI_ARGS_init".to_owned()]).into_iter().chain(own).collect();
            settings(&all)
        } else {
            Vec::new()
        };
        let unlocked = writes && !asks_for_help && (words().any(leaves_the_lock) || from_environment());
        Self {
            terraform,
            chdir: words()
                .take_while(|word| word.starts_with('-'))
                .find_map(|word| terraform.then(|| word.strip_prefix("-chdir=")).flatten()),
            about_states: verb.is_some_and(|verb| ABOUT_STATES.contains(&verb)) && !asks_for_help,
            // Init asks only when there is something to take over; others can be told to look at files.
            asks_nothing: matches!(verb, Some("init" | "show" | "graph")),
            initialises: verb == Some("init"),
            backend_config,
            unlocked: verb.filter(|_| unlocked),
        }
    }
}

/// Whether a program of this name is Terraform or OpenTofu.
pub(super) fn is_terraform(program: &str) -> bool {
    program.contains("terraform") || program.contains("tofu")
}

/// A word of a variable without its quotes.
fn unquoted(word: &str) -> String {
    word.chars().filter(|letter| !matches!(letter, '"' | '\'')).collect()
}

/// What the words say with `-backend-config`.
fn settings(words: &[String]) -> Vec<String> {
    let mut words = words.iter().map(|word| word.trim_start_matches('-')).peekable();
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        match word.strip_prefix("backend-config") {
            Some("") => settings.extend(words.peek().map(|next| (*next).to_owned())),
            Some(rest) => settings.extend(rest.strip_prefix('=').map(str::to_owned)),
            None => {}
        }
    }
    settings
}

/// Whether a word tells Terraform to take no lock.
fn leaves_the_lock(word: &str) -> bool {
    let value = word.strip_prefix("--lock=").or_else(|| word.strip_prefix("-lock="));
    value.is_some_and(|value| NO.contains(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T>(line: &str, ask: impl Fn(&Line<'_>) -> T) -> T {
        with(line, |_| None, ask)
    }

    fn with<T>(line: &str, variable: impl Fn(&str) -> Option<String>, ask: impl Fn(&Line<'_>) -> T) -> T {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        ask(&Line::of(&words, variable))
    }

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_command_of_terraform_is_told_from_others() {
        for (line, terraform, about_states) in [
            ("terraform apply", true, true),
            ("/opt/terraform_1.11 -chdir=live plan", true, true),
            ("tofu state list", true, true),
            ("terraform version", true, false),
            ("terraform workspace list", true, false),
            ("terraform apply -help", true, false),
            ("terraform", true, false),
            ("sh apply", false, false),
        ] {
            assert_eq!(of(line, |line| (line.terraform, line.about_states)), (terraform, about_states), "{line}");
        }
        for (line, settings) in [
            ("terraform init -backend-config=address=http://x/y", &["address=http://x/y"][..]),
            ("terraform init --backend-config lock_address=http://x/y", &["lock_address=http://x/y"]),
            ("terraform init -backend-config settings.hcl -backend-config=a=b", &["settings.hcl", "a=b"]),
            ("terraform init", &[]),
        ] {
            assert_eq!(
                of(line, |line| (line.initialises, line.backend_config.clone())),
                (true, texts(settings)),
                "{line}"
            );
        }
        let variable =
            |asked: &str| (asked == "TF_CLI_ARGS_init").then(|| "-no-color '-backend-config=a=b'".to_owned());
        for (line, settings) in [("terraform init", &["a=b"][..]), ("sh x", &["a=b"]), ("terraform plan", &[])] {
            assert_eq!(with(line, variable, |line| line.backend_config.clone()), texts(settings), "{line}");
        }
        assert_eq!(of("terraform -chdir=live plan", |line| line.chdir.map(str::to_owned)), Some("live".to_owned()));
        assert_eq!(of("make -chdir=live plan", |line| line.chdir.map(str::to_owned)), None);
    }

    #[test]
    fn a_write_without_the_lock_is_seen_before_it_begins() {
        for (line, unlocked) in [
            ("terraform apply -lock=false", Some("apply")),
            ("terraform import --lock=0 a b", Some("import")),
            ("terraform state rm -lock=FALSE a", Some("state")),
            ("terraform state list -lock=false", None),
            ("terraform plan -lock=false", None),
            ("terraform apply -lock=true", None),
            ("terraform apply -lock-timeout=0", None),
            ("terraform apply -lock=false -help", None),
            ("sh apply -lock=false", None),
        ] {
            assert_eq!(of(line, |line| line.unlocked.map(str::to_owned)), unlocked.map(str::to_owned), "{line}");
        }
        for (name, unlocked) in [("TF_CLI_ARGS", true), ("TF_CLI_ARGS_apply", true), ("TF_CLI_ARGS_plan", false)] {
            let variable = |asked: &str| (asked == name).then(|| "-parallelism=2 -lock=false".to_owned());
            assert_eq!(with("terraform apply", variable, |line| line.unlocked.is_some()), unlocked, "{name}");
        }
        // As Terraform names the variables of commands of two words.
        for (name, unlocked) in [("TF_CLI_ARGS_state_rm", true), ("TF_CLI_ARGS_state", false), ("TF_CLI_ARGS", true)] {
            let variable = |asked: &str| (asked == name).then(|| "-lock=false".to_owned());
            assert_eq!(with("terraform state rm a", variable, |line| line.unlocked.is_some()), unlocked, "{name}");
        }
    }
}
