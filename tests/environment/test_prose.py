# SPDX-License-Identifier: Apache-2.0
"""The prose check: what counts as a sentence and as a word."""

from __future__ import annotations

from pathlib import Path

import prose
import pytest


def problems_in(text: str) -> list[tuple[int, str]]:
    return [(line, problem.split(":")[0]) for line, problem in prose.problems(text)]


def sentence(words: int) -> str:
    return " ".join(["Word", *["word"] * (words - 1)]) + "."


def test_a_sentence_of_25_words_passes_and_one_of_26_fails() -> None:
    assert not problems_in(sentence(25))
    assert problems_in(f"# Title\n\n{sentence(26)}\n") == [(3, "26 words in a sentence (at most 25)")]


def test_a_sentence_may_go_over_lines_and_ends_with_its_paragraph() -> None:
    half = " ".join(["word"] * 13)
    assert problems_in(f"Word {half}\n{half}\n") == [(1, "27 words in a sentence (at most 25)")]
    assert not problems_in(f"{half}\n\n{half}\n")
    assert not problems_in(f"- {half}\n- {half}\n")
    assert not problems_in(f"{sentence(20)} {sentence(20)}")


def test_code_headings_and_links_are_no_prose() -> None:
    many = "told " * 30
    assert not problems_in(f"# {many}\n\nRun this:\n\n    {many}\n\n```\n{many}\n```\n\nThen `{many}` ends.\n")
    assert not problems_in(f"A list:\n\n    + {many}\n    - {many}\n")
    assert not problems_in(f"{' '.join(['word'] * 24)} [link](a-very-long-page.md#with-words)")


def test_code_after_a_list_item_is_its_text() -> None:
    assert problems_in("- An item\n\n    that was told.\n") == [(3, '"told" (write')]


@pytest.mark.parametrize(
    "text", ["The worker is told.", "It promises space.", "Under way: 2.", "a look at pools", "| told | x |"]
)
def test_banned_words_fail_in_text_and_tables(text: str) -> None:
    assert len(problems_in(text)) == 1


def test_retired_words_are_found_in_names_and_comments() -> None:
    source = "class TokenTold: ...\n\nlook_at = 1  # what was asked\nretold = _told\n"
    assert list(prose.retired_in(source, {"told", "asked"})) == [(1, "told"), (3, "asked"), (4, "told")]


@pytest.mark.parametrize(
    ("suffix", "source", "lines"),
    [
        (
            ".rs",
            'let told = "was told"; // Somebody waits.\n/// `kept` is a field.\n//! Goes on.\nlet url = "http://kept";\n',
            [1, 3],
        ),
        (".ts", "let told = 1; // Somebody waits.\n/** Kept. */\nconst url = `http://kept`;\n", [1, 2]),
        (".c", "int told; /* it goes\n * on */\n/* Stops. */\nint kept;\n", [1]),
        (".py", 'told = "kept"\n\n\ndef f():\n    """In vain."""\n    return 1  # kept\n', [5, 6]),
    ],
)
def test_comments_and_docstrings_have_no_private_words(suffix: str, source: str, lines: list[int]) -> None:
    """Names, string literals and code spans are not checked."""
    assert sorted(line for line, _ in prose.problems_of_comments(source, suffix)) == lines


@pytest.mark.parametrize(
    ("suffix", "source", "names"),
    [
        (".py", '"""one"""\nfor one in f"{found} there":\n    self.kept = row.one()  # own\n', ["one", "found", "kept"]),
        (".ts", "const one = `found`; // own\nlist.map((there) => /kept/.test(there.name));\n", ["one", "there", "there"]),
        (
            ".rs",
            "let c = '\"'; fn found_by(x: &'a str) { println!(\"own\") } /* one */ let since = 'o';\n",
            ["found_by", "since"],
        ),
        (".c", "int is_there(void) { return found_in_pages; } /* own */\n", ["is_there", "found_in_pages"]),
        (".py", "def test_a_file_is_found_in_one_folder(): raise FileNotFoundError(one_file, NOT_FOUND)\n", []),
    ],
)
def test_names_say_what_they_hold(suffix: str, source: str, names: list[str]) -> None:
    """Comments, literals, long names, and names of libraries are not checked."""
    assert [name for _, name in prose.names(source, suffix) if prose.says_nothing(name)] == names


def test_long_table_rows_pass() -> None:
    assert not problems_in(f"| a | b |\n|---|---|\n| {sentence(40)} | x |\n")


def test_abbreviations_do_not_end_a_sentence() -> None:
    half = " ".join(["word"] * 13)
    assert problems_in(f"{half}, e.g. Word {half}") == [(1, "28 words in a sentence (at most 25)")]


def test_a_missing_page_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prose.check([tmp_path / "none.md"]) == 1
    assert "no such page" in capsys.readouterr().out


def test_unknown_options_are_refused() -> None:
    assert prose.main(["--nonsense"]) == 2


def test_pages_are_listed() -> None:
    """That they pass is shown by the suite lint-text."""
    assert prose.listed()


def test_texts_of_the_console_have_at_most_20_words_a_sentence() -> None:
    words = " ".join(["word"] * 20)
    assert not list(prose.problems_on_screen(f'  help: "{words}. {words}",\n'))
    assert [line for line, _ in prose.problems_on_screen(f"\n  lead: (name: string) => `{words} ${{name}}`,\n")] == [2]
    assert [line for line, _ in prose.problems_on_screen('  title: "What was asked",')] == [1]
    assert not list(prose.problems_on_screen("  /** What was asked. */\n  asked: readonly string[];\n"))


def test_help_and_descriptions_are_checked() -> None:
    words = " ".join(["word"] * 26)
    source = f'''
@app.command("x")
def x(name: Annotated[str, typer.Option(help="Of a pool.")]) -> None:
    """Was told."""

def y() -> None:
    """Was told."""

class Z(Model):
    """A schema. {words}."""

    name: str
    """Who asks."""
    size: Annotated[int, Field(description=f"Size of {{name}}.")]
'''
    assert sorted({line for line, _ in prose.problems_of_descriptions(source)}) == [3, 4, 10, 13]
