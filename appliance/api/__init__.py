# SPDX-License-Identifier: Apache-2.0
"""HTTP: resources, schemas, who may what. No logic: it calls the domain, the database and the worker."""
