"""Many at once."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from hostler.sandbox.auth import token_for
from hostler.sandbox.server import NO_TLS

COMMENTS = "/repos/alice/demo/issues/1/comments"
WRITERS, EACH = 50, 10


async def write(url: str, writer: int) -> list[int]:
    headers = {"Authorization": f"Bearer {token_for('alice')}"}
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=60, trust_env=False, verify=NO_TLS
    ) as client:
        made = []
        for turn in range(EACH):
            answer = await client.post(COMMENTS, json={"body": f"{writer}:{turn}"})
            assert answer.status_code == 201, answer.text
            made.append(answer.json()["id"])
        return made


async def write_all(url: str) -> list[list[int]]:
    return await asyncio.gather(*(write(url, writer) for writer in range(WRITERS)))


@pytest.mark.long
def test_fifty_writers_lose_and_double_nothing(sandbox):
    made = asyncio.run(write_all(sandbox.url))
    ids = [number for mine in made for number in mine]
    assert len(set(ids)) == WRITERS * EACH
    assert all(mine == sorted(mine) for mine in made)
    with sandbox.client("alice") as alice:
        found: list[dict] = []
        for page in range(1, 6):
            found += alice.get(COMMENTS, params={"per_page": 100, "page": page}).json()
        assert [item["id"] for item in found] == sorted(ids)
        said = {item["body"] for item in found}
        assert said == {f"{writer}:{turn}" for writer in range(WRITERS) for turn in range(EACH)}
        assert alice.get("/repos/alice/demo/issues/1").json()["comments"] == WRITERS * EACH
