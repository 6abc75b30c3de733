# SPDX-License-Identifier: Apache-2.0
"""OpenZFS behind one interface: ZfsEngine, its values and its errors."""
