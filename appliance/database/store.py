# SPDX-License-Identifier: Apache-2.0
"""Opens the database: one writer at a time, concurrent readers, stable before a commit returns."""

import contextlib
import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, insert
from sqlalchemy.orm import Session, sessionmaker

from appliance.config import new_target_name
from appliance.database.generation import TARGET, triggers
from appliance.database.models import Base, Installation, Setting

SCHEMA = 1
"""Version of the tables; SQLite stores it as `user_version`."""


class Store:
    """The database of an installation. For several threads at once."""

    def __init__(self, path: Path) -> None:
        """Opens it, and creates its tables first if it is new."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        # Other users must not be able to copy the password hashes and sealed secrets.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self.engine: Engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 30}, pool_size=16, max_overflow=32)
        event.listen(self.engine, "connect", _on_connect)
        event.listen(self.engine, "begin", _on_begin)
        create_tables(self.engine)
        self._sessions = sessionmaker(self.engine, expire_on_commit=False)
        self._committed = threading.Condition()
        self._commits = 0

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """A transaction that may write: committed at the end, undone when anything is raised."""
        with self._sessions.begin() as session:
            yield session
        self.wake()

    def wake(self) -> None:
        with self._committed:
            self._commits += 1
            self._committed.notify_all()

    def wait_for_commit(self, seen: int, seconds: float | None = None) -> int:
        """Waits for a transaction of this process that may have written, unless there were more than `seen` already.

        How many there were, to begin the next wait with; `seen` itself when there was none for so many seconds.
        """
        with self._committed:
            self._committed.wait_for(lambda: self._commits > seen, seconds)
            return self._commits

    @contextlib.contextmanager
    def reading(self) -> Iterator[Session]:
        """A transaction that only reads, and waits for no writer."""
        with self._sessions(bind=self.engine.execution_options(zvaai_reading=True)) as session:
            yield session

    def close(self) -> None:
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


def create_tables(engine: Engine) -> None:
    """Creates all tables in a new database. Several processes may do so at once. Raises RuntimeError for another version's."""
    with engine.begin() as connection:
        version = connection.exec_driver_sql("PRAGMA user_version").scalar()
        if version == SCHEMA:
            return
        if connection.exec_driver_sql("SELECT 1 FROM sqlite_master LIMIT 1").scalar():
            raise RuntimeError(
                f"The database {engine.url.database} has tables of version {version}, and this appliance needs version {SCHEMA}."
                " Start the version of the appliance that wrote it."
            )
        Base.metadata.create_all(connection)
        connection.execute(insert(Setting).values(name=TARGET, value={"name": new_target_name()}))
        for trigger in triggers():
            connection.exec_driver_sql(trigger)
        connection.execute(insert(Installation).values(number=1, id=str(uuid.uuid4()), generation=0))
        connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA}")
