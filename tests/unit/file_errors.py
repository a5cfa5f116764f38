"""How errors about files come about: what they say, and where."""

from __future__ import annotations

import errno
import os

from tests.unit.error_cases import CASES, case

from takeback import errors
from takeback.workspace.home import Home
from takeback.workspace.restore import Restore

__all__ = ["CASES"]


def attached(w):
    """A thread with a workspace of one file, which its last step has changed."""
    place = os.path.join(os.path.dirname(w.path), "project")
    os.makedirs(place, exist_ok=True)
    write(place, "a.txt", "one")
    trip = w.trip
    trip.workspace(place, watch=False)
    with trip.step("edit"):
        write(place, "a.txt", "two")
    return trip, place


def write(place, name, text):
    with open(os.path.join(place, name), "w") as file:
        file.write(text)


@case(errors.WorkspaceRefused, "/ is not attached: it is the root", "force=True", thread="t")
def workspace_refused(w):
    w.trip.workspace("/")


@case(errors.WorkspaceMissing, "project cannot be opened", "thread.workspace(path, name)")
def workspace_missing(w):
    trip, place = attached(w)
    os.rename(place, place + "-moved")
    trip.capture()


@case(errors.WorkspaceBusy, "at work on", "Try again")
def workspace_busy(w):
    trip, place = attached(w)
    lock = Home.lock
    w.patch.setattr(Home, "lock", lambda self: lock(self, 0.0))
    with lock(Home(os.path.realpath(place))):
        trip.capture()


@case(errors.WorkspaceFailed, "Input/output error", "the workspace is as it was", "try again")
def workspace_failed(w):
    trip, _ = attached(w)

    def broken(self, each):
        w.patch.undo()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    w.patch.setattr(Restore, "_change", broken)
    trip.undo()


@case(errors.UnknownFile, "there is no file nope.txt", thread="t", checkpoint=3, path="nope.txt")
def unknown_file(w):
    attached(w)[0].read_file("head", "nope.txt")
