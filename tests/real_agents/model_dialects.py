"""How four model APIs put one answer on the wire: a text, or one call of a tool. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

# What every answer is said to have cost.
INPUT, OUTPUT, CACHED = 111, 22, 5
Json = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """What a model answers: words, and a shell command if one is to be run."""

    id: str
    text: str
    command: str = ""


class Dialect(Protocol):
    """One API: which requests are its own, and how it answers and refuses."""

    def speaks(self, path: str) -> bool: ...

    def has_tools(self, body: Mapping[str, Any]) -> bool: ...

    def answer(self, said: Said, body: Mapping[str, Any]) -> Iterator[bytes]: ...

    def refusal(self, status: int, word: str) -> Json: ...


def _event(data: Json, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def _tool_names(body: Mapping[str, Any]) -> set[str]:
    tools = body.get("tools") or []
    return {str(tool.get("name") or tool.get("function", {}).get("name")) for tool in tools}


class Messages:
    """Anthropic's Messages."""

    def speaks(self, path: str) -> bool:
        return path == "/v1/messages"

    def has_tools(self, body: Mapping[str, Any]) -> bool:
        return "Bash" in _tool_names(body)

    def answer(self, said: Said, body: Mapping[str, Any]) -> Iterator[bytes]:
        usage = {"input_tokens": INPUT, "output_tokens": 1, "cache_read_input_tokens": CACHED}
        message = {"id": said.id, "type": "message", "role": "assistant", "content": []}
        message |= {"model": body["model"], "stop_reason": None, "usage": usage}
        yield self._event("message_start", message=message)
        yield from self._block(
            0, {"type": "text", "text": ""}, {"type": "text_delta", "text": said.text}
        )
        if said.command:
            block = {"type": "tool_use", "id": f"toolu_{said.id}", "name": "Bash", "input": {}}
            given = json.dumps({"command": said.command, "description": "As asked"})
            yield from self._block(1, block, {"type": "input_json_delta", "partial_json": given})
        ended = {"stop_reason": "tool_use" if said.command else "end_turn"}
        yield self._event("message_delta", delta=ended, usage={"output_tokens": OUTPUT})
        yield self._event("message_stop")

    def _block(self, index: int, block: Json, delta: Json) -> Iterator[bytes]:
        yield self._event("content_block_start", index=index, content_block=block)
        yield self._event("content_block_delta", index=index, delta=delta)
        yield self._event("content_block_stop", index=index)

    @staticmethod
    def _event(name: str, **data: Any) -> bytes:
        return _event({"type": name, **data}, name)

    def refusal(self, status: int, word: str) -> Json:
        return {"type": "error", "error": {"type": word, "message": f"Refused: {status}"}}


class Responses:
    """OpenAI's Responses."""

    # With what each calls its patience: without it, a command is left alone after ten seconds.
    SHELLS = (("exec_command", "cmd", "yield_time_ms"), ("shell_command", "command", "timeout_ms"))
    PATIENCE_MS = 30_000

    def speaks(self, path: str) -> bool:
        return path == "/v1/responses"

    def has_tools(self, body: Mapping[str, Any]) -> bool:
        return bool(body.get("tools"))

    def answer(self, said: Said, body: Mapping[str, Any]) -> Iterator[bytes]:
        response: Json = {"id": f"resp_{said.id}", "object": "response", "model": body["model"]}
        yield self._event("response.created", response={**response, "status": "in_progress"})
        for item in self._items(said, body):
            yield self._event("response.output_item.done", output_index=0, item=item)
        usage: Json = {"input_tokens": INPUT, "output_tokens": OUTPUT}
        usage |= {"total_tokens": INPUT + OUTPUT, "output_tokens_details": {"reasoning_tokens": 0}}
        usage |= {"input_tokens_details": {"cached_tokens": CACHED}}
        done = {**response, "status": "completed", "usage": usage}
        yield self._event("response.completed", response=done)

    def _items(self, said: Said, body: Mapping[str, Any]) -> Iterator[Json]:
        content = [{"type": "output_text", "text": said.text, "annotations": []}]
        yield {"type": "message", "role": "assistant", "id": f"msg_{said.id}", "content": content}
        if said.command:
            offered = _tool_names(body)
            name, field, patience = next(one for one in self.SHELLS if one[0] in offered)
            call = {"type": "function_call", "id": f"fc_{said.id}", "call_id": f"call_{said.id}"}
            given = {field: said.command, patience: self.PATIENCE_MS}
            yield {**call, "name": name, "arguments": json.dumps(given)}

    @staticmethod
    def _event(name: str, **data: Any) -> bytes:
        return _event({"type": name, **data}, name)

    def refusal(self, status: int, word: str) -> Json:
        return {"error": {"message": f"Refused: {status}", "type": word, "code": word}}


class GenerateContent:
    """Google's streamGenerateContent."""

    def speaks(self, path: str) -> bool:
        return path.endswith((":streamGenerateContent", ":generateContent"))

    def has_tools(self, body: Mapping[str, Any]) -> bool:
        return bool(body.get("tools"))

    def answer(self, said: Said, body: Mapping[str, Any]) -> Iterator[bytes]:
        yield self._chunk(said, [{"text": said.text}])
        parts: list[Json] = []
        if said.command:
            given = {"command": said.command, "description": "As asked"}
            parts = [{"functionCall": {"name": "run_shell_command", "args": given}}]
        yield self._chunk(said, parts, "STOP")

    def _chunk(self, said: Said, parts: list[Json], reason: str = "") -> bytes:
        candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
        if reason:
            candidate["finishReason"] = reason
        usage = {"promptTokenCount": INPUT, "candidatesTokenCount": OUTPUT}
        usage |= {"totalTokenCount": INPUT + OUTPUT, "cachedContentTokenCount": CACHED}
        return _event({"responseId": said.id, "candidates": [candidate], "usageMetadata": usage})

    def refusal(self, status: int, word: str) -> Json:
        return {"error": {"code": status, "message": f"Refused: {status}", "status": word}}


class Completions:
    """OpenAI's chat completions, as many providers speak it."""

    def speaks(self, path: str) -> bool:
        return path == "/v1/chat/completions"

    def has_tools(self, body: Mapping[str, Any]) -> bool:
        return bool(body.get("tools"))

    def answer(self, said: Said, body: Mapping[str, Any]) -> Iterator[bytes]:
        yield self._chunk(said, body, {"role": "assistant", "content": said.text})
        if said.command:
            given = json.dumps({"command": said.command, "description": "As asked"})
            call = {"index": 0, "id": f"call_{said.id}", "type": "function"}
            call["function"] = {"name": "bash", "arguments": given}
            yield self._chunk(said, body, {"tool_calls": [call]})
        yield self._chunk(said, body, {}, "tool_calls" if said.command else "stop")
        yield b"data: [DONE]\n\n"

    def _chunk(self, said: Said, body: Mapping[str, Any], delta: Json, reason: str = "") -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason or None}
        chunk: Json = {"id": said.id, "object": "chat.completion.chunk", "created": 1}
        chunk |= {"model": body["model"], "choices": [choice]}
        if reason:
            chunk["usage"] = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT}
            chunk["usage"] |= {"total_tokens": INPUT + OUTPUT}
        return _event(chunk)

    def refusal(self, status: int, word: str) -> Json:
        return {"error": {"message": f"Refused: {status}", "type": word, "code": word}}


DIALECTS: tuple[Dialect, ...] = (Messages(), Responses(), GenerateContent(), Completions())
