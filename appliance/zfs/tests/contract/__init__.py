# SPDX-License-Identifier: Apache-2.0
"""Contract of every ZfsEngine: the same tests on the simulator, on the kernel's OpenZFS, and through the root helper."""
