# SPDX-License-Identifier: Apache-2.0
"""`python3 -m appliance.gateway.document`: prints the OpenAPI document, of which the console's types are made."""

from typing import cast

from appliance.gateway.application import create, openapi
from appliance.gateway.forward import Worker

if __name__ == "__main__":
    # No operation is carried out, so there is no worker.
    print(openapi(create(cast(Worker, None))))
