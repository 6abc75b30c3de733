// SPDX-License-Identifier: Apache-2.0
//! Periodic maintenance: retries paths that failed, and detects paths that disappeared or changed their size.

use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use scsi::LogicalUnit;
use tokio::task::JoinHandle;
use volume::{Geometry, VolumeError};

use super::running::{Running, failed, open_apart};
use super::{LunState, Service, Shared, Unusable};
use crate::configuration::Lun;
use crate::reservations::Beginning;

/// How long a caller waits for the open of a failed path.
const RETRY_PATIENCE: Duration = Duration::from_secs(5);

/// How long the other checks wait for slow size checks.
const REFRESH_PATIENCE: Duration = Duration::from_secs(1);

/// Number of parallel size checks.
const REFRESHES_AT_ONCE: usize = 16;

/// Poll interval while another check of the same size runs.
const REFRESH_POLL: Duration = Duration::from_millis(10);

/// Begins to retry every failed logical unit that is not being retried already. A path that does not answer delays no other path.
pub fn retry_failed(service: &Shared) {
    let failed: Vec<_> = {
        let service = service.borrow();
        let running = service.running.iter();
        running
            .flat_map(|(target, running)| {
                let luns = running.luns.iter();
                luns.filter(|(_, lun)| matches!(lun.state, LunState::Failed { .. }))
                    .map(|(&number, _)| (target.clone(), number))
            })
            .collect()
    };
    for (target, number) in failed {
        begin_retry(service, &target, number);
    }
}

/// Retries a failed logical unit. Returns after the attempt, at most after [`RETRY_PATIENCE`]. Returns false if the system is still
/// opening the path: it is not tried again.
pub(super) async fn retry_lun(service: &Shared, target: &str, number: u16) -> bool {
    match begin_retry(service, target, number) {
        Retry::Begun(attempt) => {
            let _ = tokio::time::timeout(RETRY_PATIENCE, attempt).await;
            true
        }
        Retry::Needless => true,
        Retry::Running => false,
    }
}

enum Retry {
    /// If dropped, the attempt still completes.
    Begun(JoinHandle<()>),
    /// The unit has not failed.
    Needless,
    /// The system is still opening the path.
    Running,
}

fn begin_retry(service: &Shared, target: &str, number: u16) -> Retry {
    let lun = {
        let mut service = service.borrow_mut();
        let Ok(lun) = service.lun(target, number).cloned() else {
            return Retry::Needless;
        };
        let Ok(running) = service.running_target(target) else {
            return Retry::Needless;
        };
        let state = running.luns.get(&number).map(|lun| &lun.state);
        if !matches!(state, Some(LunState::Failed { .. })) {
            return Retry::Needless;
        }
        if !running.opening.insert(number) {
            return Retry::Running;
        }
        lun
    };
    let attempt = attempt(Rc::clone(service), target.to_owned(), lun);
    Retry::Begun(tokio::task::spawn_local(attempt))
}

/// Like [`retry_lun`] after a known change of the path: waits for an attempt that began before.
pub(super) async fn retry_changed_lun(service: &Shared, target: &str, number: u16) {
    let until = Instant::now() + RETRY_PATIENCE;
    while !retry_lun(service, target, number).await && Instant::now() < until {
        tokio::time::sleep(REFRESH_POLL).await;
    }
}

