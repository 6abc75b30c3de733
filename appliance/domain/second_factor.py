# SPDX-License-Identifier: Apache-2.0
"""Two-factor login: time-based one-time codes (RFC 6238) of an authenticator app, and recovery codes for a lost app."""

import base64
import hashlib
import hmac
import re
import secrets
import time
from urllib.parse import quote, urlencode

from sqlalchemy.orm import Session

from appliance.database.models import User
from appliance.domain.errors import InvalidError, UnauthenticatedError
from appliance.domain.secrets import Seal, SealedError, digest

SECRET_BYTES = 20
"""RFC 4226, 4: R6."""
RECOVERY_CODES = 10
_STEP_S, _DIGITS = 30, 6
_DRIFT = 1
"""Steps that the clock of the app may differ (RFC 6238, 5.2)."""


def _now() -> float:
    return time.time()


def new_secret() -> str:
    """In base32, as apps read it."""
    return base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode()


def uri(secret: str, user: str, server: str) -> str:
    """For the QR code that apps scan."""
    issuer = f"zvaai {server}"
    return f"otpauth://totp/{quote(f'{issuer}:{user}')}?{urlencode({'secret': secret, 'issuer': issuer}, quote_via=quote)}"


def code_of(secret: str, step: int) -> str:
    """The code of a time step: HOTP of its number (RFC 4226, 5.3)."""
    mac = hmac.new(base64.b32decode(secret), step.to_bytes(8, "big"), hashlib.sha1).digest()
    offset = mac[-1] & 0xF
    number = int.from_bytes(mac[offset : offset + 4], "big") & 0x7FFFFFFF
    return f"{number % 10**_DIGITS:0{_DIGITS}}"


def _matching_step(secret: str, code: str, now: float) -> int | None:
    steps = range(int(now // _STEP_S) - _DRIFT, int(now // _STEP_S) + _DRIFT + 1)
    return next((step for step in steps if secrets.compare_digest(code_of(secret, step).encode(), code.encode())), None)


def enable(session: Session, seal: Seal, user_id: str, secret: str, code: str) -> list[str]:
    """Turns it on for a user; the recovery codes, which are shown once. Raises InvalidError."""
    try:
        length = len(base64.b32decode(secret))
    except ValueError:
        length = 0
    if length != SECRET_BYTES:
        raise InvalidError("secret", "it is not a secret of this appliance", f"{SECRET_BYTES} bytes in base32")
    step = _matching_step(secret, _typed(code), _now())
    if step is None:
        raise InvalidError("code", "it is not the code of this moment", "the 6 digits that the app shows; check both clocks")
    codes = ["-".join(secrets.token_hex(2) for _ in range(4)) for _ in range(RECOVERY_CODES)]
    user = session.get_one(User, user_id)
    user.totp_secret, user.totp_used, user.recovery_codes = seal.seal(secret), step, [digest(_typed(made)) for made in codes]
    return codes


def disable(session: Session, user_id: str) -> None:
    user = session.get_one(User, user_id)
    user.totp_secret, user.totp_used, user.recovery_codes = None, 0, []


def check(session: Session, seal: Seal, user_id: str, code: str) -> None:
    """Takes a code, once. Nothing to do for a user without two-factor login. Raises UnauthenticatedError."""
    user = session.get_one(User, user_id)
    if user.totp_secret is None:
        return
    typed = _typed(code)
    if digest(typed) in user.recovery_codes:
        user.recovery_codes = [left for left in user.recovery_codes if left != digest(typed)]
        return
    try:
        step = _matching_step(seal.open(user.totp_secret), typed, _now())
    except SealedError as error:
        raise UnauthenticatedError(f"no code can be checked: {error}; use a recovery code") from error
    if step is None or step <= user.totp_used:
        raise UnauthenticatedError("the code is wrong, or was used before")
    user.totp_used = step


def _typed(code: str) -> str:
    """Without spaces and dashes, however it was typed."""
    return re.sub(r"[\s-]", "", code.lower())
