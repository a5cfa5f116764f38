"""The version of this build; recorded in every checkpoint as its writer."""

__version__ = "0.1.0"
