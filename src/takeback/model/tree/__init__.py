"""The content-addressed value tree: a state as objects that versions, forks and threads share.

A tree is a pure function of its value, however the value came about: equal values have equal roots.
`build` makes one (along the boundaries of the version before), `edit` changes one path of one,
`read` gives values back, `compare` walks only what differs, `walk` visits what a root rests on.
"""
