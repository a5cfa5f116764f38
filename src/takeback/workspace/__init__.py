"""Directories whose files are checkpointed: captured and put back. Knows objects, not threads."""
