# SPDX-License-Identifier: Apache-2.0
"""Opens the database: one writer at a time, readers beside it, stable before a commit returns."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.orm import Session, sessionmaker

_MIGRATIONS = Path(__file__).parent / "migrations"


class Store:
    """The database of an installation. For several threads at once."""

    def __init__(self, path: Path) -> None:
        """Opens it, making or migrating its tables first."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        # Of the password hashes and sealed secrets nobody else should have a copy.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self.engine: Engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 30}, pool_size=16, max_overflow=32)
        event.listen(self.engine, "connect", _on_connect)
        event.listen(self.engine, "begin", _on_begin)
        migrate(self.engine)
        self._sessions = sessionmaker(self.engine, expire_on_commit=False)

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """A transaction that may write: committed at the end, undone when anything is raised."""
        with self._sessions.begin() as session:
            yield session

    @contextlib.contextmanager
    def reading(self) -> Iterator[Session]:
        """A transaction that only reads, and waits for no writer."""
        with self._sessions(bind=self.engine.execution_options(zvaai_reading=True)) as session:
            yield session

    def close(self) -> None:
        """Closes all connections."""
        self.engine.dispose()


def _on_connect(connection: Any, _record: Any) -> None:
    # SQLAlchemy begins transactions itself (_on_begin), so that they lock when they begin, not at the first write.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _on_begin(connection: Any) -> None:
    reading = connection.get_execution_options().get("zvaai_reading", False)
    connection.exec_driver_sql("BEGIN DEFERRED" if reading else "BEGIN IMMEDIATE")


def migrate(engine: Engine) -> None:
    """Brings the tables to what this version needs. Several processes may do so at once."""
    configuration = Config()
    configuration.set_main_option("script_location", str(_MIGRATIONS))
    with engine.begin() as connection:
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, "head")
