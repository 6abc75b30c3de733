# SPDX-License-Identifier: Apache-2.0
"""What the suites share: programs, the target under test, disk images, pools of the guest, the kernel's initiator."""
