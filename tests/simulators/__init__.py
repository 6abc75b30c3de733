# SPDX-License-Identifier: Apache-2.0
"""Simulated storage, target and NFS server for tests of the appliance: the product knows nothing of them.

`simulators.appliance` runs an appliance in the test's process. `simulators.worker` and `simulators.helper` are the product's own
programs on simulated parts.
"""
