# SPDX-License-Identifier: Apache-2.0
"""Puts the parts of a worker together: the one module that knows all of them."""

from __future__ import annotations

from typing import Any

from appliance.config import Configuration
from appliance.database.store import Store
from appliance.dataplane.ganesha import ExportControl
from appliance.dataplane.target import TargetControl
from appliance.domain.secrets import Seal
from appliance.worker.context import Context
from appliance.worker.reconciling import Reconciling
from appliance.worker.recovery import Recovery
from appliance.zfs.configuration_copies import ConfigurationCopies, FolderCopies
from appliance.zfs.engine import ZfsEngine


def assemble(
    configuration: Configuration,
    store: Store,
    engine: ZfsEngine,
    target: TargetControl,
    nfs: ExportControl,
    seal: Seal,
    **simulated: Any,
) -> Context:
    """A context with its reconciler. `simulated`: further fields of Context, where storage is simulated."""
    context = Context(configuration, store, engine, target, nfs, seal, **simulated)
    copies = engine if isinstance(engine, ConfigurationCopies) else FolderCopies(configuration.state_directory / "copies")
    context.reconciling = Reconciling(context)
    context.recovery = Recovery(context, copies)
    return context
