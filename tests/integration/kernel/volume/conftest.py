"""Fixtures of the volume tests on zvols: those of zvol_clone's."""

from integration.kernel.zvol_clone.conftest import device, module_file, other_pool, tell, volume, zfs_parameter

__all__ = ["device", "module_file", "other_pool", "tell", "volume", "zfs_parameter"]
