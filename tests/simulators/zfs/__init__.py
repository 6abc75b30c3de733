# SPDX-License-Identifier: Apache-2.0
"""OpenZFS in memory: the same rules, errors and figures, for tests of UI, API and worker, and for `make bench`."""

from simulators.zfs.simulator import GIB, TIB, Simulator

__all__ = ["GIB", "TIB", "Simulator"]
