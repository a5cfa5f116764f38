"""Putting files back: from the manifest that the disk is at to the one that it should be at.

Nothing is overwritten or removed that is not what the first manifest says: each file is looked at in the
moment in which it is replaced, and what somebody else wrote meanwhile is kept and named. New contents are
written beside first, in a directory of their own, so that a full disk shows before anything is changed.
All of it can be done again from any point: whoever finds it half done runs it again to the end.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable

import msgspec

from takeback.model.manifest import nodes, read
from takeback.model.manifest.nodes import Entry
from takeback.model.manifest.read import Difference
from takeback.model.tree.nodes import Getter
from takeback.workspace import system
from takeback.workspace.beside import Beside
from takeback.workspace.tree import GONE, Tree, is_link_error

_IN_PLACE = 1 << 20  # bytes; a larger file is replaced whole
_WRITE = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_PAGE = 4096

Point = Callable[[str], None]


class Outcome(msgspec.Struct):
    """What was touched, and what was kept as somebody else has it."""

    touched: set[bytes] = set()
    kept: dict[bytes, str] = {}


class Foreign(Exception):
    """Somebody else's: it is kept."""


class Restore:
    """One restore, of `before` (what the disk was captured as) to `after`."""

    def __init__(
        self,
        tree: Tree,
        source: Getter,
        before: bytes,
        after: bytes,
        *,
        name: str = "",
        in_place: bool = True,
        point: Point | None = None,
    ) -> None:
        self.tree, self.source, self.in_place = tree, source, in_place
        self._point = point
        one, two = read.root_of(before, source), read.root_of(after, source)
        self.differences = read.differing(one.tree, two.tree, source)
        self._after_tree = two.tree
        old, new = read.groups_of(one, source), read.groups_of(two, source)
        self.regroup = [group for group in new if group not in old or self._touches(group)]
        self._same_groups = {path for group in new if group in old for path in group}
        self._split = self._parted(old, new, one.tree)
        self._parted_paths = {each.path for each in self._split}
        self._beside = Beside(tree, name)
        self._staged: set[bytes] = set()
        self._modes = self._read_only()
        self._over_written: set[bytes] = set()
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """Stage, remove, make, change, sync. A crash anywhere: run it again."""
        if not (self.differences or self.regroup or self._split):
            return self.outcome
        try:
            self._left_behind()
            self._beside.clear()
            self._at("stage")
            with self._beside.room():
                self._stage()
                self._beside.ready()
            self._at("staged")
            for each in reversed(self.differences):
                self._guarded(self._remove, each)
            self._at("removed")
            for each in self.differences:
                self._guarded(self._make, each)
            for each in [*self.differences, *self._split]:
                self._guarded(self._change, each)
            self._at("changed")
            self._link_groups()
            self._directory_modes()
            self._at("sync")
            moved = {path.rpartition(b"/")[0] for path in self.outcome.touched - self._over_written}
            self._beside.sync(moved)
            self._at("synced")
            self._beside.clear()
        finally:
            self._beside.close()
        return self.outcome

    def _left_behind(self) -> None:
        """A run that broke may have moved somebody else's contents aside: they go back where they were."""
        names = self._beside.left_behind()
        for each in self.differences + self._split if names else []:
            aside, at = self._beside.place(each.path)
            if at not in names or any(self._is_in(aside, at, e) for e in (each.before, each.after) if e):
                continue
            fd, name = self._writable(each.path)
            try:
                system.move_new(aside, at, fd, name)
            except FileExistsError:
                system.exchange(aside, at, fd, name)
            self.outcome.kept[each.path] = "was changed meanwhile"

    # --- what is to be done

    def _touches(self, group: list[bytes]) -> bool:
        touched = {each.path for each in self.differences}
        return any(path in touched for path in group)

    def _parted(self, old: list[list[bytes]], new: list[list[bytes]], tree: bytes) -> list[Difference]:
        """Names that were one file and are not any more: each gets a file of its own."""
        touched = {each.path for each in self.differences}
        parted = []
        for group in old:
            if group in new:
                continue
            for path in group:
                entry = read.find(self._after_tree, path, self.source)
                if path not in touched and entry is not None and entry.is_file:
                    parted.append(Difference(path, read.find(tree, path, self.source), entry))
        return parted

    def _read_only(self) -> dict[bytes, int]:
        """Directories that are made writable on the way, and, after a crash, may be so still."""
        found = {}
        for path in {each.path.rpartition(b"/")[0] for each in self.differences} - {b""}:
            entry = read.find(self._after_tree, path, self.source)
            if entry is not None and entry.is_dir and entry.mode & 0o300 != 0o300:
                found[path] = entry.mode
        return found

    def _stage(self) -> None:
        """Write every new content beside; what can be changed in its place is not written twice."""
        for each in self.differences + self._split:
            entry = each.after
            if entry is None or not entry.is_file:
                continue
            if self._fits_in_place(each):
                read.contents(entry, self.source)  # what is not there or damaged shows before any change
                continue
            if (
                each.before is not None
                and _same_content(each.before, entry)
                and each.path not in self._parted_paths
            ):
                continue
            self._write_beside(each.path, entry)
            self._at("staged one")

    def _write_beside(self, path: bytes, entry: Entry) -> None:
        self._beside.write(path, entry, self.source)
        self._staged.add(path)

    def _fits_in_place(self, each: Difference) -> bool:
        """Whether a file can be written over: small, no program that may run, no bigger than its room."""
        before, after = each.before, each.after
        if not self.in_place or before is None or after is None or each.path in self._parted_paths:
            return False
        if before.kind != nodes.FILE or after.kind != nodes.FILE or (before.mode | after.mode) & 0o111:
            return False
        found = self.tree.lstat(each.path)
        if found is None or not stat.S_ISREG(found.st_mode):
            return False
        room = min(found.st_blocks * 512, _IN_PLACE)
        return after.size <= room and (found.st_nlink == 1 or each.path in self._same_groups)

    # --- doing it

    def _guarded(self, act: Callable[[Difference], None], each: Difference) -> None:
        """One path; what is not as it was captured is kept."""
        if each.path in self.outcome.kept:
            return
        try:
            act(each)
        except Foreign as why:
            self.outcome.kept[each.path] = str(why)
        except GONE:
            self.outcome.kept[each.path] = "what is above it is gone"
        except OSError as error:
            if not is_link_error(error):
                raise
            self.outcome.kept[each.path] = "a link stands above it"

    def _remove(self, each: Difference) -> None:
        before, after = each.before, each.after
        if before is None or (after is not None and before.is_dir == after.is_dir and _swappable(each)):
            return
        found = self.tree.lstat(each.path)
        if found is None:
            return
        if after is not None and self._is(each.path, found, after):
            return  # it was brought here already
        self.outcome.touched.add(each.path)
        self._at("remove")
        if before.is_dir:
            self._remove_directory(each.path, found)
        else:
            self._take_away(each.path, before)

    def _remove_directory(self, path: bytes, found: os.stat_result) -> None:
        if not stat.S_ISDIR(found.st_mode):
            raise Foreign("was replaced meanwhile")
        self.tree.forget(path)
        fd, name = self._writable(path)
        try:
            os.rmdir(name, dir_fd=fd)
        except OSError:
            raise Foreign("holds what no checkpoint holds") from None

    def _take_away(self, path: bytes, before: Entry) -> None:
        """Move it out of the way, look at what was moved, and only then remove it."""
        fd, name = self._writable(path)
        aside, at = self._beside.place(path)
        os.rename(name, at, src_dir_fd=fd, dst_dir_fd=aside)
        if self._is_in(aside, at, before):
            os.unlink(at, dir_fd=aside)
            return
        with contextlib.suppress(FileExistsError):  # somebody made a new one already: then both are kept
            system.move_new(aside, at, fd, name)
        raise Foreign("was changed meanwhile")

    def _make(self, each: Difference) -> None:
        before, after = each.before, each.after
        if after is None or (before is not None and before.is_dir == after.is_dir and _swappable(each)):
            return
        found = self.tree.lstat(each.path)
        if found is not None and self._is(each.path, found, after):
            self._mode(each.path, found, after)
            return
        if found is not None:
            raise Foreign("something else stands there")
        self.outcome.touched.add(each.path)
        self._at("make")
        fd, name = self._writable(each.path)
        try:
            if after.is_dir:
                os.mkdir(name, 0o700, dir_fd=fd)
                self._modes[each.path] = after.mode
            elif after.kind == nodes.LINK:
                os.symlink(after.data, name, dir_fd=fd)
            else:
                aside, at = self._beside.place(each.path)
                system.move_new(aside, at, fd, name)
        except FileExistsError:
            raise Foreign("somebody made it meanwhile") from None

    def _change(self, each: Difference) -> None:
        before, after = each.before, each.after
        if before is None or after is None or before.is_dir != after.is_dir or not _swappable(each):
            return
        self.outcome.touched.add(each.path)
        if after.is_dir:
            self._modes[each.path] = after.mode
            return
        self._at("change")
        if (
            after.is_file
            and before.is_file
            and _same_content(before, after)
            and each.path not in self._parted_paths
        ):
            self._only_mode(each.path, after)
        elif each.path in self._staged or after.kind == nodes.LINK:
            self._replace(each.path, before, after)
        else:
            self._over(each.path, before, after)

    def _over(self, path: bytes, before: Entry, after: Entry) -> None:
        """Written over in its place, while nobody else has it open; replaced where somebody has."""
        try:
            fd = self.tree.open_file(path, _WRITE)
        except GONE:
            raise Foreign("was removed meanwhile") from None
        except OSError:  # a program that runs, a link, a file that cannot be written
            fd = -1
        if fd >= 0 and self._alone(path, fd, before, after):
            return
        self._write_beside(path, after)
        self._replace(path, before, after)

    def _alone(self, path: bytes, fd: int, before: Entry, after: Entry) -> bool:
        """Whether nobody else had the file open, so that it could be written over."""
        wrote = False
        try:
            with system.Lease(fd) as alone:
                if alone:
                    self._write_over(fd, before, after)
                    wrote = True
        finally:
            if wrote:
                self._over_written.add(path)
                self._beside.later(fd)
            else:
                os.close(fd)
        return wrote

    def _write_over(self, fd: int, before: Entry, after: Entry) -> None:
        found = os.fstat(fd)
        there = os.pread(fd, found.st_size + 1, 0)
        new = read.contents(after, self.source)
        if there != new:
            if nodes.digest(nodes.blob(there)) != before.data:
                old = read.contents(before, self.source)
                if not torn(there, old, new):
                    raise Foreign("was changed meanwhile")
            os.pwrite(fd, new, 0)
            self._at("written over")
            if len(new) < found.st_size:
                os.ftruncate(fd, len(new))
        if stat.S_IMODE(found.st_mode) != after.mode:
            os.fchmod(fd, after.mode & 0o777)

    def _replace(self, path: bytes, before: Entry, after: Entry) -> None:
        """New and old change places; if the old is not what was captured, they change back."""
        found = self.tree.lstat(path)
        if found is None:
            raise Foreign("was removed meanwhile")
        if self._is(path, found, after) and path not in self._parted_paths:
            self._mode(path, found, after)
            return
        aside, at = self._beside.place(path)
        if after.kind == nodes.LINK:
            os.symlink(after.data, at, dir_fd=aside)
        fd, name = self._writable(path)
        if not self._is(path, found, before):
            raise Foreign("was changed meanwhile")
        if system.exchange(aside, at, fd, name):
            if not self._is_in(aside, at, before):
                system.exchange(aside, at, fd, name)
                raise Foreign("was changed meanwhile")
            os.unlink(at, dir_fd=aside)
        self._at("replaced")

    def _only_mode(self, path: bytes, after: Entry) -> None:
        found = self.tree.lstat(path)
        if found is None or not self._is(path, found, after):
            raise Foreign("was changed meanwhile")
        self._mode(path, found, after)

    def _mode(self, path: bytes, found: os.stat_result, after: Entry) -> None:
        if after.is_dir:
            self._modes[path] = after.mode
        elif after.is_file and stat.S_IMODE(found.st_mode) & 0o777 != after.mode:
            fd = self.tree.open_file(path)
            try:
                os.fchmod(fd, after.mode & 0o777)
            finally:
                os.close(fd)

    # --- names that are one file

    def _link_groups(self) -> None:
        for group in self.regroup:
            held = [path for path in group if path not in self.outcome.kept]
            for path in held[1:]:
                self._guarded(self._linked_to(held[0]), Difference(path, None, None))

    def _linked_to(self, first: bytes) -> Callable[[Difference], None]:
        def act(each: Difference) -> None:
            one, two = self.tree.lstat(first), self.tree.lstat(each.path)
            if one is None or two is None or (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino):
                return
            entry = read.find(self._after_tree, each.path, self.source)
            if entry is None or not (self._is(first, one, entry) and self._is(each.path, two, entry)):
                raise Foreign("is not what it was one file with")
            self.outcome.touched.add(each.path)
            aside, at = self._beside.place(each.path, b".link")
            above, name = self.tree.at(first)
            os.link(name, at, src_dir_fd=above, dst_dir_fd=aside, follow_symlinks=False)
            fd, to = self._writable(each.path)
            os.rename(at, to, src_dir_fd=aside, dst_dir_fd=fd)

        return act

    # --- looking

    def _is(self, path: bytes, found: os.stat_result, entry: Entry) -> bool:
        """Whether what stands at a path is this entry, its mode apart."""
        fd, name = self.tree.at(path)
        return self._same(fd, name, found, entry)

    def _is_in(self, fd: int, name: bytes, entry: Entry) -> bool:
        return self._same(fd, name, os.stat(name, dir_fd=fd, follow_symlinks=False), entry)

    def _same(self, fd: int, name: bytes, found: os.stat_result, entry: Entry) -> bool:
        if entry.is_dir:
            return stat.S_ISDIR(found.st_mode)
        if entry.kind == nodes.LINK:
            return stat.S_ISLNK(found.st_mode) and os.readlink(name, dir_fd=fd) == entry.data
        if not stat.S_ISREG(found.st_mode) or found.st_size != entry.size:
            return False
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=fd)
        with os.fdopen(file, "rb") as stream:
            if entry.kind == nodes.FILE:
                return nodes.digest(nodes.blob(stream.read())) == entry.data
            return all(stream.read(len(part)) == part for part in read.parts(entry, self.source))

    # --- modes

    def _writable(self, path: bytes) -> tuple[int, bytes]:
        """The directory of a path, made writable for as long as the restore takes."""
        parent, _, name = path.rpartition(b"/")
        fd = self.tree.directory(parent)
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        if mode & 0o300 != 0o300:
            self._modes.setdefault(parent, mode)
            os.fchmod(fd, mode | 0o300)
        return fd, name

    def _directory_modes(self) -> None:
        """Last, and the deepest first: a directory that is read-only could not be written into before."""
        for path in sorted(self._modes, reverse=True):
            with contextlib.suppress(*GONE):
                os.fchmod(self.tree.directory(path), self._modes[path] & 0o7777)

    def _at(self, label: str) -> None:
        if self._point is not None:
            self._point(label)


def torn(there: bytes, old: bytes, new: bytes) -> bool:
    """Whether this can be the new contents half written over the old: every page is of one or the other."""
    if len(there) not in (len(old), max(len(old), len(new)), len(new)):
        return False
    pages = range(0, len(there), _PAGE)
    ends = ((there[at : at + _PAGE], old[at : at + _PAGE], new[at : at + _PAGE]) for at in pages)
    return all(
        page in (one, two) or (page.startswith(two) and page[len(two) :] == one[len(two) :])
        for page, one, two in ends
    )


def _swappable(each: Difference) -> bool:
    """Whether one can be put in the other's place in one step: a file or link for a file or link."""
    before, after = each.before, each.after
    return before is not None and after is not None and before.is_dir == after.is_dir


def _same_content(one: Entry, two: Entry) -> bool:
    return (one.kind, one.size, one.data) == (two.kind, two.size, two.data)
