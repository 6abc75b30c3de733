# SPDX-License-Identifier: Apache-2.0
"""Shared by the suites: programs, the target under test, disk images, pools of the guest, the kernel's initiator."""
