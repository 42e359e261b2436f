"""The dashboard's static files are served, and no others."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from hostler.web.pages import INDEX_FILE, STATIC_FOLDER, read_static_files, serve_file


def test_every_file_of_the_folder_is_known() -> None:
    names = {
        path.relative_to(STATIC_FOLDER).as_posix()
        for path in STATIC_FOLDER.rglob("*")
        if path.is_file()
    }
    assert names == set(read_static_files())


@given(
    st.text()
    | st.lists(st.sampled_from(["..", ".", "js", "/", "\0", "index.html", "%2e"])).map("/".join)
)
def test_no_other_name_is_served(name: str) -> None:
    if name not in read_static_files():
        with pytest.raises(HTTPException):
            serve_file(name)


def test_a_file_that_did_not_change_is_not_sent_again() -> None:
    first = serve_file("js/app.js")
    again = serve_file("js/app.js", f'"other", {first.headers["etag"]}')
    assert (again.status_code, again.body) == (304, b"")
    assert serve_file("js/app.js", '"other"').body == first.body
    assert first.headers["cache-control"] == "no-cache"


def test_every_referenced_file_exists() -> None:
    for name, file in read_static_files().items():
        text = file.body.decode()
        for found in re.findall(r'(?:from|href=|src=)\s*"(/static/|\.{1,2}/)([^"]+)"', text):
            base = PurePosixPath() if found[0] == "/static/" else PurePosixPath(name).parent
            path = PurePosixPath(*_resolved(base / ("../" if found[0] == "../" else "") / found[1]))
            assert path.as_posix() in read_static_files(), f"{name} names {found[0]}{found[1]}"


def _resolved(path: PurePosixPath) -> list[str]:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return parts


def test_the_pages_are_small() -> None:
    assert sum(len(file.body) for file in read_static_files().values()) < 200_000
    assert INDEX_FILE in read_static_files()
