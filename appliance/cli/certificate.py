# SPDX-License-Identifier: Apache-2.0
"""The TLS certificate of the appliance."""

import re
from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.client import INVALID, CommandError, keep_settings, stored_settings
from appliance.cli.shared import Run, noun

# The server's own certificate: a login must not trust all that its issuers sign.
_FIRST = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)
certificate = noun("certificate", "Show or replace the TLS certificate.")


@certificate.command("show")
def show(run: Run) -> None:
    """Show names, dates and fingerprint of the certificate."""
    run.output.fields(run.client.call("GET", "/certificate"))


@certificate.command("upload", "chain.pem key.pem")
def upload(
    run: Run,
    chain: Annotated[Path, typer.Argument(help="File (PEM) with the server's certificate, then its issuers.")],
    key: Annotated[Path, typer.Argument(help="File (PEM) with its private key, without a passphrase.")],
) -> None:
    """Replace the certificate by one of an authority. This login trusts the new one too."""
    try:
        body = {"certificate": chain.read_text(), "private_key": key.read_text()}
    except UnicodeDecodeError as error:
        raise CommandError(f"{chain} or {key} is not PEM: openssl x509 -inform DER converts it", INVALID) from error
    run.output.fields(run.client.call("PUT", "/certificate", body))
    stored = stored_settings()
    if stored.get("certificate") and stored.get("url") == run.client.url and (leaf := _FIRST.search(body["certificate"])):
        keep_settings({**stored, "certificate": stored["certificate"] + leaf[0]})
