# SPDX-License-Identifier: Apache-2.0
"""Result of a check for one condition that hosts need for a datastore or its offloads."""

from dataclasses import dataclass

OK, WARNING, FAILED, UNKNOWN = "ok", "warning", "failed", "unknown"


@dataclass(frozen=True)
class Check:
    id: str
    title: str
    result: str
    evidence: str
    remedy: str = ""
    subject: str = ""
