#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the prose of Markdown pages, the console, help texts and API descriptions: short sentences, and none of the words that
docs/GLOSSARY.md replaces. Sources of the folders in RETIRED have none of their words, neither in names nor in comments. Comments
and docstrings of the folders in COMMENTED have none of the words and constructions of IN_COMMENTS. No source has a
name of IN_NAMES.

usage: prose.py [--all] [PAGE]...

Without pages it checks those of tests/prose-pages, the texts of the console (ui/src/text), help and descriptions (DESCRIBED), and
the sources. A page on that list must pass, so a page can only get better.
With --all it prints figures of every page of the repository and always succeeds. Add a page to the list as soon as it passes.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = REPOSITORY / "tests" / "prose-pages"
MOST_WORDS = 25
CONSOLE = REPOSITORY / "ui/src/text"
MOST_WORDS_ON_A_SCREEN = 20
DESCRIBED = ("appliance/cli", "appliance/api")
"""Folders whose docstrings of commands, operations and schemas, and whose help texts, users read."""
DESCRIBING = {"description", "epilog", "help", "short_help", "summary"}
"""Arguments of calls that have such texts."""

BANNED = {
    r"told": "say who reports what",
    r"asked|asks": "request, or the verb that is meant",
    r"promis(?:e|es|ed|ing)": "reservation, guarantee",
    r"books": "space accounting",
    r"doors?": "interface, frontend",
    r"settl(?:e|es|ed|ing)": "commit, reconcile",
    r"besides?": "next to, concurrent, also",
    r"aside": "in the trash",
    r"(?:a|the|each|one|every) looks?": "scan, check",
    r"is looked at|are looked at": "say who checks",
    r"unless told": "by default",
    r"stays? as it is": "does not change",
    r"(?:has|have|had) (?:it|them) done": "say who does it",
    r"comes? true": "completes",
    r"under way": "running",
    r"what is (?:said|given|asked|sent|there)": "a noun",
    r"(?:is|are|would be) to be": "must be, will be",
    r"of old|of before": "earlier",
    r"who(?:ever)? (?:asks|wants|mends|waits)": "a noun",
}
RETIRED = {
    "appliance/api appliance/cli appliance/domain appliance/gateway appliance/notify": (
        "told asked wanted settle settled standing beside aside picture rounds door books"
    ),
    "ui/src ui/tests": "told asked wanted settle settled standing beside aside promised picture rounds door books",
    "zvol_target": "told asked wanted settle settled standing beside aside promise promised picture door books",
    "packaging": "told asked beside",
    "appliance/database appliance/dataplane appliance/helper appliance/worker appliance/zfs ganesha_fsal": (
        "told asked wanted settled standing beside aside promise promised picture rounds door books"
    ),
    "tests/bench tests/conformance tests/faults tests/integration tests/machine tests/runner tests/simulators tests/support": (
        "told asked wanted settled standing beside aside promise promised picture rounds door books"
    ),
    "tests/browser": "told asked wanted settled standing beside aside promised picture rounds door books",
}
"""Words by folders. A name is split at underscores and capitals, so `TokenTold` has "told"."""
COMMENTED = ("appliance", "ganesha_fsal", "packaging", "tests", "ui/src", "ui/tests", "zvol_target")
IN_COMMENTS = {
    r"told|tells?": "say who reports what",
    r"asked|asks": "request, or the verb that is meant",
    r"promis(?:e|es|ed|ing)": "reservation, guarantee",
    r"beside|aside": "next to, in the trash",
    r"kept": "retained, stored, cached",
    r"whoever|somebody": "a noun: the host, the caller, an admin",
    r"go(?:es)? on": "continues",
    r"of (?:its|their|his) own": "separate",
    r"(?<!there )(?:is|are|was|were) no (?!longer\b|more\b)\w+": "is not a",
    r"one that": "the noun that is meant",
    r"for want of": "for lack of",
    r"in vain|anew|lately": "without result, again, recently",
    r"lets? go": "releases",
    r"(?:is|are) gone": "no longer exists",
    r"(?:is|are|was|were) to be": "must be, will be",
    r"as (?:it was|they were)|stays? as (?:it is|they are)": "unchanged",
    r"unless told|comes? true|is looked at|had it done": "say who does it",
    r"what is (?:said|given|asked|sent)": "a noun",
    r"who(?:ever)? (?:asks|wants|waits|comes)": "a noun",
}
IN_NAMES = {"found", "kept", "one", "own", "since", "standing", "there"}
"""Words that are not names: a name says what it holds. Names of up to three words have none of them, except the number one.
Longer names are sentences, as those of tests."""
NAMED_ELSEWHERE = {"duration_since", "saturating_duration_since", "getOwnPropertyDescriptor", "hasOwn"}
"""Names of libraries. Errors are called not found everywhere."""
NAMED_LIKE_JOURNALCTL = {"audit.ts", "audit.tsx", "journal.py", "logs.ts", "logs.tsx", "queries.ts", "server_log.py", "times.ts"}
"""Files where `since` is an option, as in journalctl(1)."""
SOURCES = {".c", ".h", ".js", ".py", ".rs", ".ts", ".tsx"}
_IN_COMMENTS = [(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), instead) for pattern, instead in IN_COMMENTS.items()]
_BANNED = [(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), instead) for pattern, instead in BANNED.items()]

