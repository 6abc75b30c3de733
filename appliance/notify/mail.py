# SPDX-License-Identifier: Apache-2.0
"""E-mail by SMTP (RFC 5321): `smtps` encrypts at once (RFC 8314), `smtp` by STARTTLS (RFC 3207).

Without STARTTLS nothing is sent, but to trusted networks. The event identifies the message: a mail server that got it twice shows
the same Message-ID.
"""

import contextlib
import smtplib
import socket
import ssl
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import format_datetime, localtime
from urllib.parse import urlsplit

from appliance.notify.connection import Bounded, Network, Outcome, connecting, may_go_to
from appliance.notify.message import Message
from appliance.tls import context_for

PORTS = {"smtp": 587, "smtps": 465}


class _Smtp(smtplib.SMTP):
    """Over a connection whose addresses were checked, and that ends in time."""

    def __init__(self, host: str, port: int, bounded: Bounded, addresses: Sequence[str], context: ssl.SSLContext | None) -> None:
        self._bounded, self._addresses, self._encrypted = bounded, addresses, context
        super().__init__(host, port, socket.gethostname())  # else smtplib waits for DNS, without a time limit
        assert self.sock is not None
        self.local_hostname = greeting(self.local_hostname, str(self.sock.getsockname()[0]))

    def _get_socket(self, host: str, port: int, _timeout: float) -> socket.socket:
        stream = self._bounded.connect(self._addresses, port)
        return stream if self._encrypted is None else self._bounded.encrypt(self._encrypted, host)


def greeting(name: str, address: str) -> str:
    """The name for EHLO: a name with a domain, else the address as a literal (RFC 5321 4.1.3)."""
    if "." in name:
        return name
    return f"[IPv6:{address.split('%', 1)[0]}]" if ":" in address else f"[{address}]"


def compose(message: Message, sender: str, recipients: Sequence[str], host: str) -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"] = sender, ", ".join(recipients)
    mail["Subject"] = f"[zvaai {host}] {message.line}"[:200]
    mail["Date"] = format_datetime(localtime())
    mail["Message-ID"] = f"<{message.event}@{host}>"
    mail["References"] = f"<{message.thread}@{host}>"
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no automatic replies
    mail.set_content(message.body)
    return mail


def send(
    url: str,
    password: str,
    message: Message,
    *,
    sender: str,
    recipients: Sequence[str],
    user: str | None,
    certificate: str | None = None,
    trusted: Sequence[Network] = (),
) -> Outcome:
    """Tries once. Raises OSError (smtplib's errors are), NotAllowedError."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or PORTS[parts.scheme]
    context = context_for(certificate)
    mail = compose(message, sender, recipients, socket.gethostname())
    with connecting(host, port, False, trusted) as (bounded, addresses):
        try:
            smtp = _Smtp(host, port, bounded, addresses, context if parts.scheme == "smtps" else None)
            smtp.ehlo()
            if parts.scheme == "smtp":
                if smtp.has_extn("starttls"):
                    code, reply = smtp.docmd("STARTTLS")
                    if code != 220:
                        raise smtplib.SMTPResponseException(code, reply)
                    # During smtplib's starttls the timer cuts nothing. Input from before TLS is discarded (RFC 3207).
                    smtp.sock, smtp.file = bounded.encrypt(context, host), None
                    smtp.ehlo()
                elif not all(may_go_to(address, True, trusted) for address in addresses):
                    return Outcome(None, "the mail server offers no STARTTLS; only trusted networks are reached without it")
            if user is not None:
                smtp.login(user, password)
            lost = smtp.send_message(mail, sender, recipients)
            with contextlib.suppress(OSError):  # the mail is accepted, whatever becomes of QUIT
                smtp.quit()
        except smtplib.SMTPResponseException as error:
            text = error.smtp_error.decode(errors="replace") if isinstance(error.smtp_error, bytes) else str(error.smtp_error)
            return Outcome(error.smtp_code, f"the mail server answered {error.smtp_code} {text}"[:500], error.smtp_code >= 500)
        except smtplib.SMTPRecipientsRefused as error:
            return _refused(error.recipients, partial=False)
    if lost:  # after a temporary refusal the mail is sent again, to all
        return _refused(lost, partial=all(code >= 500 for code, _ in lost.values()))
    return Outcome(250, None)


def _refused(lost: dict[str, tuple[int, bytes]], *, partial: bool) -> Outcome:
    name, (code, text) = next(iter(lost.items()))
    problem = f"the mail server refused {name}: {code} {text.decode(errors='replace')}"[:500]
    return Outcome(code, problem, refused=code >= 500, partial=partial)
