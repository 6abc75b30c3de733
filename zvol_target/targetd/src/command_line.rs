// SPDX-License-Identifier: Apache-2.0
//! The command line.

use std::net::{AddrParseError, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, Subcommand, ValueEnum};
use volume::engine::EngineChoice;

use crate::control::AllowedUser;

/// `zvaai-target`
#[derive(Debug, Parser)]
#[command(
    name = "zvaai-target",
    version,
    about = "iSCSI target on zvols and files"
)]
pub struct CommandLine {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve until SIGTERM or SIGINT.
    Serve(ServeOptions),
    /// Call one method of a running daemon and print its result. The methods are in docs/control.md.
    Call(CallOptions),
}

/// Options of `serve`.
#[derive(Debug, clap::Args)]
pub struct ServeOptions {
    /// Configuration file, created if it does not exist. The key for CHAP secrets is next to it, with ".key" behind its name.
    #[arg(long)]
    pub config: PathBuf,
    /// Path of the control socket.
    #[arg(long)]
    pub control: PathBuf,
    /// User, by name or number, who may call all methods over the control socket, like root and the daemon's user. Can be
    /// repeated.
    #[arg(long, value_name = "USER")]
    pub allow_user: Vec<AllowedUser>,
    /// Listen here instead of at the configuration's portals; with port 0 the system chooses. After "=": the address that
    /// discovery reports instead, behind address translation. Can be repeated.
    #[arg(long, value_name = "ADDRESS:PORT[=ADDRESS:PORT]")]
    pub listen: Vec<Listen>,
    /// Reactor threads [default: one for each CPU].
    #[arg(long)]
    pub reactors: Option<NonZeroUsize>,
    /// How to read and write blocks.
    #[arg(long, value_enum, default_value_t = Engine::Auto)]
    pub engine: Engine,
    /// Log level, or directives such as `info,iscsi=debug`.
    #[arg(long, default_value = "info")]
    pub log: String,
}

/// Value of `--listen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Address to listen at.
    pub address: SocketAddr,
    /// Address that discovery reports instead.
    pub advertised: Option<SocketAddr>,
}

impl FromStr for Listen {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, advertised) = match text.split_once('=') {
            Some((address, advertised)) => (address, Some(advertised.parse()?)),
            None => (text, None),
        };
        Ok(Self {
            address: address.parse()?,
            advertised,
        })
    }
}

/// Options of `call`.
#[derive(Debug, clap::Args)]
pub struct CallOptions {
    /// Path of the control socket.
    #[arg(long)]
    pub control: PathBuf,
    /// Name of the method, such as `targets.list`.
    pub method: String,
    /// Parameters as a JSON object; `-` reads them from standard input, so that no process list shows a secret.
    #[arg(default_value = "{}")]
    pub params: String,
}

/// [`EngineChoice`] by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// `io_uring` if the kernel permits it, else threads.
    Auto,
    /// `io_uring`, or fail.
    Uring,
    /// A pool of threads.
    Threads,
}

impl From<Engine> for EngineChoice {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Auto => Self::Automatic,
            Engine::Uring => Self::Uring,
            Engine::Threads => Self::ThreadPool,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn listen_takes_one_address_or_two() {
        let here = "0.0.0.0:3260".parse().unwrap();
        let advertised = "[2001:db8::1]:4000".parse().unwrap();
        let listen = |text: &str| text.parse::<Listen>();
        assert_eq!(
            listen("0.0.0.0:3260"),
            Ok(Listen {
                address: here,
                advertised: None
            })
        );
        assert_eq!(
            listen("0.0.0.0:3260=[2001:db8::1]:4000"),
            Ok(Listen {
                address: here,
                advertised: Some(advertised)
            })
        );
        for wrong in [
            "",
            "=",
            "0.0.0.0:3260=",
            "=0.0.0.0:3260",
            "0.0.0.0",
            "a=b=c",
        ] {
            assert!(listen(wrong).is_err(), "{wrong:?}");
        }
    }
}
