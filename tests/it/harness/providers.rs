//! The real providers that tests use, from the mirror that tests/fixtures/providers/fetch.sh lays out.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};

use super::wait_until;

/// `required_providers` entry of the third-party provider: `null_resource`, `null_data_source`, with private data.
pub(crate) const NULL: &str = r#"null = { source = "hashicorp/null", version = "2.1.2" }"#;

/// `required_providers` entry of the provider that drifts, waits and fails on request: `klt_file`.
/// Its settings are described in tests/fixtures/providers/drift/klt.py.
pub(crate) const KLT: &str = r#"klt = { source = "example/klt", version = "0.1.0" }"#;

/// Where fetch.sh put everything.
pub(crate) fn fixtures() -> Utf8PathBuf {
    // `target/tmp` is where Cargo lets integration tests write.
    let target = Utf8Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is inside of `target`");
    target.join("test-fixtures")
}

/// The filesystem mirror.
pub(crate) fn mirror() -> Utf8PathBuf {
    match std::env::var("KL_TEST_PROVIDER_MIRROR") {
        Ok(path) if !path.is_empty() => path.into(),
        _ => fixtures().join("mirror"),
    }
}

/// A CLI configuration under which providers come from the mirror and from nowhere else.
pub(crate) fn terraformrc() -> String {
    let mirror = mirror();
    // Terraform refuses a mirror that does not exist; without fixtures there are just no providers.
    if !mirror.is_dir() {
        return "disable_checkpoint = true\nprovider_installation {\n}\n".to_owned();
    }
    format!(
        "disable_checkpoint = true\nprovider_installation {{\n  filesystem_mirror {{\n    path = \"{mirror}\"\n  }}\n}}\n"
    )
}

/// Says that a test needs a provider (`hashicorp/null`, `example/klt`). Fails with what to do when it is not there.
#[track_caller]
pub(crate) fn needs(provider: &str) {
    let dir = mirror().join("registry.terraform.io").join(provider);
    if dir.is_dir() {
        return;
    }
    let why = fs::read_to_string(fixtures().join("unavailable")).unwrap_or_default();
    let why = if why.is_empty() { "it was not fetched yet".to_owned() } else { why.trim().to_owned() };
    panic!(
        "this test needs the provider {provider}: {why}; `tests/run.sh` fetches it, and so does `tests/fixtures/providers/fetch.sh target/test-fixtures`"
    );
}

/// A document of the klt provider, seen and steered from outside.
pub(crate) struct Object {
    path: Utf8PathBuf,
}

impl Object {
    /// The document at `path`, whether it exists or not.
    pub(crate) fn at(path: impl Into<Utf8PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// What stands in it; nothing when it does not exist.
    pub(crate) fn read(&self) -> Option<Value> {
        let text = fs::read_to_string(&self.path).ok()?;
        Some(serde_json::from_str(&text).expect("the provider writes JSON"))
    }

    /// Edits it behind Terraform's back.
    pub(crate) fn edit(&self, content: &str) {
        let mut document = self.read().expect("only what exists can be edited");
        document["content"] = json!(content);
        fs::write(&self.path, document.to_string()).expect("the document is ours");
    }

    /// Deletes it behind Terraform's back.
    pub(crate) fn delete(&self) {
        fs::remove_file(&self.path).expect("only what exists can be deleted");
    }

    /// Lets create, update and delete wait, until [`Object::release`].
    pub(crate) fn hold(&self) {
        self.steer("hold", "");
    }

    /// Lets them go on.
    pub(crate) fn release(&self) {
        fs::remove_file(self.beside("hold")).expect("it was held");
    }

    /// Makes an operation fail (`create`, `update`, `delete`, `read`, `half_create`), or the provider die of any that changes
    /// something (`die`), until [`Object::heal`].
    pub(crate) fn fail(&self, operation: &str) {
        self.steer("fail", operation);
    }

    /// Ends what [`Object::fail`] began.
    pub(crate) fn heal(&self) {
        fs::remove_file(self.beside("fail")).expect("it was made to fail");
    }

    /// What the provider did with it, as `create begin`, `create end`.
    pub(crate) fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.beside("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until the provider has logged this line, as `update begin`.
    #[track_caller]
    pub(crate) fn wait_for(&self, line: &str) {
        let what = format!("{}: {line}", self.path);
        wait_until(&what, std::time::Duration::from_mins(1), || {
            self.log().iter().any(|logged| logged == line).then_some(())
        });
    }

    fn steer(&self, how: &str, text: &str) {
        let path = self.beside(how);
        fs::create_dir_all(path.parent().expect("a file has a directory")).expect("the directory is ours");
        fs::write(path, text).expect("the directory is ours");
    }

    fn beside(&self, ending: &str) -> Utf8PathBuf {
        Utf8PathBuf::from(format!("{}.{ending}", self.path))
    }
}
