"""Claude Agent SDK on takeback: sessions are mirrored, taken back by a person, and resumed from what is left.

Needs no key and no network: this file is also the `claude` that the SDK starts, a script which answers.
`pip install 'takeback[claude-agent]'`
"""

import asyncio
import json
import os
import stat
import sys
import uuid
from pathlib import Path


def scripted_claude(arguments: list[str]) -> None:
    """What the SDK takes for its command line: keeps a transcript, mirrors it, answers each prompt once."""
    if "-v" in arguments or "--version" in arguments:
        print("2.99.0 (scripted)")
        return
    resumed = next((part.partition("=")[2] for part in arguments if part.startswith("--resume=")), None)
    if "--resume" in arguments:
        resumed = arguments[arguments.index("--resume") + 1]
    session = resumed or str(uuid.uuid4())
    folder = Path(os.environ["CLAUDE_CONFIG_DIR"]) / "projects" / os.environ["PROJECT"]
    transcript = folder / f"{session}.jsonl"
    transcript.parent.mkdir(parents=True, exist_ok=True)
    turns = len(transcript.read_text().splitlines()) if transcript.exists() else 0

    def say(**message: object) -> None:
        print(json.dumps(message), flush=True)

    for line in sys.stdin:
        got = json.loads(line)
        if got["type"] == "control_request":
            answer = {"subtype": "success", "request_id": got["request_id"], "response": {}}
            say(type="control_response", response=answer)
        if got["type"] != "user":
            continue
        reply = {
            "role": "assistant",
            "model": "scripted",
            "content": [
                {"type": "text", "text": f"I remember {turns} lines; you say {got['message']['content']!r}"}
            ],
        }
        entries = [
            {"type": role, "uuid": str(uuid.uuid4()), "sessionId": session, "message": message,
             "timestamp": "2026-01-01T00:00:00.000Z"}
            for role, message in (("user", got["message"]), ("assistant", reply))
        ]  # fmt: skip
        with transcript.open("a") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)
        say(type="transcript_mirror", filePath=str(transcript), entries=entries)
        say(type="assistant", message=reply, session_id=session, parent_tool_use_id=None)
        say(type="result", subtype="success", is_error=False, session_id=session, result="done",
            duration_ms=1, duration_api_ms=1, num_turns=1, total_cost_usd=0.0, usage={})  # fmt: skip


async def main() -> None:
    from claude_agent_sdk import (
        AssistantMessage,
        ClaudeAgentOptions,
        ResultMessage,
        TextBlock,
        project_key_for_directory,
        query,
    )

    from takeback.adapters.claude_agent import TakebackSessionStore

    folder = Path.cwd()
    claude = folder / "claude"
    claude.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).resolve()}" --scripted-claude "$@"\n'
    )
    claude.chmod(claude.stat().st_mode | stat.S_IXUSR)
    project = project_key_for_directory(str(folder))

    async with TakebackSessionStore("agent.db", actor="coder") as store:

        async def ask(prompt: str, resume: str | None = None) -> tuple[str, str]:
            options = ClaudeAgentOptions(
                cli_path=str(claude), session_store=store, resume=resume, cwd=str(folder),
                env={"CLAUDE_CONFIG_DIR": str(folder / "config"), "PROJECT": project},
            )  # fmt: skip
            said, session = "", ""
            async for message in query(prompt=prompt, options=options):
                if isinstance(message, AssistantMessage) and isinstance(message.content[0], TextBlock):
                    said = message.content[0].text
                if isinstance(message, ResultMessage):
                    session = message.session_id
            return said, session

        said, session = await ask("Rename the module")
        print(said)
        said, _ = await ask("Now delete the tests", resume=session)
        print(said)
        assert "remember 2 lines" in said

        # A person takes the last turn back, on the command line or here; the agent resumes without it.
        thread = await store.thread(project, session)
        print(await thread.plan_undo())
        await thread.undo(reason="the tests are needed", actor="ann")
        told = await store.taken_back(project, session)
        print(told)
        said, _ = await ask(f"Go on. ({told})", resume=session)
        assert "remember 2 lines" in said
        for path in await store.export_session(project, session, "transcripts"):
            print("written:", path.name.endswith(".jsonl"))


if "--scripted-claude" in sys.argv:
    scripted_claude(sys.argv)
else:
    asyncio.run(main())
