"""What an adapter says where its framework is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("openai_agents", "agents", "openai-agents"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
        ("claude_agent", "claude_agent_sdk", "claude-agent"),
    ],
)
def test_an_absent_framework_names_its_extra(module, package, extra):
    """The one line that helps: what to install."""
    script = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from takeback.errors import MissingExtra\n"
        f"try:\n    import takeback.adapters.{module}\n"
        "except MissingExtra as error:\n    print(error)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert f"pip install 'takeback[{extra}]'" in said
