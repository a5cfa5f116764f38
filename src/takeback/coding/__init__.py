"""Coding agents that people already use: telling them to call takeback, and what their hooks say."""
