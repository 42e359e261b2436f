from __future__ import annotations

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "docs" / "reference" / "render_texts.py"


def load_script():
    spec = importlib.util.spec_from_file_location("render_texts", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_catalogue_of_texts_is_current():
    script = load_script()
    assert script.PAGE.read_text(encoding="utf-8") == script.render_page(), (
        "run: python docs/reference/render_texts.py"
    )


def test_the_catalogue_finds_sentences_of_python_and_javascript(tmp_path):
    script = load_script()
    module = tmp_path / "module.py"
    module.write_text(
        '"""A docstring is left out."""\nx = f"Stopped {x} of many tasks."\ny = "key_a"\n'
    )
    assert list(script.python_texts(module)) == ["Stopped {…} of many tasks."]
    code = 'import { a } from "./a.js";\n// A comment.\nshow(`Stop ${a("x")} task`, "x");\n'
    assert list(script.javascript_texts(code)) == ["Stop {…} task"]
