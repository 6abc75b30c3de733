# SPDX-License-Identifier: Apache-2.0
"""Jobs: what they are stored as, and which of them wait for which."""

from __future__ import annotations

import uuid

import msgspec
import pytest

from appliance.domain import jobs, requests
from appliance.domain.errors import InvalidError
from appliance.testing import Appliance
from appliance.worker.executor import BY_REQUEST, OPERATIONS, request_of


@pytest.mark.parametrize("kind", ["datastore.of_tomorrow", "datastore.grow"])
def test_a_job_that_this_version_cannot_read_fails_alone(kind: str, appliance: Appliance) -> None:
    """As after a downgrade: of an unknown kind, or with a plan of other fields."""
    job = str(uuid.uuid4())
    with appliance.store.session() as session:
        jobs.submit(session, job, kind, jobs.Plan(subject="something", pools=("tank",)), "tomorrow")
    ended = appliance.ended(job)
    assert ended["state"] == "failed" and "does not know" in ended["problem"]["text"]
    appliance.datastore("first")


def test_each_request_has_one_operation_and_each_plan_is_its_own_row() -> None:
    assert len(BY_REQUEST) == len(OPERATIONS)
    for operation in OPERATIONS.values():
        assert issubclass(operation.request, requests.Request) and issubclass(operation.plan_type, jobs.Plan)
        assert operation.plan_type is not jobs.Plan, "its fields would be lost"


def test_a_request_is_the_same_on_the_other_side_of_the_socket() -> None:
    sent = requests.ChangeDatastore(id="first", soft_threshold=None)
    assert request_of(msgspec.json.decode(msgspec.json.encode(sent))) == sent
    for wrong in ({}, {"request": "ChangeDatastore"}, {"request": "Nothing", "id": "first"}):
        with pytest.raises(InvalidError, match="request"):
            request_of(wrong)
