# SPDX-License-Identifier: Apache-2.0
"""A delivery as people read it: of the JSON that webhooks get."""

import json
import time
from dataclasses import dataclass

_WHAT = {"alert.raised": "", "alert.changed": " (changed)", "alert.cleared": " (cleared)"}


@dataclass(frozen=True)
class Message:
    event: str
    kind: str
    at: float
    severity: str
    subject: str
    text: str
    remedy: str
    thread: str
    """Equal for all messages about one alert."""
    raised_at: float | None = None
    """When the alert was raised, in seconds since 1970; None for a test."""

    @property
    def line(self) -> str:
        about = f"{self.subject}: " if self.subject else ""
        line = f"{self.severity.upper()}{_WHAT.get(self.kind, '')}: {about}{self.text}"
        return "".join(character if character.isprintable() else " " for character in line)

    @property
    def body(self) -> str:
        rows = [self.line, "", f"Time:     {_written(self.at)}"]
        if self.raised_at is not None:
            rows.append(f"Since:    {_written(self.raised_at)}")
        rows.append(f"Subject:  {self.subject or '-'}")
        if self.remedy and self.kind != "alert.cleared":  # a command for a problem that has ended can do harm
            rows.append(f"Remedy:   {self.remedy}")
        return "\n".join(rows) + "\n"


def _written(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))


def read(event: str, kind: str, body: str) -> Message:
    content = json.loads(body)
    data = content["data"]
    return Message(
        event=event,
        kind=kind,
        at=float(content["timestamp"]),
        severity=str(data.get("severity", "info")),
        subject=str(data.get("subject", "")),
        text=str(data.get("text", "")),
        remedy=str(data.get("remedy", "")),
        thread=f"alert-{data['id']}" if "id" in data else event,
        raised_at=float(data["raised_at"]) if "raised_at" in data else None,
    )
