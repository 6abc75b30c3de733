# SPDX-License-Identifier: Apache-2.0
"""Assembles a worker: the only module that imports all parts."""

from appliance.config import Configuration
from appliance.database.store import Store
from appliance.dataplane.target_socket import TargetSocket
from appliance.dataplane.vaai_nas import VaaiNas
from appliance.domain.secrets import Seal
from appliance.helper.client import connect
from appliance.worker.context import Context
from appliance.worker.exports import ExportsByHelper
from appliance.worker.reconciling import Reconciling
from appliance.worker.recovery import Recovery


def complete(context: Context) -> Context:
    context.reconciling = Reconciling(context)
    context.recovery = Recovery(context)
    return context


def configured(configuration: Configuration) -> Context:
    """A context with the database, helper, target and NFS server of the configuration. Does not wait for any of them."""
    helper = connect(configuration.storage.helper)
    return complete(
        Context(
            configuration=configuration,
            store=Store(configuration.database),
            engine=helper,
            keys=helper,
            folders=helper,
            copies=helper,
            target=TargetSocket(configuration.target.control),
            nfs=ExportsByHelper(configuration.nfs.exports, configuration.nfs.bus, helper),
            files=VaaiNas(configuration.nfs.statistics),
            seal=Seal(configuration.secrets_key),
            shut_down=helper.shut_down,
        )
    )
