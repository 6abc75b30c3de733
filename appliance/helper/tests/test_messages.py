# SPDX-License-Identifier: Apache-2.0
"""Any message gets an answer, never an exception, and only checked arguments reach the engine."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from appliance import decoding
from appliance.helper import protocol
from appliance.helper.checks import Policy
from appliance.helper.operations import OPERATIONS
from appliance.helper.server import Server
from appliance.zfs import names
from appliance.zfs.errors import InvalidName, error_classes
from appliance.zfs.model import DatasetList, Filesystem, Property, Source, Space
from appliance.zfs.properties import SETTABLE

SPACE = Space(**dict.fromkeys((field.name for field in dataclasses.fields(Space)), 0))
SHARE = Filesystem(
    name="tank/a", guid=1, createtxg=1, creation=1, space=SPACE, mountpoint=None, mounted=False, recordsize=131072, quota=0,
    refquota=0, reservation=0, refreservation=0, properties={"mountpoint": Property("none", Source.LOCAL)},
)  # fmt: skip
ANSWERS = {
    "filesystem": SHARE,
    "datasets": DatasetList(filesystems=[], volumes=[]),
    "properties": {"type": Property("filesystem", Source.NONE)},
}
"""Queries before a mount."""


class Recorder:
    """An engine that records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Mapping[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*values: Any, **arguments: Any) -> Any:
            self.calls.append((name, arguments or {"name": values[0]} if values else arguments))
            return ANSWERS.get(name)

        return call


def server(engine: Any) -> Server:
    return Server(engine, None, users=(), policy=Policy())  # type: ignore[arg-type]


def call(engine: Any, message: bytes) -> protocol.Answer:
    """The answer to a message."""
    return decoding.decode(server(engine).answer(message, 1, 0), protocol.Answer)


def request(operation: str, **arguments: Any) -> bytes:
    return json.dumps({"operation": operation, "arguments": arguments}).encode()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
likely_texts = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["tank", "tank/ds", "tank/ds@s", "tank/../x", "-f", "tank/ds@s@t", "/dev/sda", "/dev/disk/by-id/x", "keep", ""]
    ),
    st.text(alphabet="tank/@. -_:\0\n", max_size=12),
)
likely_properties = st.dictionaries(
    st.sampled_from([*SETTABLE, "zvaai:name", "keylocation", "sharenfs", "volsize", "-o"]) | st.text(max_size=10),
    st.sampled_from(["on", "off", "none", "/srv/zvaai/x", "/etc", "1048576"]) | st.text(max_size=10),
    max_size=3,
)
likely_values = st.one_of(
    likely_texts, st.lists(likely_texts, max_size=3), likely_properties, st.booleans(), st.integers(), json_values
)


@given(st.binary(max_size=300))
@example(b"[" * 100_000)
@example(b'{"operation":"\\ud800","arguments":{}}')
@example(b'{"operation":"destroy","arguments":' + b'{"a":' * 5000)
def test_any_bytes_are_answered(message: bytes) -> None:
    recorder = Recorder()
    answer = call(recorder, message)
    assert answer.error in {"refused", *error_classes()} or recorder.calls


@settings(max_examples=300)
@given(st.data())
def test_engine_calls_are_checked(data: st.DataObject) -> None:
    operation = data.draw(st.sampled_from(sorted(OPERATIONS)))
    arguments = {
        name: data.draw(likely_values) for name in OPERATIONS[operation].arguments.__struct_fields__ if data.draw(st.booleans())
    }
    recorder = Recorder()
    answer = call(recorder, request(operation, **arguments))
    assert (answer.error is None) == any(called == operation for called, _ in recorder.calls), answer
    for called, given_arguments in recorder.calls:
        assert called == operation or called in ANSWERS
        every_value_is_allowed(called, given_arguments)