_CLAUSE = re.compile(r"(?:Of|That|What|Who(?:ever)?|Those|As|One of them|Which of them|Else)\b")
_FENCE = re.compile(r"^\s*(```|~~~)")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_CODE = re.compile(r"``.+?``|`[^`]*`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_\[]*\w)")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|No|Fig|approx)\.")
_WORD = re.compile(r"\w")
_NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_CODE_NAME = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\br(#*)".*?"\1|"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`|'(?:[^'\\\n]|\\.[^'\n]*)'"""
    r"""|(?<=[(,=:>] )/(?:[^/\\\n]|\\.)+/|(?<=\()/(?:[^/\\\n]|\\.)+/|(?P<name>(?<!\.)\bone\b|\b(?!one\b)[A-Za-z_]\w*)""",
    re.DOTALL,
)
"""A comment, a literal or a name. `.one` is a function of libraries."""
_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}")
_C_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_RUST_COMMENT = re.compile(r"(?<!\S)//[/!]? .*$", re.MULTILINE)
_LINE_BREAK = re.compile(r"\s*\n\s*(?:\* )?")
_COMMENT = re.compile(r"^\s*(?:/\*|\*|//)|^import ")


@dataclass(frozen=True)
class Sentence:
    """A sentence or a table row, with the number of its first line."""

    line: int
    text: str
    is_table: bool = False

    @property
    def words(self) -> int:
        """Words as a reader counts them: a code span is one."""
        return sum(1 for word in self.text.split() if _WORD.search(word))


def plain(text: str) -> str:
    """Text without markup. A code span becomes one word, a link its text."""
    text = _LINK.sub(r"\1", _CODE.sub("CODE", text))
    return _ABBREVIATION.sub(lambda match: match[1].replace(".", ""), text)


def blocks(text: str) -> Iterator[tuple[int, str, bool]]:
    """Paragraphs, list items and table rows: first line, text, whether it is a row. Code and headings are left out."""
    start, held, fenced, was_blank, in_list = 0, list[str](), False, True, False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if _FENCE.match(line):
            fenced = not fenced
        blank = not line.strip()
        indented = line.startswith(("    ", "\t")) and not in_list
        code = fenced or _FENCE.match(line) or (indented and was_blank and not held)
        row = line.lstrip().startswith("|")
        if held and (blank or code or row or line.startswith("#") or _ITEM.match(line)):
            yield start, " ".join(held), False
            held = []
        if not blank and not (code or line.startswith(("#", "<!--"))):
            if row:
                yield number, line, True
            else:
                start = start if held else number
                held.append(_ITEM.sub("", line).strip().lstrip("> "))
        if _ITEM.match(line) and not code:
            in_list = True
        elif not blank and not line.startswith(" "):
            in_list = False
        was_blank = blank or (bool(code) and was_blank)


def sentences(text: str) -> Iterator[Sentence]:
    """All sentences of a page, and the rows of its tables."""
    for line, block, is_table in blocks(text):
        if is_table:
            yield Sentence(line, plain(block), True)
        else:
            yield from (Sentence(line, sentence) for sentence in _SENTENCE_END.split(plain(block)) if sentence)


def literals(source: str) -> Iterator[Sentence]:
    """The sentences in the string literals of a TypeScript file. A placeholder counts as a word."""
    for number, line in enumerate(source.splitlines(), 1):
        if _COMMENT.match(line):
            continue
        for double, template in _LITERAL.findall(line):
            text = _PLACEHOLDER.sub("VALUE", double or template)
            yield from (Sentence(number, sentence) for sentence in _SENTENCE_END.split(plain(text)) if sentence)


