# SPDX-License-Identifier: Apache-2.0
"""Support bundles."""

from appliance.api.types import Answer, Bytes, Time


class BundleResponse(Answer):
    """One that is there."""

    id: str
    created_at: Time
    size: Bytes
