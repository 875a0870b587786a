//! The input variables that the user gives: that the configuration declares them, and in which form it wants them.

use secrecy::ExposeSecret as _;

use super::Project;
use super::bench::read_module;
use crate::domain::graph::configuration::ModuleConfig;
use crate::domain::nearest::nearest;
use crate::domain::redact::Secrets;
use crate::error::KlError;
use crate::terraform::{Input, Variable};

/// So many declared variables are named to somebody who may have mistyped one.
const NAMED: usize = 3;

/// Whether the configuration in the checkout takes what is given. To be asked before anything is touched.
///
/// # Errors
/// As [`of`].
pub fn check(project: &Project) -> Result<(), KlError> {
    if project.variables.is_empty() {
        return Ok(());
    }
    let root = read_module(&project.dir, project.terraform.product())?;
    of(project, &root.unwrap_or_default()).map(drop)
}

/// The given variables as the root module wants them. Of several values for one variable, the last counts.
///
/// # Errors
/// Names a variable that is not declared, as Terraform does for `-var`, or whose value cannot be read.
pub fn of(project: &Project, root: &ModuleConfig) -> Result<Vec<Input>, KlError> {
    let mut inputs: Vec<Input> = Vec::new();
    for variable in project.variables.iter().rev() {
        if inputs.iter().all(|input| input.name() != variable.name) {
            inputs.push(input(variable, project, root)?);
        }
    }
    inputs.reverse();
    Ok(inputs)
}

/// The values of sensitive and ephemeral variables, as far as they are given on the command line or in the environment.
pub fn secrets(project: &Project, root: &ModuleConfig) -> Secrets {
    let mut secrets = Secrets::default();
    for declared in root.variables.iter().filter(|declared| declared.sensitive || declared.ephemeral) {
        let given = project.variables.iter().filter(|variable| variable.name == declared.name);
        given.for_each(|variable| secrets.note_text(variable.value.expose_secret()));
        if let Some(value) = project.terraform.variable_in_environment(&declared.name) {
            secrets.note_text(value);
        }
    }
    secrets
}

fn input(variable: &Variable, project: &Project, root: &ModuleConfig) -> Result<Input, KlError> {
    let name = &variable.name;
    let Some(declared) = root.variables.iter().find(|declared| declared.name == *name) else {
        let near = nearest(name, root.variables.iter().map(|declared| declared.name.as_str()), NAMED);
        let error = KlError::usage(format!("{} declares no variable {name}, for which a value is given", project.name));
        return Err(if near.is_empty() {
            error.hint(format!("add `variable \"{name}\" {{}}` to the root module, or leave the value out"))
        } else {
            error.hint(format!("it declares: {}", near.join(", ")))
        });
    };
    Input::new(variable, declared.form).map_err(|error| {
        KlError::usage(format!("the value given for variable {name} cannot be read"))
            .because(error)
            .hint(format!("write it as in a variable file: {name}='[\"a\", \"b\"]'"))
    })
}
