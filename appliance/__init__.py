# SPDX-License-Identifier: Apache-2.0
"""What rules over the data planes: see README.md."""

__version__ = "0.1.0"
