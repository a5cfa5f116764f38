"""The executable model of effects: an outside world that counts, the rules, random programs, mutations.

`model.Model` is the rules in plain Python; `drive.Drive` runs a program made of a list of integers on any
`subject.Subject` and checks each answer against the world and against what it saw itself; `mutations`
takes one rule away at a time, so that a test can show that each is needed and would be missed.
"""