async fn attempt(service: Shared, target: String, lun: Lun) {
    let number = lun.number;
    let reservations = |service: &mut Service| {
        let running = service.running_target(&target).ok()?;
        running.luns.get(&number)?.unit.persistent_reservations()
    };
    let before = reservations(&mut service.borrow_mut());
    let opened = open_apart(&lun, Instant::now(), Beginning::Present).await;
    let mut service = service.borrow_mut();
    // If a command that began before the failure stored others meanwhile, the file can have been read before that.
    let is_outdated = reservations(&mut service) != before;
    // It can have been changed or deleted during the attempt.
    let is_current = service.lun(&target, number).is_ok_and(|now| *now == lun);
    let Ok(running) = service.running_target(&target) else {
        return;
    };
    running.opening.remove(&number);
    let present = running.luns.get_mut(&number).map(|lun| &mut lun.state);
    let Some(LunState::Failed { reason }) = present else {
        return;
    };
    match opened {
        _ if !is_current || is_outdated => {}
        Ok(opened) => match running.replace(number, opened.into()) {
            Ok(_) => {
                tracing::info!(target, number, path = %lun.path.display(), "LUN is served again");
                service.units_changed.notify_one();
            }
            Err(error) => tracing::error!(target, number, %error, "LUN is not ready"),
        },
        Err(error) => *reason = error,
    }
}

/// Checks the sizes of the served units. Reports a new size to hosts; a unit without a size has failed. A path that does not
/// answer delays no other path.
pub async fn poll_sizes(service: &Shared) {
    let serving: Vec<_> = {
        let service = service.borrow();
        let running = service.running.iter();
        let luns = running.flat_map(|(target, running)| {
            let luns = running.luns.iter();
            luns.map(move |(&number, lun)| (target.clone(), number, lun))
        });
        luns.filter(|(_, _, lun)| matches!(lun.state, LunState::Serving { .. }))
            .map(|(target, number, lun)| (target, number, Arc::downgrade(&lun.unit)))
            .collect()
    };
    for some in serving.chunks(REFRESHES_AT_ONCE) {
        let refreshes = some.iter().map(|(target, number, unit)| {
            let service = Rc::clone(service);
            let (target, number, unit) = (target.clone(), *number, Weak::clone(unit));
            tokio::task::spawn_local(async move {
                if let Some(geometry) = refresh(&service, &target, number, &unit).await {
                    apply_size(&mut service.borrow_mut(), &target, number, &unit, geometry);
                }
            })
        });
        let refreshes: Vec<_> = refreshes.collect();
        let until = tokio::time::Instant::now() + REFRESH_PATIENCE;
        for refresh in refreshes {
            // If dropped, the check still completes.
            let _ = tokio::time::timeout_at(until, refresh).await;
        }
    }
}

/// Checks a size within `patience`. `None` if the system did not answer in time, or the unit no longer exists.
pub(super) async fn refresh_within(
    service: &Shared,
    target: &str,
    number: u16,
    unit: &Weak<LogicalUnit>,
    patience: Duration,
) -> Option<Result<Geometry, VolumeError>> {
    let until = tokio::time::Instant::now() + patience;
    while unit.strong_count() > 0 {
        let attempt = {
            let (service, target, unit) = (Rc::clone(service), target.to_owned(), unit.clone());
            tokio::task::spawn_local(async move { refresh(&service, &target, number, &unit).await })
        };
        match tokio::time::timeout_at(until, attempt).await {
            Ok(Ok(Some(geometry))) => return Some(geometry),
            Ok(Ok(None)) if tokio::time::Instant::now() < until => {
                // The periodic check runs at this moment.
                tokio::time::sleep(REFRESH_POLL).await;
            }
            _ => return None,
        }
    }
    None
}

/// Checks a size on a separate thread, as a file system can be slow. `None` if a check runs already.
async fn refresh(
    service: &Shared,
    target: &str,
    number: u16,
    unit: &Weak<LogicalUnit>,
) -> Option<Result<Geometry, VolumeError>> {
    let is_refreshing = |running: &mut Running| {
        let refreshing = running.refreshing.get(&number);
        refreshing.is_some_and(|present| present.ptr_eq(unit))
    };
    let volume = {
        let mut service = service.borrow_mut();
        let running = service.running_target(target).ok()?;
        if is_refreshing(running) {
            return None;
        }
        let volume = Arc::clone(unit.upgrade()?.volume());
        running.refreshing.insert(number, Weak::clone(unit));
        volume
    };
    let geometry = tokio::task::spawn_blocking(move || volume.refresh()).await;
    if let Ok(running) = service.borrow_mut().running_target(target) {
        if is_refreshing(running) {
            running.refreshing.remove(&number);
        }
    }
    geometry.ok()
}