def descriptions(source: str) -> Iterator[Sentence]:
    """The sentences in help texts, in docstrings of decorated functions, and in docstrings of classes and their fields."""
    for node in ast.walk(ast.parse(source)):
        texts: list[ast.expr] = []
        if isinstance(node, ast.Call):
            texts += [keyword.value for keyword in node.keywords if keyword.arg in DESCRIBING]
            if isinstance(node.func, ast.Name) and node.func.id == "noun":
                texts += node.args[:1]
        elif isinstance(node, ast.ClassDef) or (isinstance(node, ast.FunctionDef) and node.decorator_list):
            body = node.body if isinstance(node, ast.ClassDef) else node.body[:1]
            texts += [statement.value for statement in body if isinstance(statement, ast.Expr)]
        for expression in texts:
            parts = expression.values if isinstance(expression, ast.JoinedStr) else [expression]
            constants = [part.value if isinstance(part, ast.Constant) else "VALUE" for part in parts]
            if all(isinstance(constant, str) for constant in constants):
                yield from (replace(sentence, line=expression.lineno) for sentence in sentences("".join(map(str, constants))))


def problems_of_descriptions(source: str) -> Iterator[tuple[int, str]]:
    """Problems of the help and the descriptions in a Python file: line and text."""
    checked = list(descriptions(source))
    yield from judged(checked, MOST_WORDS)
    for sentence in checked:
        if start := _CLAUSE.match(sentence.text):
            yield sentence.line, f'starts with "{start[0]}" (write: a verb or a noun): {sentence.text[:60]}'


def problems(text: str) -> Iterator[tuple[int, str]]:
    """Problems of a page: line and text."""
    return judged(sentences(text), MOST_WORDS)


def problems_on_screen(source: str) -> Iterator[tuple[int, str]]:
    """Problems of the texts in a TypeScript file: line and text."""
    return judged(literals(source), MOST_WORDS_ON_A_SCREEN)


JUDGES = {".ts": problems_on_screen, ".py": problems_of_descriptions}


def judged(text: Iterable[Sentence], most: int) -> Iterator[tuple[int, str]]:
    """Problems of sentences with a limit of words: line and text."""
    for sentence in text:
        if sentence.words > most and not sentence.is_table:
            yield sentence.line, f"{sentence.words} words in a sentence (at most {most}): {sentence.text[:60]}..."
        for pattern, instead in _BANNED:
            if banned := pattern.search(sentence.text):
                yield sentence.line, f'"{banned[0]}" (write: {instead}): {sentence.text[:60]}'


