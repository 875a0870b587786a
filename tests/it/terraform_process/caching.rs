//! The provider cache, shared by inits that take turns, and what the lock file must say.

use std::fs;
use std::time::Duration;

use camino::Utf8PathBuf;
use kl_runner::terraform::{LocateRequest, Stop, Terraform, TerraformError, providers_locked};

use super::{fake, stop};
use crate::lab::{Lab, dirs, environment, environment_with, init};

#[tokio::test]
async fn inits_with_one_cache_take_turns() {
    let lab = Lab::new(&[("a/main.tf", ""), ("b/main.tf", "")]);
    let log = lab.path("log");
    let program = fake(&lab, "bin/terraform", "1.9.0", &format!("echo begin >> {log}; sleep 0.3; echo end >> {log}"));
    let terraform = lab.locate(Some(program.as_str()), environment()).await.unwrap();
    let (a, b) = (lab.workspace("a", "default"), lab.workspace("b", "default"));
    let (dirs_a, dirs_b, never) = (dirs(&a), dirs(&b), Stop::never());
    let (first, second) = tokio::join!(terraform.init(&dirs_a, &never), terraform.init(&dirs_b, &never));
    first.unwrap();
    second.unwrap();
    assert_eq!(fs::read_to_string(log).unwrap(), "begin\nend\nbegin\nend\n");
}

#[tokio::test]
async fn waiting_for_the_cache_can_be_interrupted() {
    let lab = Lab::new(&[("main.tf", "")]);
    fs::create_dir(lab.path("cache")).unwrap();
    let holder = fs::File::create(lab.path("cache/.kl-init.lock")).unwrap();
    holder.lock().unwrap();
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    let (dirs, stop) = (dirs(&workspace), stop(Duration::ZERO));
    let init = terraform.init(&dirs, &stop);
    let interrupt = async { stop.interrupt.cancel() };
    let (result, ()) = tokio::join!(init, interrupt);
    assert!(matches!(result, Err(TerraformError::Cancelled { .. })));
}

/// A provider that can be installed, though not run, from a directory.
fn provider_mirror(lab: &Lab) -> Utf8PathBuf {
    let os = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    lab.script(
        &format!("providers/registry.terraform.io/example/fake/1.2.3/{os}_{arch}/terraform-provider-fake_v1.2.3"),
        "exit 1",
    );
    let providers = lab.path("providers");
    lab.write(
        "terraformrc",
        &format!("provider_installation {{\n  filesystem_mirror {{\n    path = \"{providers}\"\n  }}\n}}\n"),
    );
    lab.path("terraformrc")
}

#[tokio::test]
async fn real_inits_share_a_cache_and_the_selected_versions_are_known() {
    let main = "terraform {\n  required_providers {\n    fake = {\n      source = \"example/fake\"\n    }\n  }\n}\n";
    let lab = Lab::new(&[("a/main.tf", main), ("b/main.tf", main), ("c/main.tf", main)]);
    let rc = provider_mirror(&lab);
    let terraform = lab.locate(None, environment_with(&[("TF_CLI_CONFIG_FILE", rc.as_str())])).await.unwrap();
    let workspaces = ["a", "b", "c"].map(|dir| lab.workspace(dir, "default"));
    let [a, b, c] = &workspaces;
    tokio::join!(init(&terraform, a), init(&terraform, b), init(&terraform, c));
    for workspace in &workspaces {
        let locked = providers_locked(workspace.root_module_dir()).unwrap();
        assert_eq!(locked.get("registry.terraform.io/example/fake").map(String::as_str), Some("1.2.3"));
    }
    assert!(lab.path("cache/registry.terraform.io/example/fake/1.2.3").exists());
    assert!(!lab.path("repo/a/.terraform.lock.hcl").exists(), "the checkout is as it was");
}

#[tokio::test]
async fn a_lock_file_that_misses_a_provider_is_an_error_not_a_choice() {
    let main = "terraform {\n  required_providers {\n    fake = {\n      source = \"example/fake\"\n    }\n  }\n}\n";
    let lab = Lab::new(&[("main.tf", main), (".terraform.lock.hcl", "# nothing\n")]);
    let rc = provider_mirror(&lab);
    let terraform = lab.locate(None, environment_with(&[("TF_CLI_CONFIG_FILE", rc.as_str())])).await.unwrap();
    let workspace = lab.workspace("", "default");
    let error = terraform.init(&dirs(&workspace), &Stop::never()).await.unwrap_err();
    assert!(matches!(error, TerraformError::Init(_)));
    assert!(error.to_string().contains("is read-only"), "{error}");
}

#[tokio::test]
async fn the_cache_of_the_user_is_used_when_there_is_one() {
    let lab = Lab::new(&[("main.tf", "")]);
    let users = lab.path("users-cache");
    let environment = environment_with(&[("TF_PLUGIN_CACHE_DIR", users.as_str())]);
    let dir = lab.path("repo");
    let request = LocateRequest { program: None, dir: &dir, environment, plugin_cache: None };
    let terraform = Terraform::locate(request).await.unwrap();
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    assert!(users.join(".kl-init.lock").exists());
}
