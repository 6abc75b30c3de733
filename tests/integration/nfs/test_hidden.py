"""The ledger's folder is no client's business."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ganesha import Export, running_ganesha
from support.libnfs import Client, mounted

HIDDEN = ".zvaai"


@pytest.fixture(scope="module")
def served(lasting_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What /one shows, with something of ours in the folder."""
    (lasting_store / HIDDEN).mkdir(mode=0o700)
    (lasting_store / HIDDEN / "something").write_text("kept")
    with running_ganesha(tmp_path_factory.mktemp("daemon") / "ganesha", [Export(1, lasting_store, "/one")]):
        yield lasting_store


@pytest.fixture(params=[3, 4])
def client(served: Path, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client of an export that has a file and a folder."""
    with mounted("/one", request.param) as client:
        client.mkdir("/folder")
        client.write_file("/file", b"x")
        yield client
        for name in client.names():
            client.remove_tree(f"/{name}")
    assert (served / HIDDEN / "something").read_text() == "kept"
    assert not (served / HIDDEN).is_symlink()


def refused(code: int, *arguments: object) -> None:
    function, *rest = arguments
    assert callable(function)
    with pytest.raises(OSError) as failure:
        function(*rest)
    assert failure.value.errno == code, failure.value


def test_it_is_in_no_listing_and_no_name_reaches_it(client: Client) -> None:
    assert client.names() == {"file", "folder"}
    refused(errno.ENOENT, client.size, f"/{HIDDEN}")
    refused(errno.ENOENT, client.names, f"/{HIDDEN}")
    refused(errno.ENOENT, client.open, f"/{HIDDEN}/something")
    refused(errno.ENOENT, client.rename, f"/{HIDDEN}", "/taken")
    refused(errno.ENOENT, client.rmdir, f"/{HIDDEN}")
    refused(errno.ENOENT, client.unlink, f"/{HIDDEN}")


def test_its_name_can_not_be_taken(client: Client) -> None:
    refused(errno.EACCES, client.mkdir, f"/{HIDDEN}")
    refused(errno.EACCES, client.open, f"/{HIDDEN}", os.O_CREAT | os.O_RDWR)
    refused(errno.EACCES, client.open, f"/{HIDDEN}", os.O_CREAT | os.O_EXCL | os.O_RDWR)
    refused(errno.EACCES, client.symlink, "folder", f"/{HIDDEN}")
    refused(errno.EACCES, client.link, "/file", f"/{HIDDEN}")
    refused(errno.EACCES, client.rename, "/folder", f"/{HIDDEN}")
    refused(errno.EACCES, client.rename, "/file", f"/{HIDDEN}")


def test_elsewhere_the_name_is_like_any_other(client: Client) -> None:
    client.mkdir(f"/folder/{HIDDEN}")
    client.write_file(f"/folder/{HIDDEN}/a", b"a")
    assert client.names("/folder") == {HIDDEN}
    client.rename(f"/folder/{HIDDEN}", "/folder/b")
    assert client.read_file("/folder/b/a") == b"a"
