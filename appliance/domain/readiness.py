# SPDX-License-Identifier: Apache-2.0
"""Result of a check for one condition that keeps hosts from a datastore or from its offloads."""

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
