# SPDX-License-Identifier: Apache-2.0
"""The control plane of zvaai: see README.md."""

__version__ = "0.1.0"
