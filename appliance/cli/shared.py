# SPDX-License-Identifier: Apache-2.0
"""Shared by all nouns: the client, the output, jobs and waiting for them, sizes as text."""

import datetime
import inspect
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

import click
import typer
from typer.core import TyperCommand

from appliance.cli.client import FAILED, IN_THE_WAY, INVALID, NOT_FOUND, USAGE, Client, CommandError
from appliance.cli.output import Output, size

Verb = TypeVar("Verb", bound=Callable[..., Any])


class Run(typer.Context):
    """A run of a verb. The root's object is the client and the output."""

    @property
    def client(self) -> Client:
        client: Client = self.find_root().obj[0]
        return client

    @property
    def output(self) -> Output:
        output: Output = self.find_root().obj[1]
        return output

    def path(self, collection: str, name: str, state: str = "active") -> str:
        """Path of the object with this name or identifier in a collection, such as /datastores; `state` as of Client.named.
        Raises CommandError.
        """
        return f"{collection}/{self.client.named(collection, name, state)}"

    def job(self, job: dict[str, Any], wait: bool) -> None:
        """Prints the job. With `wait`, prints its progress and waits for its end. Raises Exit if it ended with a problem."""
        if not wait:
            return (
                self.output.fields(job)
                if self.output.as_json
                else print(f"job {job['id']} ({job['kind']}): zvaai job wait {job['id']}")
            )
        print(f"job {job['id']} ({job['kind']})", file=sys.stderr)
        steps: list[str] = []

        def report(now: dict[str, Any]) -> None:
            if now["step"] and now["step"] not in steps and not self.output.as_json:
                steps.append(now["step"])
                print(f"{now['percent']:3} % {now['step']}", file=sys.stderr)

        ended = self.client.wait(job["id"], report)
        result = ended["result"] or {}
        problems = [*filter(None, [result.get("problem")]), *result.get("problems", ())]
        unserved = result.get("served") is False
        if self.output.as_json:
            self.output.raw(ended)
        else:
            if unserved or problems:
                how = "not served yet" if unserved else "with a problem"
                print(f"done, {how}: {'; '.join(problems) or 'see the alerts'}", file=sys.stderr)
            self.output.fields(result)
            for reason, count in result.get("copied_because", {}).items():
                print(f"copied because of {reason}: {size(count)}", file=sys.stderr)
        if unserved or problems:
            raise typer.Exit(FAILED)
        return None


class _Verb(TyperCommand):
    context_class = Run

    def invoke(self, ctx: click.Context) -> Any:
        """With JSON output, the document of a failure too. Raises CommandError."""
        try:
            return super().invoke(ctx)
        except CommandError as error:
            root = ctx.find_root().obj  # null for a login
            if root and root[1].as_json and error.document is not None:
                root[1].raw(error.document)
            raise


class Noun(typer.Typer):
    """A noun with verbs. The function of a verb takes its Run first."""

    def command(
        self, name: str | None = None, *examples: str, cls: type[TyperCommand] | None = _Verb, **options: Any
    ) -> Callable[[Verb], Verb]:
        """Declares a verb. `examples`: its arguments in examples of the help; without any, an example has none."""

        def declare(verb: Verb) -> Verb:
            text = inspect.cleandoc(verb.__doc__ or "")
            if self.info.name and name:
                lines = [f"Example: zvaai {self.info.name} {name} {example}".rstrip() for example in examples or ("",)]
                text = "\n\n".join([text, *lines])
            declared: Verb = super(Noun, self).command(name, cls=cls, help=text, **options)(verb)
            return declared

        return declare

    def table(self, verb: str, path: str, columns: str, text: str, names: Mapping[str, str] | None = None) -> None:
        """A verb that prints a list. `names`: fields of identifiers, and the lists that have their names."""

        def rows(run: Run) -> None:
            items = run.client.all(path)
            for field, collection in (names or {}).items() if not run.output.as_json else ():
                items = named(items, names_of(run.client, collection), field)
            run.output.rows(items, *columns.split())

        rows.__doc__ = text
        self.command(verb)(rows)

    def deletion(self, collection: str, example: str, question: str, text: str) -> None:
        """Adds the verb `delete` for a named object of a collection."""

        def delete(run: Run, name: str, yes: Yes = False) -> None:
            path = run.path(collection, name)
            confirm(question.format(name=name), yes)
            run.client.delete(path)

        delete.__doc__ = text
        self.command("delete", f"{example} --yes")(delete)


