# SPDX-License-Identifier: Apache-2.0
"""The kernel's OpenZFS: pyzfs for atomic steps, zfs and zpool -j for reading. Root only."""

from appliance.zfs.kernel.pools import KernelEngine

__all__ = ["KernelEngine"]
