# SPDX-License-Identifier: Apache-2.0
"""The command `zvaai`: the API by noun and verb."""
