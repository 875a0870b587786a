//! Input variables on their way to Terraform: in files that their owner alone can read, never among the arguments, which
//! every user of the machine can read.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};

use camino::{Utf8Path, Utf8PathBuf};
use secrecy::{ExposeSecret as _, SecretString};

use crate::domain::graph::configuration::{Form, NotAnExpression};

/// The directory of the files, in the private part of the work directory.
const DIR: &str = "given";

/// A value for an input variable, as the user gave it. It never shows in `Debug`, errors or logs.
#[derive(Debug, Clone)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value, as Terraform reads it after `-var NAME=`.
    pub value: SecretString,
}

/// A value in the form in which its declaration wants it.
#[derive(Debug, Clone)]
pub struct Input {
    name: String,
    form: Form,
    text: SecretString,
}

impl Input {
    /// A value for a variable whose declaration wants this form.
    ///
    /// # Errors
    /// When the value has not that form.
    pub fn new(variable: &Variable, form: Form) -> Result<Self, NotAnExpression> {
        let text = form.file(&variable.name, variable.value.expose_secret())?;
        Ok(Self { name: variable.name.clone(), form, text: text.into() })
    }

    /// The variable's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The files, one for each input, so that a message of Terraform about one names its variable. Removed on drop: values of
/// ephemeral variables are in no plan and in no state, and must not stay in a work directory that is kept.
pub(super) struct InputFiles {
    dir: Utf8PathBuf,
    paths: Vec<Utf8PathBuf>,
}

impl InputFiles {
    /// Writes them below the private part of the work directory.
    pub(super) fn write(private: &Utf8Path, inputs: &[Input]) -> io::Result<Self> {
        let mut files = Self { dir: private.join(DIR), paths: Vec::new() };
        if inputs.is_empty() {
            return Ok(files);
        }
        match fs::DirBuilder::new().mode(0o700).create(&files.dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        for input in inputs {
            let path = files.dir.join(format!("{}.{}", input.name, input.form.extension()));
            let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
            files.paths.push(path);
            file.write_all(input.text.expose_secret().as_bytes())?;
        }
        Ok(files)
    }

    /// Where they are.
    pub(super) fn paths(&self) -> &[Utf8PathBuf] {
        &self.paths
    }
}

impl Drop for InputFiles {
    fn drop(&mut self) {
        for path in &self.paths {
            if let Err(error) = fs::remove_file(path) {
                tracing::warn!(%path, %error, "cannot remove a file with the value of an input variable");
            }
        }
        if !self.paths.is_empty() {
            // What is in it has been complained of; what is left is removed with the work directory.
            drop(fs::remove_dir(&self.dir));
        }
    }
}

/// The variable to whose value a place in a file belongs, when the file is one of those written here.
pub(super) fn variable_of(file: &str) -> Option<&str> {
    let path = Utf8Path::new(file);
    let of_ours = path.is_absolute() && path.parent()?.file_name()? == DIR;
    let name = path.file_name()?;
    let stem = name.strip_suffix(".tfvars").or_else(|| name.strip_suffix(".tfvars.json"))?;
    of_ours.then_some(stem)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn input(name: &str, value: &str, form: Form) -> Input {
        Input::new(&Variable { name: name.to_owned(), value: value.into() }, form).unwrap()
    }

    #[test]
    fn files_are_their_owners_alone_and_gone_afterwards() {
        let temp = tempfile::tempdir().unwrap();
        let private = Utf8Path::from_path(temp.path()).unwrap();
        let inputs = [input("token", "s3cret", Form::Literal), input("tags", "[1]", Form::Expression)];
        let files = InputFiles::write(private, &inputs).unwrap();
        let paths = files.paths().to_vec();
        assert_eq!(paths, [private.join("given/token.tfvars.json"), private.join("given/tags.tfvars")]);
        for path in &paths {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::metadata(private.join("given")).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_to_string(&paths[0]).unwrap(), "{\"token\":\"s3cret\"}\n");
        drop(files);
        assert_eq!(fs::read_dir(private).unwrap().count(), 0);
        assert!(!format!("{inputs:?}").contains("s3cret"));
    }

    #[test]
    fn nothing_given_is_no_file() {
        let temp = tempfile::tempdir().unwrap();
        let private = Utf8Path::from_path(temp.path()).unwrap();
        assert_eq!(InputFiles::write(private, &[]).unwrap().paths().len(), 0);
        assert_eq!(fs::read_dir(private).unwrap().count(), 0);
    }

    #[test]
    fn a_place_in_such_a_file_is_its_variables() {
        assert_eq!(variable_of("/tmp/kl-a/given/token.tfvars.json"), Some("token"));
        assert_eq!(variable_of("/tmp/kl-a/given/tags.tfvars"), Some("tags"));
        assert_eq!(variable_of("given/tags.tfvars"), None);
        assert_eq!(variable_of("/repo/prod.tfvars"), None);
    }
}
