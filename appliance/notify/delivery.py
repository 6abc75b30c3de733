# SPDX-License-Identifier: Apache-2.0
"""One attempt of a delivery, by the kind of its receiver."""

import http.client
from collections.abc import Sequence
from dataclasses import dataclass, field

from appliance.domain.receivers import WEBHOOK, kind_of
from appliance.notify import connection, mail, webhook
from appliance.notify.connection import Network, NotAllowedError, Outcome
from appliance.notify.message import read


@dataclass(frozen=True)
class Destination:
    """Destination of a delivery. `secret` signs for webhooks, and is the password of mail servers."""

    url: str
    secret: str = field(repr=False, default="")
    certificate: str | None = None
    sender: str = ""
    recipients: Sequence[str] = ()
    user: str | None = None


def deliver(to: Destination, event: str, kind: str, body: str, trusted: Sequence[Network] = ()) -> Outcome:
    """Does not raise for errors of the receiver or the network."""
    try:
        return _try(to, event, kind, body, trusted)
    except TimeoutError:
        problem = f"no answer within {connection.TOTAL_S:.0f} s"
    except ConnectionRefusedError:
        problem = "the connection was refused: nothing listens at this address and port"
    except (OSError, http.client.HTTPException, ValueError, NotAllowedError) as error:
        problem = str(error) or type(error).__name__
    return Outcome(None, problem[:500])


def _try(to: Destination, event: str, kind: str, body: str, trusted: Sequence[Network]) -> Outcome:
    if kind_of(to.url) == WEBHOOK:
        return webhook.post(to.url, to.secret, event, body, certificate=to.certificate, trusted=trusted)
    return mail.send(
        to.url, to.secret, read(event, kind, body), sender=to.sender, recipients=to.recipients, user=to.user,
        certificate=to.certificate, trusted=trusted,
    )  # fmt: skip