def every_value_is_allowed(operation: str, arguments: Mapping[str, Any]) -> None:
    """An independent version of the rules in `checks`."""
    for name, value in arguments.items():
        texts = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else []
        for text in (text for text in texts if isinstance(text, str)):
            assert not text.startswith("-") and "\0" not in text and ".." not in text.split("/"), (operation, name, text)
            if name in {"name", "root", "snapshots", "snapshot", "new_name"}:
                names.dataset_or_snapshot_name(text)
            if name == "new_device":
                assert text.startswith("/dev/disk/")
        if name in {"properties", "filesystem_properties"} and value:
            for key, setting in value.items():
                assert ":" in key or key in SETTABLE or operation == "create_pool", key
                assert key != "mountpoint" or setting == "none" or setting.startswith("/srv/zvaai/")


GOOD: list[tuple[str, dict[str, Any]]] = [
    ("create_volume", {"name": "tank/a", "volsize": 1 << 30, "properties": {"zvaai:name": "x"}}),
    ("snapshot", {"snapshots": ["tank/a@s", "tank/b@s"]}),
    ("create_filesystem", {"name": "tank/a", "properties": {"mountpoint": "/srv/zvaai/a"}}),
    ("create_pool", {"name": "tank", "vdevs": [{"devices": ["/dev/disk/by-id/a", "/dev/disk/by-id/b"], "redundancy": "mirror"}]}),
    ("replace", {"pool": "tank", "device": "12345", "new_device": "/dev/disk/by-id/c"}),
    ("pools", {}),
    ("rollback", {"name": "tank/a@s", "destroy": ["tank/a@t"]}),
    ("holders", {"name": "tank/a"}),
    ("offline", {"pool": "tank", "device": "/dev/shm/odd"}),
    ("import_pool", {"pool": "1234567890123456789"}),
    ("load_key", {"name": "tank/a", "key": "AAAA"}),
]
BAD: list[tuple[str, dict[str, Any], str | None]] = [
    ("nothing", {}, "refused"),
    ("__init__", {}, "refused"),
    ("pool", {"name": "tank"}, "refused"),  # the client implements it with `pools`
    ("destroy", {"name": "tank"}, "invalid_name"),
    ("destroy", {"name": "tank/a", "recursive": True}, "refused"),
    ("destroy", {"name": 7}, "refused"),
    ("destroy", {}, "refused"),
    ("import_pool", {"pool": "tank", "new_name": "tank/-a/.."}, "invalid_name"),
    ("create_volume", {"name": "tank/a", "volsize": "1G"}, "refused"),
    ("create_volume", {"name": "tank/a", "volsize": 1 << 63}, "refused"),
    ("create_volume", {"name": "tank/a", "volsize": 1 << 20, "properties": {"mountpoint": "/srv/zvaai/a"}}, "invalid_property"),
    ("create_filesystem", {"name": "tank/a", "properties": {"mountpoint": "/etc"}}, "refused"),
    ("create_filesystem", {"name": "tank/a", "properties": {"mountpoint": "/srv/zvaai"}}, "refused"),
    ("create_filesystem", {"name": "tank/a", "properties": {"mountpoint": "/srv/zvaai/a/link"}}, "refused"),
    ("set_properties", {"name": "tank/a", "properties": {"setuid": "on"}}, "refused"),
    ("inherit_property", {"name": "tank/a", "property": "devices"}, "refused"),
    ("create_filesystem", {"name": "tank/a", "properties": {"mountpoint": "/srv/zvaai-else"}}, "refused"),
    ("create_filesystem", {"name": "tank/a", "properties": {"mountpoint": "legacy"}}, "refused"),
    ("set_properties", {"name": "tank/a", "properties": {"keylocation": "file:///etc/shadow"}}, "invalid_property"),
    ("set_properties", {"name": "tank/a", "properties": {"mountpoint": "/srv/zvaai/../../etc"}}, "invalid_property"),
    ("inherit_property", {"name": "tank", "property": "mountpoint"}, "refused"),
    ("create_pool", {"name": "p", "vdevs": [{"devices": ["/dev/sda"]}]}, "refused"),
    ("create_pool", {"name": "p", "vdevs": [{"devices": ["/dev/disk/../sda"]}]}, "no_such_device"),
    ("create_pool", {"name": "p", "vdevs": [{"devices": ["/dev/disk/a"]}], "properties": {"cachefile": "/"}}, "invalid_property"),
    ("replace", {"pool": "tank", "device": "-f", "new_device": "/dev/disk/by-id/c"}, "no_such_device"),
    ("add_vdevs", {"pool": "tank/ds", "vdevs": [{"devices": ["/dev/disk/by-id/a"]}]}, "invalid_name"),
    ("snapshot", {"snapshots": ["tank/a@s"], "properties": {"compression": "lz4"}}, "invalid_property"),
    ("snapshot", {"snapshots": ["tank/a@s"] * 20_001}, "refused"),
    ("rollback", {"name": "tank/a@s", "destroy": ["tank/a"]}, "invalid_name"),
    ("load_key", {"name": "tank/a", "key": "A" * 1000}, "refused"),
    ("list_folder", {"snapshot": "tank/a@s", "path": "../b"}, "refused"),
    ("read_text", {"snapshot": "tank/a@s", "path": "vm/../../b"}, "refused"),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "arguments"), GOOD)
