# SPDX-License-Identifier: Apache-2.0
"""HTTP API: resources, schemas, roles. No logic: it calls the domain, the database and the worker."""
