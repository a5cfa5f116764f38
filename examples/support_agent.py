"""An agent that answers a support ticket goes wrong, and a person takes it back: undo, redo, revert."""

import takeback

with takeback.open(":memory:", actor="support-agent") as tb:
    ticket = tb.thread("ticket/1", agent="support", initial={"status": "open", "notes": [], "tags": []})

    ticket.append("notes", "customer cannot log in", reason="read the ticket")
    with ticket.step("triage", reason="looks like an outage") as step:
        step.state["status"] = "escalated"
        step.state["tags"] = ["outage"]
    ticket.append("notes", "asked the on-call team", reason="escalation")

    # A person sees that it was no outage. One version in the middle goes, what came after stays.
    print(ticket.plan_revert(2))
    ticket.revert(2, reason="it was a typo in the password", actor="person")
    assert ticket.state["status"] == "open"
    assert ticket.state["notes"] == ["customer cannot log in", "asked the on-call team"]

    # And if that was wrong, it is one call back.
    ticket.undo(actor="person")
    assert ticket.state["tags"] == ["outage"]
    ticket.redo(actor="person")

    for checkpoint in ticket.history():
        print(checkpoint.version, checkpoint.kind, checkpoint.actor, checkpoint.reason)
