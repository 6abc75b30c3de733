# SPDX-License-Identifier: Apache-2.0
"""The root helper: a fixed list of operations on OpenZFS for a caller without privileges."""