def ask_secret(prompt: str, twice: bool = False, optional: bool = False) -> str:
    """From the terminal, or the first line of standard input. `optional`: the terminal too can give none."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    default = "" if optional else None
    return str(typer.prompt(prompt, hide_input=True, confirmation_prompt=twice, default=default, show_default=False))


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def confirm(question: str, yes: bool) -> None:
    """Requests a confirmation before something is destroyed. Raises CommandError without a terminal, Abort for "no"."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Repeat the command with --yes to confirm.", USAGE)
    typer.confirm(question, abort=True)


def check_new(file: Path) -> None:
    """Refuses a file that exists before any work is done for it. Raises CommandError."""
    if os.path.lexists(file):
        raise CommandError(f"{file} exists. Remove it, or give another name", IN_THE_WAY)


_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def as_bytes(text: str) -> str:
    """A size as people write it: 500G, 2T, 1073741824. Raises CommandError."""
    match = re.fullmatch(r"([0-9]{1,19})\s*([KMGT]?)(?:iB)?", text.strip(), re.IGNORECASE)
    if not match:
        raise CommandError(f"{text!r} is not a size: use a number of bytes, or with K, M, G or T (powers of 1024)", INVALID)
    return str(int(match[1]) * _SUFFIXES[match[2].upper()])


def moment(text: str | None) -> float | None:
    """In seconds since 1970. A number with s, m, h or d is a time ago. Raises CommandError."""
    if text is None:
        return None
    if ago := re.fullmatch(r"([0-9]{1,6})([smhd])", text):
        return time.time() - int(ago[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[ago[2]]
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise CommandError(f"{text!r} is not a time: use 30m, 2h, 3d, or 2026-11-27 08:00", INVALID) from error


Wait = Annotated[bool, typer.Option("--wait", "-w", help="Wait for the job to end.")]
Force = Annotated[bool, typer.Option("--force", help="Also while hosts use it.")]
Store = Annotated[str, typer.Argument(help="Name or identifier of a datastore.")]
Groups = Annotated[list[str] | None, typer.Option("--group", "-g", help="A host group that sees it; repeat for several.")]
Number = Annotated[
    int | None, typer.Option("--lun", help="LUN number; the default is the lowest free one, not of a deleted datastore.")
]


def group_ids(client: Client, names: list[str] | None) -> list[str]:
    """Identifiers of host groups."""
    return [client.named("/host-groups", name) for name in names or ()]


def names_of(client: Client, *paths: str) -> dict[str, str]:
    """Names by identifier; of datastores, hosts and host groups if no list is given."""
    return {item["id"]: item["name"] for path in paths or ("/datastores", "/hosts", "/host-groups") for item in client.all(path)}


def named(items: list[dict[str, Any]], names: dict[str, str], field: str) -> list[dict[str, Any]]:
    """Replaces identifiers by names in a field with one or a list."""

    def name(value: Any) -> Any:
        return [names.get(identifier, identifier) for identifier in value] if isinstance(value, list) else names.get(value, value)

    return [{**item, field: name(item[field])} for item in items]


def changed_list(
    field: str, now: list[str], add: list[str] | None, remove: list[str] | None, names: Mapping[str, str] = MappingProxyType({})
) -> dict[str, list[str]]:
    """New value of the field; nothing if nothing is added or removed. `names` are those of identifiers. Raises CommandError."""
    if not add and not remove:
        return {}
    if absent := sorted(set(remove or ()) - set(now)):
        missing, present = (", ".join(names.get(value, value) for value in values) for values in (absent, now))
        raise CommandError(f"{missing} is not among the {field.replace('_', ' ')}: {present or 'there are none'}", NOT_FOUND)
    return {field: sorted({*now, *(add or ())} - set(remove or ()))}


def noun(name: str, help_text: str) -> Noun:
    return Noun(name=name, no_args_is_help=True, help=help_text)
