//! Whether the Terraform or OpenTofu of each project is one that kl can use.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;

use super::Check;
use crate::cli::args::init::DoctorArgs;
use crate::cli::project::Place;
use crate::cli::{Session, env};
use crate::config::catalog::Catalog;
use crate::error::KlError;
use crate::terraform::{Environment, LocateRequest, Terraform};

const SUBJECT: &str = "terraform";

/// Looks at each program once.
pub(super) async fn checks(
    session: &Session,
    args: &DoctorArgs,
    place: Option<&Place>,
    catalog: Option<&Catalog>,
) -> Vec<Check> {
    let asked = args.terraform.clone().or_else(|| session.env.get(env::TERRAFORM));
    let mut wanted: BTreeMap<Option<String>, Utf8PathBuf> = BTreeMap::new();
    for (project, root) in
        catalog.iter().flat_map(|catalog| &catalog.projects).zip(place.map(|place| &place.root).into_iter().cycle())
    {
        let program = asked.clone().or_else(|| project.settings.terraform.clone());
        wanted.entry(program).or_insert_with(|| root.join(&project.dir));
    }
    if wanted.is_empty() {
        let dir = place.map_or_else(|| args.dir.clone(), |place| place.dir.clone());
        wanted.insert(asked, dir);
    }
    let mut checks = Vec::new();
    for (program, dir) in wanted {
        let found = Terraform::locate(LocateRequest {
            program: program.as_deref(),
            dir: &dir,
            environment: session
                .env
                .all()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect::<Environment>(),
            plugin_cache: None,
        })
        .await;
        match found {
            Ok(terraform) => {
                let (product, version, path) = (terraform.product(), terraform.version(), terraform.program());
                checks.push(Check::ok(SUBJECT, format!("{product} {version} at {path}")));
                if !terraform.dropped_variables().is_empty() {
                    checks.push(Check::warning(
                        SUBJECT,
                        format!("kl keeps from it: {}", terraform.dropped_variables().join(", ")),
                        "kl sets these itself; use flags of kl, or kl.yaml",
                    ));
                }
            }
            Err(error) => checks.push(Check::failed(SUBJECT, &KlError::from(error))),
        }
    }
    checks
}
