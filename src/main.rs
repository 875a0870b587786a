//! Start-up of `kl`: arguments, logging, signals; then [`kl_runner::cli::run`].

use clap::Parser as _;
use clap::error::ErrorKind;
use kl_runner::cli::args::{Cli, Command};
use kl_runner::cli::env::EnvSnapshot;
use kl_runner::exit::Exit;
use kl_runner::signals::Hangup;
use kl_runner::{cli, signals, telemetry};

fn main() -> Exit {
    let env = EnvSnapshot::take();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe is no reason to fail; clap's own exit code 2 would mean a reservation conflict.
            drop(error.print());
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Done,
                _ => Exit::Usage,
            };
        }
    };
    telemetry::start(&cli, &env);
    kl_runner::forge::install_tls_provider();
    // On one core, too, a thread that waits for a slow terminal must not keep the lease from being renewed.
    let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "the runtime cannot be started");
            return Exit::Failed;
        }
    };
    let exit = runtime.block_on(async {
        // The server reads its certificate again on a hang-up.
        let serves = matches!(cli.command, Command::Serve(_));
        let signals = signals::listen(if serves { Hangup::IsItsOwn } else { Hangup::Stops });
        Box::pin(cli::run(cli, env, signals)).await
    });
    // A thread that still waits for standard input would otherwise hold up the end.
    runtime.shutdown_background();
    exit
}
