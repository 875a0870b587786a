//! Work directories: a configuration behaves in the mirror as in its checkout, on a state of its own.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail their test")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;

use camino::Utf8Path;
use kl_runner::terraform::Stop;
use kl_runner::workspace::{OVERRIDE_FILE, Workspace, WorkspaceError, WorkspaceRequest};
use serde_json::{Value, json};

use crate::lab::{Lab, apply, dirs, init, plan, planned_outputs};

const LOOKING_AROUND: &str = r#"
module "up" {
  source = "../../modules/x"
}
module "linked" {
  source = "./linked"
}
output "up" { value = module.up.paths }
output "linked" { value = module.linked.paths }
output "paths" { value = [path.module, path.root, path.cwd, terraform.workspace] }
output "outside" { value = file("../../certs/x.pem") }
output "linked_file" { value = file("${path.module}/linked.txt") }
output "absolute_link" { value = file("${path.module}/absolute.txt") }
output "template" { value = templatefile("${path.module}/t.tftpl", { a = 1 }) }
output "texts" { value = fileset(path.module, "**/*.txt") }
"#;

const MODULE: &str = r#"output "paths" { value = [path.module, file("${path.module}/y.txt")] }"#;

/// What plain Terraform plans in the checkout itself.
fn planned_in_checkout(lab: &Lab, dir: &Utf8Path) -> Value {
    let terraform = |args: &[&str]| {
        let output = Command::new("terraform")
            .args(args)
            .current_dir(dir)
            .env("TF_DATA_DIR", lab.path("plain-data"))
            .env("PWD", dir)
            .env_remove("TF_CLI_CONFIG_FILE")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let saved = lab.path("plain.plan");
    terraform(&["init", "-input=false"]);
    terraform(&["plan", "-input=false", &format!("-out={saved}")]);
    planned_outputs(&serde_json::from_slice(&terraform(&["show", "-json", saved.as_str()])).unwrap())
}

#[tokio::test]
async fn a_configuration_sees_in_the_mirror_what_it_sees_in_the_checkout() {
    let lab = Lab::new(&[
        ("envs/prod/main.tf", LOOKING_AROUND),
        ("envs/prod/t.tftpl", "a is ${a}"),
        ("envs/prod/here.txt", "here"),
        ("modules/x/m.tf", MODULE),
        ("modules/x/y.txt", "y"),
        ("certs/x.pem", "pem"),
        ("shared.txt", "shared"),
    ]);
    let root = lab.path("repo/envs/prod");
    lab.write("elsewhere/absolute.txt", "absolute");
    symlink("../../modules/x", root.join("linked")).unwrap();
    symlink("../../shared.txt", root.join("linked.txt")).unwrap();
    symlink(lab.path("elsewhere/absolute.txt"), root.join("absolute.txt")).unwrap();

    let expected = planned_in_checkout(&lab, &root);
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("envs/prod", "default");
    init(&terraform, &workspace).await;
    workspace.write_slice(r#"{"version":4,"serial":1,"lineage":"l"}"#).unwrap();
    let planned = planned_outputs(&plan(&terraform, &workspace).await);
    assert_eq!(planned, expected);
    assert_eq!(planned["up"]["value"][0], "../../modules/x");
    assert!(!root.join(".terraform").exists(), "the checkout is as it was");
}

#[tokio::test]
async fn fileset_sees_the_override_and_nothing_else_of_kl() {
    let lab = Lab::new(&[("main.tf", "output \"all\" {\n  value = fileset(path.module, \"**\")\n}\n")]);
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    workspace.write_slice(r#"{"version":4,"serial":1,"lineage":"l"}"#).unwrap();
    plan(&terraform, &workspace).await;
    apply(&terraform, &workspace, &Stop::never(), |_| {}).await.unwrap();
    let state: Value = serde_json::from_str(&workspace.read_state().unwrap().unwrap()).unwrap();
    assert_eq!(state["outputs"]["all"]["value"], json!(["main.tf", OVERRIDE_FILE]));
}

#[tokio::test]
async fn our_backend_wins_over_whatever_the_configuration_declares_without_a_network() {
    let backends = [
        ("main.tf", "terraform {\n  backend \"http\" {\n    address = \"http://127.0.0.1:1/\"\n  }\n}\n"),
        (
            "main.tf",
            "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key = \"}k{\"\n    region = \"x\"\n  }\n}\n",
        ),
        ("main.tf", "terraform {\n  backend \"gcs\" {\n    bucket = \"b\"\n  }\n}\n"),
        (
            "main.tf",
            "terraform {\n  cloud {\n    organization = \"o\"\n    workspaces {\n      name = \"w\"\n    }\n  }\n}\n",
        ),
        ("main.tf.json", r#"{"terraform": {"backend": {"http": {"address": "http://127.0.0.1:1/"}}}}"#),
        ("zz_override.tf", "terraform {\n  backend \"http\" {\n    address = \"http://127.0.0.1:1/\"\n  }\n}\n"),
        ("~~z_override.tf.json", r#"{"terraform": {"backend": {"http": {"address": "http://127.0.0.1:1/"}}}}"#),
        ("main.tf", ""),
    ];
    for (name, text) in backends {
        let lab = Lab::new(&[(name, text), ("r.tf", "resource \"terraform_data\" \"x\" {}\n")]);
        let terraform = lab.terraform().await;
        let workspace = lab.workspace("", "default");
        init(&terraform, &workspace).await;
        plan(&terraform, &workspace).await;
        apply(&terraform, &workspace, &Stop::never(), |_| {}).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(workspace.read_state().unwrap().unwrap().contains("terraform_data"), "{name}");
    }
}

#[tokio::test]
async fn an_override_that_sorts_after_ours_is_refused_by_name() {
    let other = "terraform {\n  backend \"local\" {\n    path = \"mine.tfstate\"\n  }\n}\n";
    let lab = Lab::new(&[("main.tf", ""), ("\u{10FFFD}z_override.tf", other)]);
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    terraform.init(&dirs(&workspace), &Stop::never()).await.unwrap();
    let error = workspace.after_init().unwrap_err();
    assert!(matches!(error, WorkspaceError::OtherBackend { .. }));
    assert!(error.to_string().contains("z_override.tf\""), "{error}");
}

#[tokio::test]
async fn a_named_workspace_keeps_its_meaning() {
    let lab = Lab::new(&[(
        "main.tf",
        "terraform {\n  backend \"http\" {}\n}\nresource \"terraform_data\" \"x\" {\n  input = terraform.workspace\n}\n",
    )]);
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "dev");
    init(&terraform, &workspace).await;
    workspace
        .write_slice(r#"{"version":4,"serial":7,"lineage":"l-dev","outputs":{"old":{"value":1,"type":"number"}}}"#)
        .unwrap();
    let planned = plan(&terraform, &workspace).await;
    assert_eq!(planned["resource_changes"][0]["change"]["after"]["input"], "dev");
    assert_eq!(planned["output_changes"]["old"]["actions"], json!(["delete"]), "the slice was read");
    apply(&terraform, &workspace, &Stop::never(), |_| {}).await.unwrap();
    let state: Value = serde_json::from_str(&workspace.read_state().unwrap().unwrap()).unwrap();
    assert_eq!(state["lineage"], "l-dev");
    assert_eq!(workspace.state_path(), workspace.dir().join("state/workspaces/dev/terraform.tfstate"));
}

#[tokio::test]
async fn what_an_earlier_run_left_in_the_checkout_is_ignored() {
    let lab = Lab::new(&[
        ("main.tf", "terraform {\n  backend \"http\" {}\n}\nresource \"terraform_data\" \"x\" {}\n"),
        (".terraform/terraform.tfstate", r#"{"version":3,"backend":{"type":"s3","config":{},"hash":1}}"#),
        (".terraform/environment", "other"),
        ("terraform.tfstate", "not a state"),
        ("terraform.tfstate.d/other/terraform.tfstate", "not a state"),
    ]);
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    assert_eq!(plan(&terraform, &workspace).await["resource_changes"][0]["change"]["actions"], json!(["create"]));
}

#[tokio::test]
async fn a_downloaded_module_has_the_path_that_it_has_in_a_checkout() {
    let lab = Lab::new(&[]);
    lab.write(
        "module/m.tf",
        "module \"s\" {\n  source = \"./sub\"\n}\noutput \"p\" {\n  value = [path.module, module.s.p]\n}\n",
    );
    lab.write("module/sub/m.tf", "output \"p\" {\n  value = path.module\n}\n");
    let git = |args: &[&str]| {
        let status = Command::new("git")
            .args(["-c", "user.name=kl", "-c", "user.email=kl@example.test"])
            .args(args)
            .current_dir(lab.path("module"))
            .status();
        assert!(status.unwrap().success());
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "A module"]);
    let source = format!("git::file://{}", lab.path("module"));
    lab.write(
        "repo/main.tf",
        &format!("module \"g\" {{\n  source = \"{source}\"\n}}\noutput \"p\" {{\n  value = module.g.p\n}}\n"),
    );
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    let planned = planned_outputs(&plan(&terraform, &workspace).await);
    assert_eq!(planned["p"]["value"], json!([".terraform/modules/g", ".terraform/modules/g/sub"]));
    apply(&terraform, &workspace, &Stop::never(), |_| {}).await.unwrap();
}

#[tokio::test]
async fn a_temporary_directory_with_a_hostile_name_works() {
    let lab = Lab::new(&[("main.tf", "resource \"terraform_data\" \"x\" {}\n")]);
    let parent = lab.path("a\"b ${c} %{d} ü");
    fs::create_dir(&parent).unwrap();
    let mut request = lab.request("", "default");
    request.parent = parent;
    let workspace = Workspace::create(&request).unwrap();
    let terraform = lab.terraform().await;
    init(&terraform, &workspace).await;
    plan(&terraform, &workspace).await;
}

#[tokio::test]
async fn without_a_repository_relative_paths_still_lead_to_the_same_files() {
    let lab = Lab::new(&[]);
    lab.write(
        "lone/prod/main.tf",
        "module \"x\" {\n  source = \"../x\"\n}\noutput \"o\" {\n  value = [module.x.p, file(\"../certs/x.pem\")]\n}\n",
    );
    lab.write("lone/x/m.tf", "output \"p\" {\n  value = path.module\n}\n");
    lab.write("lone/certs/x.pem", "pem");
    let mut request = lab.request("", "default");
    request.root_module = lab.path("lone/prod");
    request.extra_roots = vec![lab.path("lone/x")];
    let workspace = Workspace::create(&request).unwrap();
    let terraform = lab.terraform().await;
    init(&terraform, &workspace).await;
    assert_eq!(planned_outputs(&plan(&terraform, &workspace).await)["o"]["value"], json!(["../x", "pem"]));
}

#[test]
fn the_mirror_has_what_the_repository_has_and_leaves_out_what_is_not_configuration() {
    let lab = Lab::new(&[
        ("prod/main.tf", ""),
        ("prod/run.sh", "#!/bin/sh\n"),
        ("prod/.terraform.lock.hcl", ""),
        ("prod/.hidden", ""),
        ("prod/saved.tfplan", ""),
        ("prod/terraform.tfstate.backup", ""),
        ("prod/.terraform/providers/x", ""),
        (".kl/kl.db", ""),
        (".git/config", ""),
        ("other/terraform.tfstate", "of another root module"),
        ("target/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n# by cargo\n"),
        ("target/lambda.zip", "zip"),
        ("untagged/CACHEDIR.TAG", "no signature"),
        ("big.bin", ""),
    ]);
    fs::set_permissions(lab.path("repo/prod/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::File::options().write(true).open(lab.path("repo/big.bin")).unwrap().set_len(64 * 1024 * 1024).unwrap();
    let _socket = UnixListener::bind(lab.path("repo/prod/socket")).unwrap();
    let workspace = lab.workspace("prod", "default");
    let mirror = workspace.dir().join("mirror");

    let present =
        ["prod/run.sh", "prod/.terraform.lock.hcl", "prod/.hidden", "prod/saved.tfplan", "other/terraform.tfstate"];
    for path in present.into_iter().chain(["untagged/CACHEDIR.TAG", "target/lambda.zip"]) {
        assert!(mirror.join(path).exists(), "{path} is there");
    }
    for path in [".git", ".kl", "prod/.terraform", "prod/terraform.tfstate.backup", "prod/socket"] {
        assert!(!mirror.join(path).exists(), "{path} is not there");
    }
    assert_eq!(fs::metadata(mirror.join("prod/run.sh")).unwrap().mode() & 0o777, 0o755);
    assert!(mirror.join("target").is_symlink(), "a cache is linked");
    let big = |path: &Utf8Path| fs::metadata(path).unwrap().ino();
    assert_eq!(big(&mirror.join("big.bin")), big(&lab.path("repo/big.bin")), "a large file is linked");
    for dir in ["", "state", "data", "mirror/prod"] {
        assert_eq!(fs::metadata(workspace.dir().join(dir)).unwrap().mode() & 0o777, 0o700, "{dir}");
    }
    let (copy, original) = (mirror.join("prod/.hidden"), lab.path("repo/prod/.hidden"));
    assert_eq!(fs::metadata(copy).unwrap().modified().unwrap(), fs::metadata(original).unwrap().modified().unwrap());
}

#[test]
fn a_database_in_the_repository_is_not_mirrored_by_whatever_path_it_is_named() {
    let beside = ["live/own.db", "live/own.db-wal", "live/own.db-shm", "live/own.db-journal"];
    let lab = Lab::new(&[("live/main.tf", ""), ("live/other.db", "")]);
    for path in beside {
        fs::write(lab.path("repo").join(path), "").unwrap();
    }
    symlink("live/own.db", lab.path("repo/linked.db")).unwrap();
    fs::hard_link(lab.path("repo/live/own.db"), lab.path("repo/live/again.db")).unwrap();
    for named in ["repo/live/own.db", "repo/live/../live/own.db", "repo/linked.db"] {
        let request = WorkspaceRequest { database: Some(lab.path(named)), ..lab.request("live", "default") };
        let workspace = Workspace::create(&request).unwrap();
        for path in beside {
            assert!(!workspace.dir().join("mirror").join(path).exists(), "{named}: {path}");
        }
        assert!(!workspace.root_module_dir().join("again.db").exists());
        assert!(workspace.root_module_dir().join("other.db").exists());
    }
}

#[test]
fn symbolic_links_lead_to_what_they_lead_to_in_the_checkout() {
    let lab = Lab::new(&[("prod/main.tf", ""), ("shared/a.tf", "a"), (".git/description", "d")]);
    lab.write("outside/file", "o");
    let root = lab.path("repo/prod");
    let links = [
        ("inside", "../shared/a.tf"),
        ("inside_dir", "../shared"),
        ("through_link", "inside_dir/a.tf"),
        ("out", "../../outside/file"),
        ("out_dir", "../../outside"),
        ("out_and_in", "../../repo/shared/a.tf"),
        ("to_what_is_left_out", "../.git/description"),
        ("dangling", "nowhere"),
        ("loop", "loop"),
    ];
    for (name, target) in links {
        symlink(target, root.join(name)).unwrap();
    }
    let absolute = lab.path("repo/shared/a.tf");
    symlink(&absolute, root.join("absolute")).unwrap();
    let workspace = lab.workspace("prod", "default");
    let at = |name: &str| workspace.root_module_dir().join(name);
    let text = |name: &str| at(name).read_link_utf8().unwrap();
    let real = |name: &str| at(name).canonicalize_utf8().unwrap();
    let mirror = workspace.dir().join("mirror");

    for name in ["inside", "inside_dir", "through_link", "dangling", "loop"] {
        let expected = links.iter().find(|(link, _)| *link == name).unwrap().1;
        assert_eq!(text(name), expected);
    }
    for name in ["inside", "through_link", "out_and_in"] {
        assert_eq!(real(name), mirror.join("shared/a.tf"), "{name}");
    }
    assert_eq!(text("out"), lab.path("outside/file"));
    assert_eq!(text("out_dir"), lab.path("outside"));
    assert_eq!(text("absolute"), absolute);
    assert_eq!(text("to_what_is_left_out"), lab.path("repo/.git/description"));
}

#[test]
fn a_root_module_in_a_directory_that_is_otherwise_left_out_is_mirrored() {
    let tag = "Signature: 8a477f597d28d172789f06886806bc55\n";
    let lab = Lab::new(&[(".terraform/cdk/CACHEDIR.TAG", tag), (".terraform/cdk/prod/main.tf", "")]);
    let workspace = lab.workspace(".terraform/cdk/prod", "default");
    assert!(workspace.root_module_dir().join("main.tf").is_file());
    assert!(!workspace.dir().join("mirror/.terraform").is_symlink());
}

#[test]
fn a_temporary_directory_inside_the_repository_is_not_mirrored_into_itself() {
    let lab = Lab::new(&[("main.tf", ""), ("tmp/other", "")]);
    let mut request = lab.request("", "default");
    request.parent = lab.path("repo/tmp");
    let first = Workspace::create(&request).unwrap();
    let second = Workspace::create(&request).unwrap();
    let names: Vec<_> =
        fs::read_dir(second.dir().join("mirror/tmp")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["other"]);
    assert_ne!(first.dir(), second.dir());
}

#[test]
fn the_directory_has_the_same_name_in_every_job_and_goes_away() {
    let lab = Lab::new(&[("envs/prod/main.tf", "")]);
    let workspace = lab.workspace("envs/prod", "default");
    let first = workspace.dir().to_owned();
    assert_eq!(first.file_name(), Some("kl-repo-envs-prod"));
    let locked = workspace.root_module_dir().join("locked");
    fs::create_dir_all(locked.join("inner")).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o500)).unwrap();
    drop(workspace);
    assert_eq!(lab.leftovers(), Vec::<String>::new());
    let mut kept = lab.workspace("envs/prod", "default");
    assert_eq!(kept.keep(), first);
    drop(kept);
    assert_eq!(lab.leftovers(), ["kl-repo-envs-prod"]);
}

#[test]
fn nothing_is_left_after_an_error() {
    let lab = Lab::new(&[("prod/main.tf", "")]);
    // The override cannot be written where a directory has its name.
    fs::create_dir(lab.path("repo/prod").join(OVERRIDE_FILE)).unwrap();
    let error = Workspace::create(&lab.request("prod", "default")).unwrap_err();
    assert!(error.to_string().starts_with("cannot write"), "{error}");
    assert_eq!(lab.leftovers(), Vec::<String>::new());

    for name in ["", "..", "a/b"] {
        assert!(matches!(Workspace::create(&lab.request("prod", name)), Err(WorkspaceError::BadName { .. })));
    }
    assert!(Workspace::create(&lab.request("nowhere", "default")).is_err());
    assert!(matches!(
        Workspace::create(&lab.request("prod/main.tf", "default")),
        Err(WorkspaceError::NotADirectory { .. })
    ));
}
