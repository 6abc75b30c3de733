# SPDX-License-Identifier: Apache-2.0
"""Support bundles. For admins only: without secrets, but with all else there is to know."""

from __future__ import annotations

from pydantic import BaseModel

from appliance.api.operation import Call, Resource, page
from appliance.api.schemas.common import Empty, ListQuery
from appliance.api.schemas.journal import JobResponse
from appliance.api.schemas.support import BundlePage
from appliance.api.wire import Response
from appliance.domain import requests, support
from appliance.domain.access import Role

resource = Resource("support")


@resource.operation("GET", "/support-bundles", role=Role.ADMIN, query=ListQuery, answer=BundlePage)
def list_bundles(call: Call, query: ListQuery) -> BaseModel:
    """Support bundles; the newest five are stored."""
    found = sorted(support.bundles(call.context.configuration.support_directory), key=lambda one: one.id)
    return BundlePage.model_validate(page(found, query, lambda one: one.id))


@resource.operation("POST", "/support-bundles", role=Role.ADMIN, audit="support.create", answer=JobResponse, status=202)
def create_bundle(call: Call) -> BaseModel:
    """A job that makes one; its result has the identifier."""
    return call.submit(requests.CreateBundle())


@resource.operation("GET", "/support-bundles/<bundle_id>", role=Role.ADMIN, answer=Empty, media="application/gzip")
def read_bundle(call: Call, bundle_id: str) -> BaseModel | Response:
    """The file, tar and gzip."""
    file = support.existing(call.context.configuration.support_directory, bundle_id)
    return Response(file, "application/gzip", download_name=f"zvaai-support-{bundle_id[:8]}.tar.gz")


@resource.operation("DELETE", "/support-bundles/<bundle_id>", role=Role.ADMIN, audit="support.delete", answer=Empty)
def delete_bundle(call: Call, bundle_id: str) -> BaseModel:
    """Removes the file."""
    support.existing(call.context.configuration.support_directory, bundle_id).unlink(missing_ok=True)
    return Empty()
