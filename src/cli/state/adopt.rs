//! `kl state adopt`: moving in from whatever backend a configuration has.

use serde_json::json;

use crate::cli::Session;
use crate::cli::args::state::AdoptArgs;
use crate::cli::project::{Place, workspace};
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::adopt::{self, AdoptRequest, Adopted};
use crate::report::style::{bold, count, good, plain};

/// What the configuration has to say from then on.
const CONFIGURATION: &str = "terraform {\n  backend \"http\" {}\n}\n";

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
    session.out.result(&text(&adopted, project.state.as_str(), &place.name()), || {
        json!({
            "state": project.state,
            "backend": adopted.backend,
            "serial": adopted.serial,
            "lineage": adopted.lineage,
            "rows": adopted.rows,
            "unchanged": adopted.unchanged,
            "planned_changes": adopted.planned,
            "configuration": CONFIGURATION,
        })
    });
    Ok(Exit::Done)
}

fn text(adopted: &Adopted, state: &str, dir: &str) -> String {
    let rows = count(adopted.rows, "row");
    let (sign, state) = (good("✓"), plain(state));
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
    text.push_str(
        "Then `kl plan` and `kl apply` work on it, and plain Terraform by way of `kl exec -- terraform init -reconfigure`.\n\
         The old state was not changed. Let nobody apply there any more, and remove it when all is well.\n",
    );
    text
}
