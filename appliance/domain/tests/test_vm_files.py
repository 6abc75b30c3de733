# SPDX-License-Identifier: Apache-2.0
"""A VM's files by another name: names of files, and what descriptors say of each other."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.domain.errors import ConflictError, InvalidError
from appliance.domain.vm_files import VmFile, chosen, rewritten

VMX = b""".encoding = "UTF-8"
config.version = "8"
displayName = "Web server"
nvram = "web.nvram"
extendedConfigFile = "web.vmxf"
scsi0:0.fileName = "web-000001.vmdk"
scsi0:1.fileName = "data.vmdk"
ide1:0.fileName = "/vmfs/volumes/iso/debian.iso"
sched.swap.derivedName = "/vmfs/volumes/5a/web/web-1.vswp"
annotation = "web.vmdk is not here"
"""
VMDK = b"""# Disk DescriptorFile
version=1
CID=fffffffe
parentFileNameHint="web.vmdk"
RW 83886080 VMFSSPARSE "web-000001-delta.vmdk"
"""
ENTRIES = [
    ("web.vmx", "file", 400), ("web.nvram", "file", 8684), ("web.vmxf", "file", 20), ("web.vmsd", "file", 0),
    ("web.vmdk", "file", 500), ("web-flat.vmdk", "file", 40 << 30), ("web-000001.vmdk", "file", 400),
    ("web-000001-delta.vmdk", "file", 1 << 30), ("data.vmdk", "file", 500), ("website.txt", "file", 1), ("vmware.log", "file", 1),
    ("web-1.vswp", "file", 4 << 30), (".lck-0400000000000000", "file", 84), ("web.vmx.lck", "file", 0), ("sub", "folder", 0),
]  # fmt: skip


def test_the_files_get_the_new_name_and_name_each_other_by_it() -> None:
    files = chosen(ENTRIES, "web", "web (restored)")
    names = {file.source: file.name for file in files}
    assert names["web-000001-delta.vmdk"] == "web (restored)-000001-delta.vmdk" and names["data.vmdk"] == "data.vmdk"
    assert names["website.txt"] == "website.txt" and not {"vmware.log", "web-1.vswp", "web.vmx.lck", "sub"} & names.keys()
    assert {file.source for file in files if file.text} == {
        "web.vmx", "web.vmxf", "web.vmsd", "web.vmdk", "web-000001.vmdk", "data.vmdk",
    }  # fmt: skip
    by_name = {file.source: file for file in files}
    vmx = rewritten(by_name["web.vmx"], VMX, names, "web (restored)").decode()
    for line in (
        'displayName = "web (restored)"', 'nvram = "web (restored).nvram"', 'scsi0:0.fileName = "web (restored)-000001.vmdk"',
        'scsi0:1.fileName = "data.vmdk"', 'ide1:0.fileName = "/vmfs/volumes/iso/debian.iso"', 'uuid.action = "create"',
        'annotation = "web.vmdk is not here"',
    ):  # fmt: skip
        assert line in vmx.splitlines(), line
    assert "vswp" not in vmx
    vmdk = rewritten(by_name["web-000001.vmdk"], VMDK, names, "web (restored)").decode()
    assert 'parentFileNameHint="web (restored).vmdk"' in vmdk and '"web (restored)-000001-delta.vmdk"' in vmdk


@pytest.mark.parametrize(
    ("source", "content"),
    [
        ("web.vmx", b'scsi0:1.fileName = "/vmfs/volumes/other/db/db.vmdk"\n'),
        ("web.vmdk", b'# Disk DescriptorFile\nparentFileNameHint="/vmfs/volumes/other/base/base.vmdk"\n'),
        ("web.vmdk", b'# Disk DescriptorFile\nparentFileNameHint="../base/base.vmdk"\n'),
    ],
)
def test_a_disk_in_another_folder_is_refused(source: str, content: bytes) -> None:
    with pytest.raises(ConflictError, match="another folder"):
        rewritten(VmFile(source, source, len(content), True), content, {}, "new")


def test_a_small_disk_is_no_descriptor() -> None:
    content = bytes(range(256))
    assert rewritten(VmFile("small-flat.vmdk", "new-flat.vmdk", 256, True), content, {"x": "y"}, "new") == content


@pytest.mark.parametrize("entries", [[], [("a.vmdk", "file", 1)], [("a.vmx", "file", 1), ("b.vmx", "file", 1)]])
def test_folders_without_a_vm(entries: list[tuple[str, str, int]]) -> None:
    with pytest.raises(ConflictError, match=r"\.vmx"):
        chosen(entries, "web", "new")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", 'a"b', "a\nb", " a", "a.", "\0", "x" * 201])
def test_invalid_names(name: str) -> None:
    with pytest.raises(InvalidError):
        chosen([("web.vmx", "file", 1)], "web", name)


@given(st.binary(max_size=2000), st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=5))
def test_nothing_but_quoted_names_changes(content: bytes, names: dict[str, str]) -> None:
    """Whatever a file has in it: bytes that are not text stay."""
    safe = {old: re.sub(r'["\n]', "", new) for old, new in names.items()}
    content_after = rewritten(VmFile("a.vmsd", "b.vmsd", len(content), True), content, safe, "new")
    assert re.sub(rb'"[^"\n]*"', b"", content_after) == re.sub(rb'"[^"\n]*"', b"", content)