def test_taken(operation: str, arguments: dict[str, Any]) -> None:
    recorder = Recorder()
    answer = call(recorder, request(operation, **arguments))
    assert answer.error is None, answer
    assert [call[0] for call in recorder.calls] == [operation]


@pytest.mark.parametrize(("operation", "arguments", "error"), BAD)
def test_not_taken(operation: str, arguments: dict[str, Any], error: str | None) -> None:
    recorder = Recorder()
    answer = call(recorder, request(operation, **arguments))
    assert answer.error == error, answer
    assert bool(recorder.calls) == (error is None)


def test_every_argument_has_a_check() -> None:
    """A new argument is refused until it has a check."""
    for operation in OPERATIONS.values():
        for name in operation.arguments.__struct_fields__:
            values: tuple[Any, ...] = ("", "tank/a@s", 1, (), {}, b"x")
            for value in values:
                try:
                    Policy()._check(operation.name, name, value)
                except (AttributeError, TypeError):
                    continue  # of another type: a check refused it
                except Exception as problem:
                    assert "has no check" not in str(problem) or name in BOOLEANS, (operation.name, name)


BOOLEANS = {"force", "dry_run", "mount", "thick", "with_snapshots", "recursive", "reboot"}


def test_changes_are_audited_without_keys(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    key = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U="
    call(Recorder(), request("create_filesystem", name="tank/a", key=key))
    call(Recorder(), request("load_key", name="tank/a", key=key))
    call(Recorder(), request("datasets"))
    lines = [json.loads(record.getMessage()) for record in caplog.records]
    assert [(line["audit"], line["operation"]) for line in lines] == [
        ("begun", "create_filesystem"),
        ("ended", "create_filesystem"),
        ("begun", "load_key"),
        ("ended", "load_key"),
    ]
    assert lines[0]["arguments"]["name"] == "tank/a" and lines[0]["user"] == 0 and lines[1]["outcome"] == "done"
    assert "secret" not in caplog.text and key not in caplog.text and "c2Vj" not in caplog.text


def test_failures_are_audited(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Recorder):
        def destroy(self, **_: Any) -> None:
            raise InvalidName("tank/a", "no")

    caplog.set_level(logging.INFO)
    assert call(Failing(), request("destroy", name="tank/a")).error == "invalid_name"
    assert json.loads(caplog.records[-1].getMessage())["outcome"] == "invalid_name"


@pytest.mark.parametrize("code", sorted(error_classes()))
def test_every_error_survives_a_round_trip(code: str) -> None:
    kind = error_classes()[code]
    values = {"str": "text", "bool": True, "float": 1.5, "tuple[str, ...]": ("a", "b")}
    error = kind(
        **{
            name: values[str(annotation)]
            for name, annotation in kind.__annotations__.items()
            if "ClassVar" not in str(annotation)
        }
    )
    answer = decoding.decode(protocol.encode_error(error), protocol.Answer)
    back = protocol.decode_error(answer)
    assert type(back) is kind and back.details() == error.details() and str(back) == str(error)