fn apply_size(
    service: &mut Service,
    target: &str,
    number: u16,
    unit: &Weak<LogicalUnit>,
    geometry: Result<Geometry, VolumeError>,
) {
    let Ok(lun) = service.lun(target, number).cloned() else {
        return;
    };
    let Ok(running) = service.running_target(target) else {
        return;
    };
    let is_current = running
        .luns
        .get(&number)
        .is_some_and(|lun| std::ptr::eq(Arc::as_ptr(&lun.unit), unit.as_ptr()));
    if !is_current {
        return;
    }
    let reason = match geometry {
        Ok(Geometry { size_bytes: 0, .. }) => "its size is 0".to_owned(),
        Ok(_) => {
            let _ = running.device.device().capacity_changed(number);
            return;
        }
        Err(error) => error.to_string(),
    };
    let reason = Unusable::Gone {
        path: lun.path.display().to_string(),
        reason,
    };
    tracing::error!(target, number, %reason, "LUN is not ready");
    let replaced = failed(&lun, reason).and_then(|lun| running.replace(number, lun));
    if let Err(error) = replaced {
        tracing::error!(target, number, %error, "LUN");
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::RefCell;
    use std::fs::File;
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, mpsc};

    use iscsi::{Portal, Server, ServerOptions};
    use scsi::sam::LocalBoxFuture;
    use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
    use volume::engine::EngineChoice;
    use volume::{Backend, Buffer, Stability, Volume};

    use super::super::Parts;
    use super::super::running::{Opened, unit_on};
    use super::*;
    use crate::configuration::ConfigurationFile;

    pub(in super::super) const IQN: &str = "iqn.2026-11.example.zvaai:test";

    /// A volume that reports its size only after the sender was dropped.
    struct Hanging {
        volume: Arc<dyn Volume>,
        refreshes: AtomicUsize,
        answers: Mutex<mpsc::Receiver<()>>,
    }

    impl Volume for Hanging {
        fn geometry(&self) -> Geometry {
            self.volume.geometry()
        }

        fn refresh(&self) -> Result<Geometry, VolumeError> {
            self.refreshes.fetch_add(1, Ordering::SeqCst);
            let _ = self.answers.lock().unwrap().recv();
            self.volume.refresh()
        }

        fn read(
            &self,
            offset: u64,
            buffer: Buffer,
        ) -> LocalBoxFuture<'_, Result<Buffer, VolumeError>> {
            self.volume.read(offset, buffer)
        }

        fn write(
            &self,
            offset: u64,
            buffer: Buffer,
            stability: Stability,
        ) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
            self.volume.write(offset, buffer, stability)
        }

        fn flush(&self) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
            self.volume.flush()
        }
    }

    pub(in super::super) fn runtime() -> LocalRuntime {
        Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .unwrap()
    }

    pub(in super::super) fn set_len(path: &Path, mebibytes: u64) {
        let file = File::options().create(true).append(true).open(path);
        file.unwrap().set_len(mebibytes << 20).unwrap();
    }

    /// A service with LUNs 0 and 1; the files have their numbers as names. The reservations of LUN 0 are in `reservations`.
    pub(in super::super) async fn service(home: &Path, reservations: Option<&Path>) -> Shared {
        let lun = |number: u16| {
            let path = home.join(number.to_string());
            let mut lun =
                serde_json::json!({"number": number, "uuid": uuid_of(number), "path": path});
            if let (0, Some(directory)) = (number, reservations) {
                lun["reservations"] = serde_json::json!(directory);
            }
            lun
        };
        let luns = [lun(0), lun(1)];
        let text = serde_json::json!({"version": 2, "targets": [{"name": IQN, "luns": luns}]});
        let path = home.join("target.json");
        std::fs::write(&path, text.to_string()).unwrap();
        let (file, configuration, vault) = ConfigurationFile::open(&path).unwrap();
        let parts = Parts {
            file,
            configuration,
            vault,
            server: Server::new(ServerOptions::default()).unwrap(),
            listen: vec![Portal {
                address: "127.0.0.1:0".parse().unwrap(),
                group_tag: 1,
                advertised: None,
            }],
            engine: EngineChoice::ThreadPool,
        };
        Rc::new(RefCell::new(Service::start(parts).await.unwrap()))
    }

    fn uuid_of(number: u16) -> uuid::Uuid {
        uuid::Uuid::from_u128(number.into())
    }

    fn hang(service: &Shared, answers: mpsc::Receiver<()>) -> Arc<Hanging> {
        let mut service = service.borrow_mut();
        let lun = service.lun(IQN, 0).unwrap().clone();
        let volume = Arc::clone(service.running_lun(IQN, 0).unwrap().unit.volume());
        let hanging = Arc::new(Hanging {
            volume,
            refreshes: AtomicUsize::new(0),
            answers: Mutex::new(answers),
        });
        let opened = Opened {
            unit: unit_on(Arc::clone(&hanging) as Arc<dyn Volume>, &lun, None).unwrap(),
            backend: Backend::File,
        };
        let running = service.running_target(IQN).unwrap();
        running.replace(0, opened.into()).unwrap();
        hanging
    }

    #[test]
    fn a_volume_that_does_not_report_its_size_delays_no_other() {
        const PATIENCE: Duration = Duration::from_secs(20);
        let home = tempfile::tempdir().unwrap();
        runtime().block_on(async {
            set_len(&home.path().join("0"), 1);
            set_len(&home.path().join("1"), 1);
            let service = service(home.path(), None).await;
            let (sender, answers) = mpsc::channel();
            let hanging = hang(&service, answers);
            set_len(&home.path().join("1"), 2);
            let poll = async || tokio::time::timeout(PATIENCE, poll_sizes(&service)).await;
            poll().await.unwrap();
            let unit =
                |number| Arc::clone(&service.borrow().running_lun(IQN, number).unwrap().unit);
            assert_eq!(unit(1).volume().geometry().size_bytes, 2 << 20);
            // No further check begins while the system has not answered. A refresh reports that.
            poll().await.unwrap();
            let zero = Arc::downgrade(&unit(0));
            let refresh = |patience| refresh_within(&service, IQN, 0, &zero, patience);
            assert!(refresh(Duration::from_millis(50)).await.is_none());
            assert_eq!(hanging.refreshes.load(Ordering::SeqCst), 1);
            drop(sender);
            assert!(refresh(PATIENCE).await.unwrap().is_ok());
            assert!(service.borrow_mut().stop().0);
        });
    }

    #[test]
    fn a_path_that_does_not_open_delays_no_other() {
        let home = tempfile::tempdir().unwrap();
        // The open of a FIFO waits for a writer.
        let naa = u128::from_be_bytes(scsi::naa(uuid_of(0).into_bytes()));
        let fifo = home.path().join(format!("naa.{naa:032x}.json"));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).unwrap();
        runtime().block_on(async {
            let service = service(home.path(), Some(home.path())).await;
            set_len(&home.path().join("0"), 1);
            set_len(&home.path().join("1"), 1);
            let is_served = |number| {
                let service = service.borrow();
                let state = &service.running_lun(IQN, number).unwrap().state;
                matches!(state, LunState::Serving { .. })
            };
            retry_failed(&service);
            while !is_served(1) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let is_opening = service
                .borrow_mut()
                .running_target(IQN)
                .unwrap()
                .opening
                .contains(&0);
            assert!(is_opening && !is_served(0));
            drop(File::options().write(true).open(&fifo).unwrap());
            assert!(service.borrow_mut().stop().0);
        });
    }
}
