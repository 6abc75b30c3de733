# SPDX-License-Identifier: Apache-2.0
"""Support bundles."""

from __future__ import annotations

from appliance.api.types import Answer, Bytes, Time


class BundleResponse(Answer):
    """One that is there."""

    id: str
    created_at: Time
    size: Bytes


class BundlePage(Answer):
    """Support bundles, by identifier."""

    items: list[BundleResponse]
    next_cursor: str | None
