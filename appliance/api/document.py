# SPDX-License-Identifier: Apache-2.0
"""`python3 -m appliance.api.document`: prints the OpenAPI document, of which the console's types are made."""

from __future__ import annotations

from typing import cast

from appliance.api.application import create, openapi
from appliance.api.operation import Services

if __name__ == "__main__":
    # No operation is carried out, so nobody is asked.
    print(openapi(create(cast(Services, None))))
