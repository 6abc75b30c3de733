# SPDX-License-Identifier: Apache-2.0
"""Requests and responses of the API: a module for each resource."""
