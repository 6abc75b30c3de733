# SPDX-License-Identifier: Apache-2.0
"""What the API takes and gives: a module for each resource."""
