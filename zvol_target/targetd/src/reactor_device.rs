// SPDX-License-Identifier: Apache-2.0
//! A SCSI device that starts the I/O engine of a reactor thread at its first use there.
//!
//! The reactor threads belong to `iscsi`, which knows nothing of volumes; `volume` knows nothing of reactors. The creation of a
//! nexus is the first event on a reactor that concerns both.

use std::cell::Cell;
use std::sync::Arc;

use scsi::Device;
use scsi::sam::{
    Command, DataOut, FunctionResponse, LocalBoxFuture, Nexus, Outcome, ScsiTarget,
    TaskManagementFunction,
};
use volume::engine::{self, EngineChoice};

thread_local! {
    static STARTED: Cell<bool> = const { Cell::new(false) };
}

/// A [`Device`] that prepares its threads.
pub struct ReactorDevice {
    device: Arc<Device>,
    engine: EngineChoice,
}

impl ReactorDevice {
    /// Each reactor thread starts `engine`.
    pub fn new(device: Device, engine: EngineChoice) -> Self {
        Self {
            device: Arc::new(device),
            engine,
        }
    }

    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl ScsiTarget for ReactorDevice {
    fn nexus_established(&self, nexus: &Arc<Nexus>) {
        if !STARTED.replace(true) {
            match engine::start(self.engine) {
                Ok(kind) => tracing::debug!(?kind, "reactor's I/O engine"),
                // The volumes use the thread pool then.
                Err(error) => {
                    tracing::warn!(%error, "cannot start the I/O engine of a reactor; the thread pool is used");
                }
            }
        }
        self.device.nexus_established(nexus);
    }

    fn nexus_lost(&self, nexus: &Arc<Nexus>) {
        self.device.nexus_lost(nexus);
    }

    fn execute_command(
        self: Arc<Self>,
        nexus: Arc<Nexus>,
        command: Command,
        data_out: Box<dyn DataOut>,
    ) -> LocalBoxFuture<'static, Outcome> {
        Arc::clone(&self.device).execute_command(nexus, command, data_out)
    }

    fn manage_tasks(
        self: Arc<Self>,
        nexus: Arc<Nexus>,
        function: TaskManagementFunction,
    ) -> LocalBoxFuture<'static, FunctionResponse> {
        Arc::clone(&self.device).manage_tasks(nexus, function)
    }
}
