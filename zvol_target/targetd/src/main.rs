// SPDX-License-Identifier: Apache-2.0
//! `zvaai-target`

use std::process::ExitCode;

use clap::Parser;
use targetd::command_line::{CallOptions, Command, CommandLine, ServeOptions};
use targetd::daemon::DaemonError;
use targetd::{control, daemon, logs};

/// Exit status for an invalid configuration (sysexits(3)): a service manager must not restart the daemon.
const EX_CONFIG: u8 = 78;

fn main() -> ExitCode {
    let result = match CommandLine::parse().command {
        Command::Serve(options) => serve(&options),
        Command::Call(options) => call(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("zvaai-target: {error}");
            let daemon_error = error.downcast_ref::<DaemonError>();
            if daemon_error.is_some_and(DaemonError::is_refused_configuration) {
                EX_CONFIG.into()
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn serve(options: &ServeOptions) -> Result<(), Box<dyn std::error::Error>> {
    logs::start(&options.log)?;
    Ok(daemon::serve(options)?)
}

fn call(options: &CallOptions) -> Result<(), Box<dyn std::error::Error>> {
    let params = match options.params.as_str() {
        "-" => std::io::read_to_string(std::io::stdin())?,
        text => text.to_owned(),
    };
    let params =
        serde_json::from_str(&params).map_err(|error| format!("the parameters: {error}"))?;
    let result = control::client::call(&options.control, &options.method, &params)?;
    println!("{result:#}");
    Ok(())
}
