"""Adapters: takeback as the persistence of agent frameworks. Each module needs the extra of its framework."""
