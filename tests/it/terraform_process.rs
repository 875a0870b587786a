//! The Terraform binary as a process: found, asked, stopped, and nothing of it left.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail their test")]

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use kl_runner::terraform::{
    ApplyRequest, LocateRequest, PlanRequest, Product, Stop, Terraform, TerraformError, UiEvent, Variable,
    providers_locked,
};
use secrecy::SecretString;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::lab::{Lab, apply, dirs, environment, environment_with, init, plan};

/// Where the tests' own Terraform is.
fn real_terraform() -> Utf8PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|dir| dir.join("terraform")).find(|program| program.is_file());
    Utf8PathBuf::from_path_buf(found.expect("the tests need Terraform on PATH")).unwrap()
}

fn stop(grace: Duration) -> Stop {
    Stop { interrupt: CancellationToken::new(), kill: CancellationToken::new(), grace }
}

/// Whether a process lives; a zombie does not.
fn is_alive(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or_default().starts_with('Z'))
}

/// Waits until a file has text in it.
async fn text_of(path: &Utf8Path) -> String {
    let began = Instant::now();
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => assert!(began.elapsed() < Duration::from_secs(30), "{path} was not written"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until a process is gone: a signal takes effect a moment after it was sent.
async fn assert_dies(pid: &str) {
    let began = Instant::now();
    while is_alive(pid) {
        assert!(began.elapsed() < Duration::from_secs(5), "process {pid} lives");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A quick resource, and one whose provisioner writes its process number and works on.
fn quick_and_slow(lab: &Lab, work: &str) {
    let pid = lab.path("pid");
    lab.write(
        "repo/main.tf",
        &format!(
            r#"
resource "terraform_data" "quick" {{}}
resource "terraform_data" "slow" {{
  depends_on = [terraform_data.quick]
  provisioner "local-exec" {{
    command = "echo $$ > {pid}; {work}"
  }}
}}
"#
        ),
    );
}

/// Applies and does something when the provisioner has started.
async fn apply_and_then(
    lab: &Lab,
    stop: &Stop,
    then: impl FnOnce() + Send + 'static,
) -> (TerraformError, Value, String) {
    apply_with(&lab.terraform().await, lab, stop, then).await
}

async fn apply_with(
    terraform: &Terraform,
    lab: &Lab,
    stop: &Stop,
    then: impl FnOnce() + Send + 'static,
) -> (TerraformError, Value, String) {
    let workspace = lab.workspace("", "default");
    init(terraform, &workspace).await;
    plan(terraform, &workspace).await;
    let pid_file = lab.path("pid");
    let watcher = tokio::spawn(async move {
        let pid = text_of(&pid_file).await;
        then();
        pid
    });
    let error = apply(terraform, &workspace, stop, |_| {}).await.unwrap_err();
    let state = serde_json::from_str(&workspace.read_state().unwrap().unwrap()).unwrap();
    (error, state, watcher.await.unwrap())
}

fn resource<'a>(state: &'a Value, name: &str) -> Option<&'a Value> {
    state["resources"].as_array().unwrap().iter().find(|resource| resource["name"] == name)
}

#[tokio::test]
async fn an_interrupted_apply_writes_what_it_did() {
    let lab = Lab::new(&[]);
    quick_and_slow(&lab, "exec sleep 60");
    let stop = stop(Duration::from_secs(30));
    let interrupt = stop.interrupt.clone();
    let began = Instant::now();
    let (error, state, pid) = apply_and_then(&lab, &stop, move || interrupt.cancel()).await;
    assert!(matches!(error, TerraformError::Cancelled { cut: false, .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(30), "it did not wait for the provisioner");
    assert!(resource(&state, "quick").is_some());
    assert_eq!(resource(&state, "slow").unwrap()["instances"][0]["status"], "tainted");
    assert_dies(&pid).await;
}

#[tokio::test]
async fn a_killed_apply_leaves_nobody_of_its_group() {
    let lab = Lab::new(&[]);
    quick_and_slow(&lab, "trap '' INT TERM HUP; sleep 60; sleep 60");
    let stop = stop(Duration::from_secs(30));
    let kill = stop.kill.clone();
    let (error, state, pid) = apply_and_then(&lab, &stop, move || kill.cancel()).await;
    assert!(matches!(error, TerraformError::Cancelled { cut: true, .. }), "{error}");
    assert!(resource(&state, "quick").is_some(), "finished resources are in the file");
    assert_dies(&pid).await;
}

#[tokio::test]
async fn what_a_successful_apply_leaves_running_is_ended() {
    let lab = Lab::new(&[]);
    let pid = lab.path("pid");
    lab.write(
        "repo/main.tf",
        &format!(
            "resource \"terraform_data\" \"x\" {{\n  provisioner \"local-exec\" {{\n    command = \"sleep 60 > /dev/null 2>&1 & echo $! > {pid}\"\n  }}\n}}\n"
        ),
    );
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    plan(&terraform, &workspace).await;
    apply(&terraform, &workspace, &Stop::never(), |_| {}).await.unwrap();
    assert_dies(&text_of(&pid).await).await;
}

#[tokio::test]
async fn what_an_apply_says_is_heard_while_it_works_and_to_its_last_word() {
    let lab = Lab::new(&[]);
    let heard = lab.path("heard");
    // It ends only when it was heard that it began.
    lab.write(
        "repo/main.tf",
        &format!(
            "resource \"terraform_data\" \"x\" {{\n  provisioner \"local-exec\" {{\n    command = \"while ! [ -e {heard} ]; do sleep 0.02; done\"\n  }}\n}}\n"
        ),
    );
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    plan(&terraform, &workspace).await;
    let mut events = Vec::new();
    let each = |event: &UiEvent| {
        if matches!(event, UiEvent::Provision { step, .. } if step == "start") {
            fs::write(&heard, "").unwrap();
        }
        events.push(event.clone());
    };
    apply(&terraform, &workspace, &Stop::never(), each).await.unwrap();
    assert!(
        matches!(events.first(), Some(UiEvent::Started(group)) if group.started.is_some() == cfg!(target_os = "linux"))
    );
    assert!(events.iter().any(|event| matches!(event, UiEvent::ApplyComplete { .. })));
    assert!(
        events
            .iter()
            .any(|event| matches!(event, UiEvent::ChangeSummary { operation, add: 1, .. } if operation == "apply"))
    );
}

/// A stand-in that answers `version` and otherwise does something.
fn fake(lab: &Lab, path: &str, version: &str, otherwise: &str) -> Utf8PathBuf {
    lab.script(
        path,
        &format!("case \"$*\" in version*) echo '{{\"terraform_version\":\"{version}\"}}'; exit;; esac\n{otherwise}"),
    )
}

async fn run_fake(lab: &Lab, otherwise: &str, stop: &Stop) -> Result<(), TerraformError> {
    let program = fake(lab, "bin/terraform", "1.9.0", otherwise);
    let terraform = lab.locate(Some(program.as_str()), environment()).await.unwrap();
    let workspace = lab.workspace("", "default");
    terraform.plan(&dirs(&workspace), &PlanRequest::new("p"), stop, &mut |_| {}).await.map(|_| ())
}

#[tokio::test]
async fn a_terraform_that_does_not_listen_is_killed_after_the_grace() {
    let lab = Lab::new(&[("main.tf", "")]);
    let pid = lab.path("pid");
    let stop = stop(Duration::from_millis(100));
    let interrupt = stop.interrupt.clone();
    let pid_file = pid.clone();
    tokio::spawn(async move {
        text_of(&pid_file).await;
        interrupt.cancel();
    });
    let error = run_fake(&lab, &format!("trap '' INT TERM\necho $$ > {pid}\nsleep 60; sleep 60"), &stop).await;
    assert!(matches!(error, Err(TerraformError::Cancelled { cut: true, .. })), "{error:?}");
    assert_dies(&text_of(&pid).await).await;
}

/// A state over HTTP that interrupts as soon as it is asked for, and answers later; sets the flag when it does.
fn slow_state(stop: &Stop) -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let answered = Arc::new(AtomicBool::new(false));
    let (interrupt, flag) = (stop.interrupt.clone(), Arc::clone(&answered));
    std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        interrupt.cancel();
        std::thread::sleep(Duration::from_millis(1500));
        flag.store(true, Ordering::SeqCst);
        let state = r#"{"version":4,"serial":1,"lineage":"l","outputs":{},"resources":[]}"#;
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{state}", state.len());
        // Nobody may be there any more.
        drop(connection.write_all(answer.as_bytes()));
    });
    (address, answered)
}

#[tokio::test]
async fn an_interrupted_terraform_may_finish_what_is_in_flight() {
    let lab = Lab::new(&[]);
    let stop = stop(Duration::from_secs(30));
    let (address, answered) = slow_state(&stop);
    lab.write(
        "repo/main.tf",
        &format!(
            r#"
resource "terraform_data" "first" {{}}
data "terraform_remote_state" "slow" {{
  depends_on = [terraform_data.first]
  backend    = "http"
  config     = {{ address = "{address}" }}
}}
"#
        ),
    );
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    plan(&terraform, &workspace).await;
    // A second interrupt would make Terraform give up at once.
    let ended = apply(&terraform, &workspace, &stop, |_| {}).await;
    assert!(answered.load(Ordering::SeqCst), "Terraform did not wait: {ended:?}");
    assert!(workspace.read_state().unwrap().unwrap().contains("\"first\""));
}

#[tokio::test]
async fn a_script_in_front_of_terraform_does_not_make_the_interrupt_rough() {
    let lab = Lab::new(&[]);
    quick_and_slow(&lab, "exec sleep 60");
    let real = real_terraform();
    let wrapper = lab.script("bin/terraform", &format!("trap 'exit 130' INT\n{real} \"$@\" &\nwait $!"));
    let terraform = lab.locate(Some(wrapper.as_str()), environment()).await.unwrap();
    let stop = stop(Duration::from_secs(30));
    let interrupt = stop.interrupt.clone();
    let (error, state, pid) = apply_with(&terraform, &lab, &stop, move || interrupt.cancel()).await;
    assert!(matches!(error, TerraformError::Cancelled { cut: false, .. }), "{error}");
    assert_eq!(resource(&state, "slow").unwrap()["instances"][0]["status"], "tainted");
    assert_dies(&pid).await;
}

#[tokio::test]
async fn a_dropped_call_leaves_nobody() {
    let lab = Lab::new(&[("main.tf", "")]);
    let pid = lab.path("pid");
    let never = Stop::never();
    let work = format!("sh -c 'echo $$ > {pid}; sleep 60; sleep 60'");
    let call = run_fake(&lab, &work, &never);
    tokio::select! {
        _ = call => panic!("it ended by itself"),
        _ = text_of(&pid) => {}
    }
    assert_dies(&text_of(&pid).await).await;
}

#[tokio::test]
async fn a_cancelled_stop_starts_nothing() {
    let lab = Lab::new(&[("main.tf", "")]);
    let stop = stop(Duration::ZERO);
    stop.interrupt.cancel();
    let marker = lab.path("started");
    let error = run_fake(&lab, &format!("touch {marker}"), &stop).await;
    assert!(matches!(error, Err(TerraformError::Cancelled { cut: false, .. })));
    assert!(!marker.exists());
}

#[tokio::test]
async fn much_output_on_both_pipes_does_not_block_and_the_end_of_it_is_shown() {
    let lab = Lab::new(&[("main.tf", "")]);
    let noise = "i=0; while [ $i -lt 20000 ]; do echo \"out $i\"; echo \"err $i\" >&2; i=$((i+1)); done; exit 3";
    let error = run_fake(&lab, noise, &Stop::never()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("terraform plan failed: exit code 3\n") && text.ends_with("err 19999"), "{text}");
}

#[tokio::test]
async fn a_process_that_was_killed_from_outside_says_so() {
    let lab = Lab::new(&[("main.tf", "")]);
    let error = run_fake(&lab, "kill -9 $$", &Stop::never()).await.unwrap_err();
    assert!(error.to_string().contains("signal 9"), "{error}");
}

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

#[tokio::test]
async fn an_apply_is_heard_of_as_it_goes() {
    let lab = Lab::new(&[(
        "main.tf",
        "locals {\n  l = terraform_data.a[\"k.1\"].id\n}\nresource \"terraform_data\" \"a\" {\n  for_each = toset([\"k.1\"])\n}\nresource \"terraform_data\" \"b\" {\n  input = local.l\n}\n",
    )]);
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    plan(&terraform, &workspace).await;
    let graph = terraform.graph_dot(&dirs(&workspace), &Stop::never()).await.unwrap();
    assert!(graph.contains("local.l"), "{graph}");
    let events = apply(&terraform, &workspace, &Stop::never(), |_| {}).await.unwrap();
    let story: Vec<String> = events
        .iter()
        .filter_map(|event| match event {
            UiEvent::Version { .. } => Some("version".to_owned()),
            UiEvent::ApplyStart(subject) => Some(format!("{} {}", subject.action, subject.address)),
            UiEvent::ApplyComplete { subject, id, .. } => Some(format!("done {} {}", subject.address, id.is_some())),
            UiEvent::ChangeSummary { operation, add, .. } => Some(format!("{operation} {add}")),
            _ => None,
        })
        .collect();
    assert_eq!(
        story,
        [
            "version",
            "create terraform_data.a[\"k.1\"]",
            "done terraform_data.a[\"k.1\"] true",
            "create terraform_data.b",
            "done terraform_data.b true",
            "apply 2",
        ]
    );
}

#[tokio::test]
async fn a_failed_plan_says_where_and_why() {
    let lab = Lab::new(&[(
        "main.tf",
        "resource \"terraform_data\" \"a\" {}\nresource \"terraform_data\" \"b\" {\n  for_each = toset([terraform_data.a.id])\n}\n",
    )]);
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    let request = PlanRequest::new(workspace.plan_path());
    let error = terraform.plan(&dirs(&workspace), &request, &Stop::never(), &mut |_| {}).await.unwrap_err();
    let text = error.to_string();
    let start = "terraform plan failed: exit code 1\nError: Invalid for_each argument\n  on main.tf:3\n  The ";
    assert!(text.starts_with(start), "{text}");
    assert!(workspace.plan_path().exists(), "Terraform writes a plan even so; nobody may use it");

    lab.write("repo/main.tf", "resource \"terraform_data\" {}\n");
    let workspace = lab.workspace("", "default");
    let error = terraform.init(&dirs(&workspace), &Stop::never()).await.unwrap_err();
    assert!(matches!(&error, TerraformError::Init(failure) if failure.errors().any(|e| e.line == Some(1))), "{error}");
}

#[tokio::test]
async fn an_ephemeral_variable_is_given_again_and_shown_nowhere() {
    let lab = Lab::new(&[(
        "main.tf",
        "variable \"token\" {\n  type      = string\n  ephemeral = true\n}\nvariable \"plain\" {}\nresource \"terraform_data\" \"x\" {\n  input = var.plain\n}\nprovider \"terraform\" {}\nlocals {\n  t = var.token\n}\n",
    )]);
    let variable = |name: &str, value: &str| Variable { name: name.to_owned(), value: SecretString::from(value) };
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    let mut request = PlanRequest::new(workspace.plan_path());
    request.variables = vec![variable("token", "s3cret-token"), variable("plain", "a=b \"c\"")];
    let outcome = terraform.plan(&dirs(&workspace), &request, &Stop::never(), &mut |_| {}).await.unwrap();
    assert!(outcome.changes);

    let error = apply(&terraform, &workspace, &Stop::never(), |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("token"), "{error}");

    let mut request = ApplyRequest::new(workspace.plan_path());
    request.variables = vec![variable("token", "s3cret-token")];
    terraform.apply(&dirs(&workspace), &request, &Stop::never(), &mut |_| {}).await.unwrap();
    assert!(workspace.read_state().unwrap().unwrap().contains(r#"a=b \"c\""#));
    assert!(!format!("{error:?} {request:?} {terraform:?}").contains("s3cret"));
}

#[tokio::test]
async fn a_checkpoint_can_read_the_state_at_every_finished_resource() {
    let lab = Lab::new(&[("main.tf", "resource \"terraform_data\" \"x\" {\n  count = 12\n}\n")]);
    let terraform = lab.terraform().await;
    let workspace = lab.workspace("", "default");
    init(&terraform, &workspace).await;
    plan(&terraform, &workspace).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (path, record) = (workspace.state_path(), Arc::clone(&seen));
    apply(&terraform, &workspace, &Stop::never(), move |event| {
        if let UiEvent::ApplyComplete { .. } = event {
            let state = kl_runner::workspace::read_settled(&path).unwrap();
            record.lock().unwrap().push(state.is_some());
        }
    })
    .await
    .unwrap();
    assert_eq!(seen.lock().unwrap().len(), 12);
    assert!(Path::new(&workspace.state_path()).exists());
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
