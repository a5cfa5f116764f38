"""File manifests: what a workspace's files were, as content-addressed nodes, a directory each.

`nodes` is the grammar and refuses what could lead out of a workspace, `read` finds and walks, `edit`
makes the next manifest from the last, `diff` walks only what differs.
"""
