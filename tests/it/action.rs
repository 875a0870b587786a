//! action.yml: how kl is installed, what its inputs become, and the workflows in examples/github, run by act.

use std::fs;

use camino::Utf8PathBuf;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::kl::{Kl, Said};
use crate::harness::runners::{Releases, VERSION, action, archive};
use crate::harness::site::Site;

/// A program in place of kl that says how it was called.
fn recorder(site: &Site) -> Utf8PathBuf {
    let program = site.path("recorder");
    let script = "#!/bin/sh\npwd\nfor arg; do printf 'arg %s\\n' \"$arg\"; done\nenv | grep '^KL_' | sort\n";
    fs::write(&program, script).unwrap();
    executable(&program);
    program
}

fn executable(program: &Utf8PathBuf) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The step that runs kl, with these inputs and no others.
fn step(site: &Site, inputs: &[(&str, &str)]) -> Kl {
    let mut step = site
        .kl()
        .without("KL_DATABASE_URL")
        .instead("/bin/bash")
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c"])
        .arg(format!("exec {}/.github/action/run.sh", action(site)))
        .env("KL_PROGRAM", recorder(site).as_str())
        .env("KL_CHECK_RUN_ID", "")
        .env("KL_INPUT_WORKING_DIRECTORY", ".")
        .env("GITHUB_OUTPUT", site.path("output").as_str());
    for name in ["PROJECT", "DATABASE_URL", "TOKEN", "REQUEST", "WAIT", "LEASE", "TIMEOUT", "ARGS", "TERRAFORM"] {
        step = step.env(format!("KL_INPUT_{name}"), "");
    }
    inputs.iter().fold(step, |step, (name, value)| step.env(*name, *value))
}

/// What the recorder wrote down, without the directory.
fn recorded(said: &Said) -> Vec<&str> {
    said.stdout.lines().skip(1).collect()
}

#[test]
fn inputs_become_arguments_and_variables_and_no_shell_reads_them() {
    let site = Site::new();
    let said = step(
        &site,
        &[
            ("KL_INPUT_COMMAND", "apply"),
            ("KL_INPUT_PROJECT", "net work\n$(touch pwned)\r\n\n"),
            ("KL_INPUT_DATABASE_URL", "postgres://kl@db/kl?x=`id`"),
            ("KL_INPUT_TOKEN", "tok"),
            ("KL_INPUT_REQUEST", "7"),
            ("KL_INPUT_WAIT", "10m"),
            ("KL_INPUT_TIMEOUT", "1h"),
            ("KL_INPUT_ARGS", "-v\n--actor\n; touch pwned"),
            ("KL_INPUT_TERRAFORM", "/opt/tofu"),
            ("KL_CHECK_RUN_ID", "42"),
        ],
    )
    .exits(0);
    let arguments = [
        "ci",
        "apply",
        "--project",
        "net work",
        "--project",
        "$(touch pwned)",
        "--request",
        "7",
        "--wait",
        "10m",
        "--timeout",
        "1h",
        "-v",
        "--actor",
        "; touch pwned",
    ];
    let mut expected: Vec<String> = arguments.iter().map(|argument| format!("arg {argument}")).collect();
    expected.extend(
        [
            "KL_CHECK_RUN_ID=42",
            "KL_DATABASE_URL=postgres://kl@db/kl?x=`id`",
            "KL_FORGE_TOKEN=tok",
            "KL_TERRAFORM=/opt/tofu",
        ]
        .map(str::to_owned),
    );
    assert_eq!(recorded(&said), expected);
    assert!(!site.repo().join("pwned").exists());
}

#[test]
fn an_empty_input_leaves_a_variable_of_the_job_as_it_is() {
    let site = Site::new();
    let said = step(&site, &[("KL_INPUT_COMMAND", "finish"), ("KL_DATABASE_URL", "postgres://kl@db/kl")]).exits(0);
    assert_eq!(recorded(&said), ["arg ci", "arg finish", "KL_DATABASE_URL=postgres://kl@db/kl"]);
}

