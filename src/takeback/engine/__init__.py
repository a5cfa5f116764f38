"""The verbs: commit, rollback, undo, fork, merge, diff, verify. They know the protocol, no database."""
