# SPDX-License-Identifier: Apache-2.0
"""`python3 -m simulators.worker`: the product's worker on simulated storage."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from appliance.config import Configuration
from appliance.dataplane.ganesha import ExportControl
from appliance.dataplane.ganesha_dbus import Ganesha
from appliance.dataplane.target_socket import TargetSocket
from appliance.dataplane.vaai_nas import VaaiNas
from appliance.helper.client import connect
from appliance.worker.__main__ import main
from appliance.worker.context import Context
from simulators.ganesha import GaneshaSimulator
from simulators.storage import assembled, in_folder, simulator
from simulators.target import TargetSimulator
from simulators.vaai_nas import VaaiNasSimulator


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--helper", action="store_true", help="storage is behind simulators.helper, as in the field")
    parser.add_argument("--volumes", type=Path, metavar="DIRECTORY", help="volumes are sparse files here, for a real target")
    parser.add_argument("--target", action="store_true", help="the target is simulated too")
    parser.add_argument("--vaai-nas", type=Path, metavar="FILE", help="the NFS server is real; its block VAAI_NAS")
    return parser.parse_args()


def _make(configuration: Configuration) -> Context:
    options, nfs = _options(), configuration.nfs
    helper = connect(configuration.storage.helper) if options.helper else None
    target: TargetSocket = TargetSimulator() if options.target else TargetSocket(configuration.target.control)
    exports: ExportControl = GaneshaSimulator()
    files: VaaiNas = VaaiNasSimulator(served=exports.served)
    if options.vaai_nas:
        exports, files = Ganesha(nfs.exports, nfs.bus, options.vaai_nas), VaaiNas(nfs.statistics)
    elif options.volumes:
        files = VaaiNasSimulator(
            folder=lambda export: next((Path(served.path) for served in exports.served() if served.export_id == export), None),
            served=exports.served,
        )
    engine = helper or simulator(configuration.state_directory / "simulator.json")
    context = assembled(configuration, engine, target, exports, files)
    if options.volumes:
        in_folder(context, options.volumes)
    return context


if __name__ == "__main__":
    sys.exit(main(_make))
