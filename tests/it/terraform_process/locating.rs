//! Which binary is taken, which is refused, and what of the environment gets through to it.

use std::os::unix::fs::symlink;

use kl_runner::terraform::{Product, TerraformError};

use super::{fake, real_terraform};
use crate::lab::{Lab, environment, environment_with, init, plan};

#[tokio::test]
async fn the_wrapper_of_the_setup_action_is_bypassed() {
    let lab = Lab::new(&[]);
    lab.write("setup/terraform", "#!/usr/bin/env node\nthrow new Error('the wrapper ran')\n");
    lab.script("setup/terraform", "echo the wrapper ran; exit 1");
    symlink(real_terraform(), lab.path("setup/terraform-bin")).unwrap();
    let setup = lab.path("setup");
    for variables in [[("PATH", setup.as_str())], [("TERRAFORM_CLI_PATH", setup.as_str())]] {
        let terraform = lab.locate(None, environment_with(&variables)).await.unwrap();
        assert_eq!(terraform.program(), setup.join("terraform-bin"));
        assert_eq!(terraform.product(), Product::Terraform);
    }
    let named = lab.locate(Some("../setup/terraform"), environment()).await.unwrap();
    assert!(named.program().as_str().ends_with("setup/terraform-bin"));
}

#[tokio::test]
async fn tofu_is_taken_when_there_is_no_terraform() {
    let lab = Lab::new(&[]);
    lab.script(
        "bin/tofu",
        "case \"$2\" in -json) echo '{\"terraform_version\":\"1.8.2\"}';; *) echo 'OpenTofu v1.8.2';; esac",
    );
    let terraform = lab.locate(None, environment_with(&[("PATH", lab.path("bin").as_str())])).await.unwrap();
    assert_eq!((terraform.product(), terraform.version().to_string()), (Product::OpenTofu, "1.8.2".to_owned()));
}

#[tokio::test]
async fn what_will_not_do_is_refused_with_a_reason() {
    let lab = Lab::new(&[]);
    let refused = async |program: &str| lab.locate(Some(program), environment()).await.unwrap_err();

    let old = fake(&lab, "old/terraform", "1.1.9", "");
    let error = refused(old.as_str()).await;
    assert!(matches!(error, TerraformError::TooOld { .. }));
    assert!(error.to_string().contains("Terraform 1.1.9; kl needs Terraform 1.2.0 or newer: "), "{error}");

    let garbage = lab.script("garbage/terraform", "echo hello; echo 'oh no' >&2; exit 3");
    let error = refused(garbage.as_str()).await;
    assert!(matches!(&error, TerraformError::NotTerraform { said, .. } if said == "hello"), "{error}");

    lab.write("plain/terraform", "text");
    assert!(matches!(refused("../plain/terraform").await, TerraformError::NotExecutable { .. }));
    assert!(matches!(refused("./nowhere").await, TerraformError::NotFound { .. }));
    assert!(matches!(refused("no-such-terraform").await, TerraformError::NotFound { .. }));

    let empty = environment_with(&[("PATH", lab.path("repo").as_str())]);
    let error = lab.locate(None, empty).await.unwrap_err();
    assert!(error.to_string().starts_with("neither terraform nor tofu is on PATH: install Terraform"), "{error}");
}

#[tokio::test]
async fn arguments_from_the_environment_do_not_get_through() {
    let lab = Lab::new(&[("main.tf", "resource \"terraform_data\" \"x\" {}\n")]);
    let meddling =
        environment_with(&[("TF_CLI_ARGS_plan", "-destroy"), ("TF_DATA_DIR", "/nowhere"), ("TF_WORKSPACE", "other")]);
    let terraform = lab.locate(None, meddling).await.unwrap();
    assert_eq!(terraform.dropped_variables(), ["TF_CLI_ARGS_plan", "TF_DATA_DIR"]);
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    assert_eq!(plan(&terraform, &workspace).await["resource_changes"][0]["change"]["actions"][0], "create");
}
