# SPDX-License-Identifier: Apache-2.0
"""`python3 -m appliance.worker`: the worker with the API's end of its socket. Runs until SIGTERM or SIGINT."""

import fcntl
import logging
import signal
import sys
import threading
from collections.abc import Callable

from sqlalchemy.exc import DatabaseError

from appliance import config
from appliance.api.execution import forget_unfinished
from appliance.api.resources import RESOURCES
from appliance.api.server import WorkerServer, user_of
from appliance.config import Configuration
from appliance.domain import access
from appliance.logs import to_standard_error
from appliance.notify.sender import Sender
from appliance.worker.assembly import configured
from appliance.worker.context import Context
from appliance.worker.service import Service

_log = logging.getLogger(__name__)


def _prepare(context: Context) -> None:
    forget_unfinished(context.store)
    with context.store.session() as session:
        is_new = access.prepare_setup(session, context.configuration.setup_code) is not None
    if is_new:  # without the code: more users read the log than may make an administrator
        _log.info("a one-time code for the first administrator exists; to print it, run as root: zvaai setup")


def main(make: Callable[[Configuration], Context] = configured) -> int:
    """Exit code 78 (EX_CONFIG) for a configuration or database that can't be used, 75 (EX_TEMPFAIL) while another worker runs."""
    to_standard_error()
    try:
        configuration = config.load()
    except config.ConfigurationError as error:
        _log.error("%s", error)
        return 78
    configuration.state_directory.mkdir(parents=True, exist_ok=True)
    with (configuration.state_directory / "worker.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _log.error("another worker has %s", configuration.state_directory)
            return 75
        try:
            context = make(configuration)
            _prepare(context)
        except DatabaseError as error:
            if type(error) is not DatabaseError:  # its subclasses: locked, no space, I/O error
                raise
            reason = f"The database {configuration.database} is damaged: {error.orig}. Hosts are served as before"
            _log.error("%s. Follow 'Replace a damaged database' of /usr/share/doc/zvaai/guide.md", reason)
            return 78
        service = Service(context)
        server = WorkerServer(configuration.worker_socket, service, user_of(configuration.http.user))
        sender = Sender(context.store, context.seal, configuration.alerts.trusted_networks)
        stopping = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopping.set())
        threading.Thread(target=server.serve_forever, name="socket", daemon=True).start()
        service.start()
        sender.start()
        _log.info("ready at %s, with %d resources of the API", configuration.worker_socket, len(RESOURCES))
        while not stopping.wait(1):  # while a tracer stops this thread, another one gets the signal, and no wait ends
            pass
        server.shutdown()
        server.server_close()
        sender.stop()
        service.stop()
        context.store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
