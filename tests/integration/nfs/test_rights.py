# SPDX-License-Identifier: Apache-2.0
"""Operations that an export allows, by user."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from support.ganesha import ClientOptions, Export, running_ganesha
from support.libnfs import mounted


def test_root_is_squashed_where_it_is_to_be(nfs_store: Path, tmp_path: Path) -> None:
    store = nfs_store
    store.chmod(0o777)
    (store / "roots").write_text("secret")
    (store / "roots").chmod(0o600)
    exports = [
        Export(1, store, "/root"),
        Export(2, store, "/squashed", squash="Root_Squash"),
        Export(3, store, "/read_only", access="RO"),
        Export(4, store, "/for_us_read_only", clients=[ClientOptions("127.0.0.1", access="RO")]),
        Export(5, store, "/not_for_us", access="None", clients=[ClientOptions("192.0.2.7")]),
    ]
    with running_ganesha(tmp_path / "ganesha", exports):
        for version in (3, 4):
            name = f"/made{version}"
            with mounted("/root", version) as client:
                client.write_file(name, b"x")
                assert client.owner(name) == (0, 0)
                assert client.read_file("/roots") == b"secret"
            with mounted("/squashed", version) as client:
                client.write_file(f"{name}squashed", b"x")
                assert client.owner(f"{name}squashed") == (65534, 65534)
                with pytest.raises(PermissionError):
                    client.read_file("/roots")
                with pytest.raises(PermissionError):
                    client.truncate("/roots", 0)
            for export in ("/read_only", "/for_us_read_only"):
                with mounted(export, version) as client:
                    assert client.read_file(name) == b"x"
                    with pytest.raises(OSError) as failure:
                        client.unlink(name)
                    assert failure.value.errno == errno.EROFS
            with pytest.raises(OSError), mounted("/not_for_us", version) as client:
                client.names()
    assert (store / "roots").read_text() == "secret"
