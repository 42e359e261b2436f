"""An MCP server that offers nothing, and stays as long as its agent."""

from __future__ import annotations

import json
import sys

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer: dict[str, object] = {"tools": []}
    if asked["method"] == "initialize":
        answer = {
            "protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "quiet", "version": "1"},
        }
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
