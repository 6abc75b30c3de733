# SPDX-License-Identifier: Apache-2.0
"""Runs the suites of the project side by side: see __main__.py."""
