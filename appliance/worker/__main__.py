# SPDX-License-Identifier: Apache-2.0
"""`python3 -m appliance.worker`: runs until SIGTERM or SIGINT."""

from __future__ import annotations

import fcntl
import logging
import signal
import sys
import threading
from collections.abc import Callable

from appliance import config
from appliance.api.operation import forget_unfinished
from appliance.api.resources import RESOURCES
from appliance.config import Configuration
from appliance.database.store import Store
from appliance.dataplane.ganesha import ExportControl, Ganesha
from appliance.dataplane.ganesha_simulator import GaneshaSimulator
from appliance.dataplane.target import TargetControl, TargetSocket
from appliance.dataplane.target_simulator import TargetSimulator
from appliance.domain import access
from appliance.domain.secrets import Seal
from appliance.domain.webhooks import seal_urls
from appliance.helper.client import connect
from appliance.logs import to_files, to_standard_error
from appliance.notify.sender import Sender
from appliance.worker import simulated
from appliance.worker.context import Context
from appliance.worker.exports import ExportsByHelper
from appliance.worker.nfs_serving import MOUNTS
from appliance.worker.server import WorkerServer, user_of
from appliance.worker.service import Service
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.model import Volume
from appliance.zfs.mountinfo import topmost

_log = logging.getLogger(__name__)


def engine_of(configuration: Configuration) -> tuple[ZfsEngine, Callable[[Volume], str]]:
    """The configured one, and where its volumes are opened."""
    storage = configuration.storage
    if storage.engine == "helper":
        return connect(storage.helper), lambda volume: volume.device
    own = storage.engine == "simulator"
    simulator = simulated.engine(configuration.state_directory) if own else connect(storage.helper)
    return simulator, simulated.devices(storage.simulator_directory)


def target_of(configuration: Configuration) -> TargetControl:
    """The configured one."""
    return TargetSimulator() if configuration.target.simulated else TargetSocket(configuration.target.control)


def nfs_of(configuration: Configuration) -> ExportControl:
    """The configured one."""
    nfs = configuration.nfs
    if nfs.simulated:
        return GaneshaSimulator()
    if configuration.storage.engine == "simulator":  # there is no helper
        return Ganesha(nfs.exports, nfs.bus, nfs.vaai_nas)
    return ExportsByHelper(Ganesha(nfs.exports, nfs.bus), connect(configuration.storage.helper))


def _prepare(context: Context) -> None:
    """What requests of the API need before the first of them."""
    forget_unfinished(context.store)
    with context.store.session() as session:
        seal_urls(session, context.seal)
        code = access.prepare_setup(session, context.configuration.setup_code)
    if code is not None:
        print(f"zvaai: the one-time code to make the first admin with: {code}", file=sys.stderr, flush=True)


def main() -> int:
    """Exit code 78 (EX_CONFIG) for a configuration that can't be used, 75 (EX_TEMPFAIL) while another worker runs."""
    to_standard_error()
    try:
        configuration = config.load()
    except config.ConfigurationError as error:
        _log.error("%s", error)
        return 78
    configuration.state_directory.mkdir(parents=True, exist_ok=True)
    to_files(configuration.log_directory, "worker")
    with (configuration.state_directory / "worker.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _log.error("another worker has %s", configuration.state_directory)
            return 75
        engine, device = engine_of(configuration)
        storage = configuration.storage
        folders = storage.simulator_directory if storage.engine != "helper" else None
        seal = Seal(configuration.secrets_key)
        context = Context(
            configuration=configuration,
            store=Store(configuration.database),
            engine=engine,
            device=device,
            target=target_of(configuration),
            nfs=nfs_of(configuration),
            path=simulated.paths(folders),
            mounts=str(folders or MOUNTS),
            topmost=topmost if storage.engine == "helper" else None,
            on_files=storage.engine != "helper",
            folder=simulated.folders(folders),
            seal=seal,
        )
        service = Service(context)
        server = WorkerServer(configuration.worker_socket, service, user_of(configuration.http.user))
        sender = Sender(context.store, seal, configuration.webhooks.trusted_networks)
        stopping = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopping.set())
        threading.Thread(target=server.serve_forever, name="socket", daemon=True).start()
        _prepare(context)
        service.start()
        sender.start()
        _log.info("ready at %s, with %d resources of the API", configuration.worker_socket, len(RESOURCES))
        stopping.wait()
        server.shutdown()
        server.server_close()
        sender.stop()
        service.stop()
        context.store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
