//! `kl state adopt`: moving in from whatever backend a configuration has.

use camino::Utf8Path;
use serde_json::json;

use crate::cli::Session;
use crate::cli::args::StateArgs;
use crate::cli::args::state::AdoptArgs;
use crate::cli::project::{Place, workspace};
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::Project;
use crate::pipeline::adopt::{self, AdoptRequest, Adopted};
use crate::report::style::{bold, count, good, plain, warn};

/// What the configuration has to say from then on.
const CONFIGURATION: &str = "terraform {\n  backend \"http\" {}\n}\n";

/// What `terraform init` would want to migrate into the new backend, where it lies beside the configuration.
const LOCAL: [&str; 2] = ["terraform.tfstate", "terraform.tfstate.d"];

/// Runs the command.
pub(super) async fn run(session: &Session, args: AdoptArgs) -> Result<Exit, KlError> {
    let place = Place::find(&args.dir)?;
    let project = place.project(&args.state, &args.input, &session.env).await?;
    let ctx = session.context(session.store(&place).await?, &args.actor);
    let request = AdoptRequest {
        backend_config: args.backend_config,
        data_dir: session.env.get("TF_DATA_DIR").map(Into::into),
        lease: args.reserve.lease,
        wait: args.reserve.wait,
        workspace_named: workspace(&args.state, &session.env).is_some(),
    };
    let adopted = Box::pin(adopt::adopt(&ctx, &project, &request)).await?;
    let plain_terraform = by_way_of_kl(&args.dir, &args.state);
    let in_the_way: Vec<&str> = LOCAL.into_iter().filter(|name| project.dir.join(name).exists()).collect();
    let text = text(&adopted, &project, &place.name(), &in_the_way, &plain_terraform);
    session.out.result(&text, || {
        json!({
            "state": project.state,
            "backend": adopted.backend,
            "serial": adopted.serial,
            "lineage": adopted.lineage,
            "rows": adopted.rows,
            "unchanged": adopted.unchanged,
            "planned_changes": adopted.planned,
            "asks_for_workspace": adopted.asks_for_workspace,
            "configuration": CONFIGURATION,
        })
    });
    Ok(Exit::Done)
}

/// The command that has plain Terraform forget the old backend, as it has to be typed where this one was.
fn by_way_of_kl(dir: &Utf8Path, state: &StateArgs) -> String {
    let mut words = vec!["kl exec".to_owned()];
    if dir != "." {
        words.push(format!("--dir {}", argument(dir.as_str())));
    }
    words.extend(state.state.iter().map(|name| format!("--state {}", argument(name.as_str()))));
    words.extend(state.workspace.iter().map(|name| format!("--workspace {}", argument(name))));
    words.push("-- terraform init -reconfigure".to_owned());
    words.join(" ")
}

/// A word for the shell.
fn argument(text: &str) -> String {
    let harmless = |letter: char| letter.is_ascii_alphanumeric() || "/._-:=@%+,".contains(letter);
    if text.chars().all(harmless) { text.to_owned() } else { format!("'{}'", plain(text).replace('\'', "'\\''")) }
}

fn text(adopted: &Adopted, project: &Project, dir: &str, in_the_way: &[&str], plain_terraform: &str) -> String {
    let rows = count(adopted.rows, "row");
    let (sign, state) = (good("✓"), plain(project.state.as_str()));
    let mut text = if adopted.unchanged {
        format!("{sign} State {state} has all {rows} already, at serial {}.\n", adopted.serial)
    } else {
        format!("{sign} Adopted {rows} into state {state} as serial {}.\n", adopted.serial)
    };
    let old = match &adopted.backend {
        Some(kind) => format!("the backend {:?}", plain(kind)),
        None => "the file that held the state".to_owned(),
    };
    let changes = match adopted.planned {
        0 => "no changes".to_owned(),
        number => count(number, "change"),
    };
    text.push_str(&format!("{sign} A plan shows the same as with {old}: {changes}.\n\n"));
    let place = if adopted.backend.is_some() { format!(", in place of {old}") } else { String::new() };
    text.push_str(&format!("Write into the configuration in {}{place}:\n\n{}\n", plain(dir), bold(CONFIGURATION)));
    if adopted.asks_for_workspace {
        let workspace = argument(&project.workspace);
        text.push_str(&format!(
            "{} The configuration uses terraform.workspace. `kl plan` and `kl apply` see {workspace}, when they are given \
             --workspace {workspace} or kl.yaml names it; plain Terraform would see \"default\" with kl's backend, which has \
             no workspaces, and plan other values. So work on it with kl alone, or put a variable in the place of \
             terraform.workspace first.\n",
            warn("!")
        ));
    } else {
        text.push_str(&format!(
            "Then `kl plan` and `kl apply` work on it, and plain Terraform by way of `{plain_terraform}`.\n"
        ));
    }
    if !in_the_way.is_empty() {
        text.push_str(&format!(
            "Before that, move {} out of {}: `terraform init` would want to migrate what it finds there.\n",
            in_the_way.join(" and "),
            plain(dir)
        ));
    }
    text.push_str("The old state was not changed. Let nobody apply there any more, and remove it when all is well.\n");
    text
}
