# SPDX-License-Identifier: Apache-2.0
"""Whose identity counts: two LUNs with one NAA identifier would corrupt VMFS."""

import uuid
from dataclasses import replace

import pytest

from appliance.domain.identity import Copy, Identity, claimed_thick, is_surely_another, judge, judge_all
from appliance.zfs.model import Property, Source, Space, Volume

UUID = str(uuid.UUID(int=7))
SPACE = Space(
    used=0, available=0, referenced=0, used_by_dataset=0, used_by_snapshots=0, used_by_children=0, used_by_refreservation=0,
    written=0,
)  # fmt: skip


def volume(dataset: str = "tank/zvaai/store", dataset_guid: int = 42, source: Source = Source.LOCAL, **properties: str) -> Volume:
    values = {"uuid": UUID, "guid": "42", "name": "store"} | properties
    return Volume(
        name=dataset, guid=dataset_guid, createtxg=1, creation=1, space=SPACE, volsize=1 << 30, volblocksize=65536,
        refreservation=0, properties={f"zvaai:{key}": Property(value, source) for key, value in values.items()},
    )  # fmt: skip


def test_an_identity_of_the_dataset_itself() -> None:
    identity = judge(volume(lun="3", soft_threshold="80"))
    assert identity == Identity(UUID, "store", 3, 80, None)


@pytest.mark.parametrize(
    ("value", "source", "thick"),
    [("on", Source.LOCAL, True), ("off", Source.RECEIVED, False), ("on", Source.RECEIVED, True), ("on", Source.INHERITED, None),
     ("yes", Source.LOCAL, None)],
)  # fmt: skip
def test_an_adopted_dataset_retains_its_provisioning(value: str, source: Source, thick: bool | None) -> None:
    assert claimed_thick(volume(source=source, thick=value)) is thick


def test_none() -> None:
    assert judge(replace(volume(), properties={})) is None


@pytest.mark.parametrize("source", [Source.INHERITED, Source.RECEIVED, Source.DEFAULT, Source.TEMPORARY])
def test_inherited_properties_do_not_count(source: Source) -> None:
    assert isinstance(judge(volume(source=source)), Copy)


@pytest.mark.parametrize("name", ["uuid", "guid", "name"])
@pytest.mark.parametrize("source", [Source.INHERITED, Source.RECEIVED])
def test_every_property_must_be_set_on_the_dataset_itself(name: str, source: Source) -> None:
    dataset = volume()
    mixed = {**dataset.properties, f"zvaai:{name}": replace(dataset.properties[f"zvaai:{name}"], source=source)}
    assert isinstance(judge(replace(dataset, properties=mixed)), Copy)


@pytest.mark.parametrize("guid", [41, 43, 0])
def test_another_dataset_with_these_properties_is_a_copy(guid: int) -> None:
    assert isinstance(judge(volume(dataset_guid=guid)), Copy)


@pytest.mark.parametrize("bad", [{"uuid": "no"}, {"guid": ""}, {"name": "a/b"}, {"name": ""}])
def test_nonsense_does_not_count(bad: dict[str, str]) -> None:
    judged = judge(volume("tank/zvaai/store", 42, Source.LOCAL, **bad))
    assert isinstance(judged, Copy)


def test_numbers_out_of_range_are_left_out() -> None:
    judged = judge(volume(lun="99999", soft_threshold="x", deleted="-1"))
    assert isinstance(judged, Identity) and (judged.lun, judged.soft_threshold, judged.deleted_at) == (None, None, None)


def test_a_time_that_no_date_has_is_left_out() -> None:
    judged = judge(volume(deleted="999999999999"))
    assert isinstance(judged, Identity) and judged.deleted_at is None


def test_of_two_with_one_identity_neither_counts() -> None:
    """A pool that was split, or copied disk by disk: names and GUIDs of datasets are the same."""
    judged = judge_all(
        [volume("tank/zvaai/store"), volume("split/zvaai/store"), volume("tank/zvaai/other", uuid=str(uuid.UUID(int=8)))]
    )
    assert isinstance(judged["tank/zvaai/store"], Copy) and isinstance(judged["split/zvaai/store"], Copy)
    assert isinstance(judged["tank/zvaai/other"], Identity)


def test_of_a_copy_and_its_source_the_source_counts() -> None:
    judged = judge_all([volume("tank/zvaai/store"), volume("tank/zvaai/received", dataset_guid=43)])
    assert isinstance(judged["tank/zvaai/store"], Identity) and isinstance(judged["tank/zvaai/received"], Copy)


@pytest.mark.parametrize("damage", [{"name": "prod store"}, {"name": ""}, {"uuid": "no"}])
def test_a_damaged_identity_can_be_the_original(damage: dict[str, str]) -> None:
    dataset = volume("tank/zvaai/store", 42, Source.LOCAL, **damage)
    assert isinstance(judge(dataset), Copy) and not is_surely_another(dataset)


def test_without_a_guid_it_may_be_the_original() -> None:
    dataset = volume()
    lost = replace(dataset, properties={name: value for name, value in dataset.properties.items() if name != "zvaai:guid"})
    assert isinstance(judge(lost), Copy) and not is_surely_another(lost)


def test_a_replica_is_surely_another() -> None:
    assert is_surely_another(volume(dataset_guid=41))
    for source in (Source.INHERITED, Source.RECEIVED):
        assert is_surely_another(volume(source=source))
