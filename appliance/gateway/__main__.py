# SPDX-License-Identifier: Apache-2.0
"""`python3 -m appliance.gateway`: gunicorn with threads on a Unix socket, behind nginx. Runs until SIGTERM."""

import logging
import sys
from typing import Any

from gunicorn.app.base import BaseApplication
from werkzeug.middleware.proxy_fix import ProxyFix

from appliance import config
from appliance.config import Configuration
from appliance.gateway.application import create
from appliance.gateway.client import WorkerClient
from appliance.logs import to_standard_error

_log = logging.getLogger(__name__)


class _Server(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    def __init__(self, settings: dict[str, Any], configuration: Configuration) -> None:
        self._settings = settings
        self._configuration = configuration
        super().__init__()

    def load_config(self) -> None:
        """Nothing from files or the environment."""
        for name, value in self._settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        application = create(WorkerClient(self._configuration.worker_socket))
        # Only nginx and root reach the socket, and nginx overwrites X-Forwarded-For.
        application.wsgi_app = ProxyFix(application.wsgi_app, x_for=1, x_proto=1)  # type: ignore[method-assign]
        return application


def main() -> int:
    """Exit code 78 (EX_CONFIG) for a configuration that can't be used."""
    to_standard_error()
    try:
        configuration = config.load()
    except config.ConfigurationError as error:
        _log.error("%s", error)
        return 78
    configuration.http.socket.parent.mkdir(parents=True, exist_ok=True)
    settings = {
        "bind": f"unix:{configuration.http.socket}",
        "umask": 0o111,  # the folder's mode decides who can connect
        "worker_class": "gthread",
        "workers": 1,
        "threads": configuration.http.threads,
        "timeout": 120,
        "graceful_timeout": 5,
        "limit_request_line": 8190,
        "limit_request_fields": 64,
        "limit_request_field_size": 8190,
        "proc_name": "zvaai-api",
    }
    _Server(settings, configuration).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
