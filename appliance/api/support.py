# SPDX-License-Identifier: Apache-2.0
"""Support bundles. For admins only: they contain no secrets, but all other data."""

from appliance.api.operation import Call, Resource
from appliance.api.pages import page
from appliance.api.schemas.common import EmptyResponse, ListQuery, Page
from appliance.api.schemas.journal import JobResponse
from appliance.api.wire import Response
from appliance.domain import requests, support
from appliance.domain.access import Role

resource = Resource("support")


@resource.operation("GET", "/support-bundles", role=Role.ADMIN)
def list_bundles(call: Call, query: ListQuery) -> Page[support.BundleResponse]:
    """Support bundles; the newest five are stored."""
    bundles = sorted(support.bundles(call.context.configuration.support_directory), key=lambda bundle: bundle.id)
    return page(support.BundleResponse, bundles, query, lambda bundle: bundle.id)


@resource.operation("POST", "/support-bundles", role=Role.ADMIN, audit="support.create", status=202)
def create_bundle(call: Call) -> JobResponse:
    """A job that makes one; its result has the identifier."""
    return call.submit(requests.CreateBundle())


@resource.operation("GET", "/support-bundles/<bundle_id>", role=Role.ADMIN, media="application/gzip")
def read_bundle(call: Call, bundle_id: str) -> Response:
    """The file, tar and gzip."""
    file = support.existing(call.context.configuration.support_directory, bundle_id)
    return Response(file, "application/gzip", download_name=f"zvaai-support-{bundle_id[:8]}.tar.gz")


@resource.operation("DELETE", "/support-bundles/<bundle_id>", role=Role.ADMIN, audit="support.delete")
def delete_bundle(call: Call, bundle_id: str) -> EmptyResponse:
    """Removes the file."""
    support.existing(call.context.configuration.support_directory, bundle_id).unlink(missing_ok=True)
    return EmptyResponse()