/// Inputs as action.yml hands them to one of its steps, where the job has given these.
fn handed_on(id: &str, given: &[(&str, &str)]) -> Vec<(String, String)> {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/action.yml")).unwrap();
    let action: serde_json::Value =
        serde_json::to_value(serde_yaml::from_str::<serde_yaml::Value>(&text).unwrap()).unwrap();
    let steps = action["runs"]["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["id"] == id).unwrap();
    let inputs = step["env"].as_object().unwrap().iter().filter(|(name, _)| name.starts_with("KL_INPUT_"));
    let value = |text: &str| {
        let Some(input) = text.strip_prefix("${{ inputs.") else { return text.to_owned() };
        let name = input.strip_suffix(" }}").unwrap();
        given.iter().find(|(given, _)| *given == name).map_or_else(String::new, |(_, value)| (*value).to_owned())
    };
    let inputs = inputs.map(|(name, text)| (name.clone(), value(text.as_str().unwrap())));
    inputs.filter(|(name, _)| name != "KL_INPUT_WORKING_DIRECTORY").collect()
}

#[test]
fn what_ends_an_apply_asks_the_database_that_the_apply_was_told() {
    let site = Site::new();
    let recorded_by = |id: &str, args: &str| -> Vec<String> {
        let inputs = handed_on(id, &[("command", "apply"), ("args", args)]);
        let inputs: Vec<(&str, &str)> = inputs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        recorded(&step(&site, &inputs).exits(0)).into_iter().map(str::to_owned).collect()
    };
    let args = "-v\r\n--database\r\n/srv/kl $(x).db\r\n--lane\nnarrow\n--actor=deploy bot\n";
    let words = ["-v", "--database", "/srv/kl $(x).db", "--lane", "narrow", "--actor=deploy bot"];
    let expected = |begin: [&str; 2], words: &[&str]| -> Vec<String> {
        begin.iter().chain(words).map(|word| format!("arg {word}")).collect()
    };
    assert_eq!(recorded_by("run", args), expected(["ci", "apply"], &words));
    // What the other words mean to an apply, they do not mean to what ends it.
    assert_eq!(recorded_by("finish", args), expected(["ci", "finish"], &[words[1], words[2], words[5]]));
    assert_eq!(recorded_by("finish", "--database=x"), expected(["ci", "finish"], &["--database=x"]));
    assert_eq!(recorded_by("finish", ""), expected(["ci", "finish"], &[]));
}

#[test]
fn a_refresh_runs_in_its_root_module() {
    let site = Site::new();
    site.write("infra/web/main.tf", "");
    let inputs = [("KL_INPUT_COMMAND", "refresh"), ("KL_INPUT_WORKING_DIRECTORY", "infra/web")];
    let said = step(&site, &inputs).exits(0);
    assert_eq!(said.stdout, format!("{}/infra/web\narg refresh\n", site.repo()));
}

#[test]
fn what_a_command_does_not_have_is_refused_with_an_annotation() {
    let site = Site::new();
    let cases = [
        (
            vec![("KL_INPUT_COMMAND", "plan"), ("KL_INPUT_WAIT", "10m")],
            "`wait` is for apply/refresh/finish, and not for `plan`",
        ),
        (vec![("KL_INPUT_COMMAND", "refresh"), ("KL_INPUT_PROJECT", "web")], "`project` is for plan, apply and check"),
        (vec![("KL_INPUT_COMMAND", "aply\n::add-mask::x")], "there is no command `aply???add-mask??x`"),
        (
            vec![("KL_INPUT_COMMAND", "plan"), ("KL_INPUT_WORKING_DIRECTORY", "nowhere")],
            "`working-directory` names no directory",
        ),
    ];
    for (inputs, expected) in cases {
        let said = step(&site, &inputs).exits(3);
        assert!(said.stdout.starts_with("::error title=kl::"), "{said:?}");
        assert!(said.stdout.contains(expected) && said.stdout.lines().count() == 1, "{said:?}");
    }
}

#[test]
fn the_projects_are_an_output_for_a_matrix() {
    let site = Site::new();
    let program = recorder_that(&site, "printf '{\\n  \"projects\": []\\n}\\n'");
    let said = step(&site, &[("KL_INPUT_COMMAND", "projects"), ("KL_PROGRAM", program.as_str())]).exits(0);
    assert_eq!(said.json()["projects"], json!([]));
    let output = fs::read_to_string(site.path("output")).unwrap();
    let lines: Vec<&str> = output.lines().collect();
    let delimiter = lines[0].strip_prefix("projects<<").unwrap();
    assert_eq!(lines, [&format!("projects<<{delimiter}"), "{", "  \"projects\": []", "}", delimiter]);

    let program = recorder_that(&site, "exit 3");
    drop(step(&site, &[("KL_INPUT_COMMAND", "projects"), ("KL_PROGRAM", program.as_str())]).exits(3));
}

/// A program in place of kl.
fn recorder_that(site: &Site, does: &str) -> Utf8PathBuf {
    let program = site.path("other-recorder");
    fs::write(&program, format!("#!/bin/sh\n{does}\n")).unwrap();
    executable(&program);
    program
}

#[test]
fn kl_takes_the_place_of_the_step_so_that_a_cancellation_reaches_it() {
    let site = Site::new();
    let program = recorder_that(
        &site,
        "trap 'echo interrupted; exit 1' INT\necho \"I am $$\"\necho ready >&2\nwhile :; do sleep 0.01; done",
    );
    let inputs = [("KL_INPUT_COMMAND", "apply"), ("KL_PROGRAM", program.as_str())];
    let mut running = step(&site, &inputs).spawn();
    running.wait_for("ready");
    let pid = running.pid();
    running.signal(Signal::SIGINT);
    assert_eq!(running.exits(1).stdout, format!("I am {pid}\ninterrupted\n"));
}

/// The step that installs kl.
fn install(site: &Site, inputs: &[(&str, &str)]) -> Kl {
    fs::remove_file(site.path("output")).ok();
    let step = site
        .kl()
        .instead(action(site).join(".github/action/install.sh").as_str())
        .env("RUNNER_TOOL_CACHE", site.path("tools").as_str())
        .env("RUNNER_TEMP", site.path("tmp").as_str())
        .env("GITHUB_OUTPUT", site.path("output").as_str());
    inputs.iter().fold(step, |step, (name, value)| step.env(*name, *value))
}

/// The program that the step above installed, asked for its version.
fn installed(site: &Site) -> String {
    let output = fs::read_to_string(site.path("output")).unwrap();
    let program = output.trim().strip_prefix("kl=").unwrap();
    site.kl().instead(program).arg("--version").exits(0).stdout
}

#[test]
fn a_release_whose_checksum_is_right_is_installed_once() {
    let site = Site::new();
    let releases = Releases::of_kl(&site);
    let inputs = [("GITHUB_SERVER_URL", releases.origin()), ("KL_ACTION_REPOSITORY", "example/kl")];
    let said = install(&site, &inputs).exits(0);
    assert!(said.stdout.contains(&format!("release {VERSION}, checksum verified")), "{said:?}");
    assert_eq!(installed(&site), format!("kl {VERSION}\n"));
    let files = [format!("/v{VERSION}/{}", archive()), format!("/v{VERSION}/SHA256SUMS")];
    assert_eq!(releases.asked(), files);
    assert_eq!(site.leftovers(), Vec::<String>::new());

    let said = install(&site, &inputs).exits(0);
    assert!(said.stdout.contains("from the tool cache"), "{said:?}");
    assert_eq!(installed(&site), format!("kl {VERSION}\n"));
    assert_eq!(releases.asked().len(), files.len());
}

#[test]
fn a_release_that_is_not_the_one_that_was_meant_is_refused() {
    let site = Site::new();
    let releases = Releases::none();
    let url = releases.url();
    let list = releases.publish(&site, "9.9.9");
    let other = "0".repeat(64);
    let right = list.split(' ').next().unwrap().to_owned();
    let given = |sum: &str| {
        let inputs = [("KL_INPUT_RELEASE_URL", url.as_str()), ("KL_INPUT_VERSION", "v9.9.9"), ("KL_INPUT_SHA256", sum)];
        install(&site, &inputs)
    };
    let refused =
        |said: Said, why: &str| assert!(said.stdout.contains(why) && !site.path("output").exists(), "{said:?}");

    refused(given("").exits(3), "SHA256SUMS cannot be read (HTTP status 404)");
    releases.put("v9.9.9/SHA256SUMS", format!("{right}  kl-of-another-platform.tar.gz\n").as_bytes());
    refused(given("").exits(3), &format!("does not list {}", archive()));
    releases.put("v9.9.9/SHA256SUMS", format!("{other}  {}\n", archive()).as_bytes());
    refused(given("").exits(3), &format!("has the SHA-256 {right}, and should have {other}"));
    releases.put("v9.9.9/SHA256SUMS", list.as_bytes());
    refused(given(&other).exits(3), &format!("should have {other}"));
    refused(given("../../x").exits(3), "a checksum in lower-case hexadecimal");
    drop(given(&right).exits(0));
    assert_eq!(installed(&site), format!("kl {VERSION}\n"));
}

#[test]
fn without_a_release_the_action_builds_its_own_source_once() {
    let site = Site::new();
    let releases = Releases::none();
    // In the place of cargo: it says how it was called, and leaves a kl where a build would.
    let cargo = site.path("bin/cargo");
    fs::create_dir_all(site.path("bin")).unwrap();
    let script = format!(
        "#!/bin/sh\necho cargo \"$@\"\nwhile [ \"$1\" != --target-dir ]; do shift; done\nmkdir -p \"$2/release\"\n\
         ln -s {} \"$2/release/kl\"\n",
        env!("CARGO_BIN_EXE_kl")
    );
    fs::write(&cargo, script).unwrap();
    executable(&cargo);
    let path = format!("{}:{}", site.path("bin"), std::env::var("PATH").unwrap());
    let inputs =
        [("GITHUB_SERVER_URL", releases.origin()), ("KL_ACTION_REPOSITORY", "example/kl"), ("PATH", path.as_str())];
    let manifest = format!("--manifest-path {}/Cargo.toml", site.path("action"));

    let said = install(&site, &inputs).exits(0);
    assert!(said.stdout.contains(&format!("there is no {} of version {VERSION}", archive())), "{said:?}");
    assert!(
        said.stdout.contains("cargo build --release --locked --bin kl") && said.stdout.contains(&manifest),
        "{said:?}"
    );
    assert_eq!(installed(&site), format!("kl {VERSION}\n"));
    assert_eq!(site.leftovers(), Vec::<String>::new());

    let inputs = [("KL_INPUT_VERSION", "source"), ("PATH", path.as_str())];
    assert!(install(&site, &inputs).exits(0).stdout.contains("from the tool cache"));
    // Other code of the same version is another program.
    let changed = install(&site, &inputs);
    fs::write(site.path("action/src/part"), "another").unwrap();
    assert!(changed.exits(0).stdout.contains("built from source"));
}

#[test]
fn a_version_that_is_neither_released_nor_the_actions_own_is_refused() {
    let site = Site::new();
    let releases = Releases::none();
    let url = releases.url();
    let said = install(&site, &[("KL_INPUT_RELEASE_URL", &url), ("KL_INPUT_VERSION", "0.0.7")]).exits(3);
    assert!(said.stdout.contains("version 0.0.7 has no release for"), "{said:?}");
    let said = install(&site, &[("KL_INPUT_RELEASE_URL", &url), ("KL_INPUT_VERSION", "$(id)")]).exits(3);
    assert!(said.stdout.contains("is a released version such as 0.1.0, or `source`"), "{said:?}");
}
