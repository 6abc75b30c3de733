# SPDX-License-Identifier: Apache-2.0
"""Tests of logins at other servers."""
