# SPDX-License-Identifier: Apache-2.0
"""What every ZfsEngine does: the same tests on the simulator, on the kernel's OpenZFS, and on either through the root helper."""