def comments(source: str, suffix: str) -> Iterator[tuple[int, str]]:
    """Comments and docstrings of a source, each with its first line."""
    if suffix == ".py":
        for node in ast.walk(ast.parse(source)):
            for statement in (
                getattr(node, "body", [])
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                else []
            ):
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    yield statement.lineno, str(statement.value.value)
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        yield from ((token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)
        return
    expressions = [_RUST_COMMENT] if suffix == ".rs" else [_C_COMMENT] if suffix in {".c", ".h"} else [_C_COMMENT, _RUST_COMMENT]
    for expression in expressions:
        yield from ((source.count("\n", 0, match.start()) + 1, match[0]) for match in expression.finditer(source))


def problems_of_comments(source: str, suffix: str) -> Iterator[tuple[int, str]]:
    """Words and constructions of IN_COMMENTS in a source's comments: line and text. Code spans are not checked."""
    for line, text in comments(source, suffix):
        for pattern, instead in _IN_COMMENTS:
            if banned := pattern.search(plain(_LINE_BREAK.sub(" ", text))):
                yield line, f'"{banned[0]}" in a comment (write: {instead})'


def retired_in(source: str, words: set[str]) -> Iterator[tuple[int, str]]:
    """Retired words in a source file: line and word."""
    for number, line in enumerate(source.splitlines(), 1):
        for word in sorted(words & {part.lower() for part in _NAME_PART.findall(line)}):
            yield number, word


def names(source: str, suffix: str) -> Iterator[tuple[int, str]]:
    """Names in a source: line and name. Comments and literals have none."""
    if suffix == ".py":
        before = ""
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NAME and (before, token.string) != (".", "one"):
                yield token.start[0], token.string
            before = token.string
        return
    yield from (
        (source.count("\n", 0, match.start()) + 1, match["name"]) for match in _CODE_NAME.finditer(source) if match["name"]
    )


def says_nothing(name: str) -> bool:
    """Whether a name is, or has, a word of IN_NAMES."""
    parts = [part.lower() for part in _NAME_PART.findall(name)]
    if name in NAMED_ELSEWHERE or "not found" in " ".join(parts):
        return False
    return parts == ["one"] or (len(parts) <= 3 and bool((IN_NAMES - {"one"}) & set(parts)))


def problems_of_names(source: str, suffix: str) -> Iterator[tuple[int, str]]:
    """Names that do not say what they hold: line and text. Next to `until`, `since` is the option of journalctl."""
    all_names = list(names(source, suffix))
    allowed = {"since"} if any(name.lower() == "until" for _, name in all_names) else set()
    for line, name in all_names:
        if says_nothing(name) and name.lower() not in allowed:
            yield line, f'"{name}" is no name (write: what it holds)'


def check_sources() -> int:
    """Prints the retired words in sources, and the problems of their names and comments. Returns how many there are."""
    count = 0
    for folders, words in RETIRED.items():
        files = sorted(file for folder in folders.split() for file in (REPOSITORY / folder).rglob("*") if file.suffix in SOURCES)
        for file in files:
            for line, word in retired_in(file.read_text(), set(words.split())):
                print(f'{file.relative_to(REPOSITORY)}:{line}: "{word}": docs/GLOSSARY.md has the word to use')
                count += 1
    for file in (file for folder in COMMENTED for file in sorted((REPOSITORY / folder).rglob("*")) if file.suffix in SOURCES):
        if file == Path(__file__) or {"build", "node_modules", "target"} & set(file.relative_to(REPOSITORY).parts):
            continue
        source = file.read_text()
        for line, problem in [*problems_of_names(source, file.suffix), *problems_of_comments(source, file.suffix)]:
            print(f"{file.relative_to(REPOSITORY)}:{line}: {problem}")
            count += 1
    return count


def listed() -> list[Path]:
    """The pages, the texts of the console, and the sources with help and descriptions, which must pass."""
    pages = [REPOSITORY / line for line in PAGES.read_text().splitlines() if line and not line.startswith("#")]
    described = [file for folder in DESCRIBED for file in (REPOSITORY / folder).rglob("*.py") if "tests" not in file.parts[-3:]]
    return [*pages, *sorted(CONSOLE.glob("*.ts")), *sorted(described)]


def check(pages: list[Path]) -> int:
    """Prints the problems of these pages. Returns how many there are."""
    count = 0
    for page in pages:
        if not page.is_file():
            print(f"{page}: no such page: remove it from {PAGES.relative_to(REPOSITORY)}")
            count += 1
            continue
        judge = JUDGES.get(page.suffix, problems)
        for line, problem in judge(page.read_text()):
            print(f"{page.resolve().relative_to(REPOSITORY)}:{line}: {problem}")
            count += 1
    return count


def figures() -> None:
    """Prints figures of every page: sentences, median, those that are too long, all problems, whether it is on the list."""
    skipped = {".cache", ".demo", ".git", "node_modules", "target"}
    pages = [page for page in REPOSITORY.rglob("*.md") if not skipped & set(page.relative_to(REPOSITORY).parts)]
    required, total = set(listed()), list[int]()
    print("sentences  median  >25  problems  listed  page")
    for page in sorted(pages):
        text = page.read_text()
        lengths = [sentence.words for sentence in sentences(text) if not sentence.is_table]
        total += lengths
        median, too_long = statistics.median(lengths or [0]), sum(length > MOST_WORDS for length in lengths)
        problem_count, mark = sum(1 for _ in problems(text)), "yes" if page in required else "-"
        print(f"{len(lengths):9}  {median:6.0f}  {too_long:3}  {problem_count:8}  {mark:>6}  {page.relative_to(REPOSITORY)}")
    print(f"{len(total):9}  {statistics.median(total):6.0f}  {sum(length > MOST_WORDS for length in total):3}")


def main(arguments: list[str]) -> int:
    """Exit status: 1 if a page has problems, 2 for a wrong command line."""
    if arguments == ["--all"]:
        figures()
        return 0
    if any(argument.startswith("-") for argument in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    if arguments:
        return 1 if check([Path(argument).absolute() for argument in arguments]) else 0
    return 1 if check(listed()) + check_sources() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
