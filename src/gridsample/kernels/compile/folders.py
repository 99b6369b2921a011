"""Where compiled kernels are kept, and how their files are read and written.

The folder is the first of these that can be written to:

    $GRIDSAMPLE_CACHE_DIR               if it is set
    $NUMBA_CACHE_DIR/gridsample         if that is set instead
    the user's cache folder             $XDG_CACHE_HOME/gridsample or ~/.cache/gridsample on Linux,
                                        ~/Library/Caches/gridsample on macOS,
                                        %LOCALAPPDATA%/gridsample on Windows
    gridsample-<user id>                in the system's folder for temporary files

Folders before it in this order are still read: they may have come with a container's image.

A kernel's file is code, so no file is read that another user could have written: file and folder
must belong to this user or to root, and nobody else may write to them.  (Windows has no such modes;
the folders that it gives a user are that user's own.)  A file begins with a digest of its name and
contents: what is damaged is not used, and is replaced.  New files are written beside the old and
renamed, so that no process ever reads half a file.

Files that were not used for ``DAYS``, and the least recently used beyond ``BYTES``, are removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

DAYS, BYTES = 30, 1 << 30
DAY = 86400.0
KERNEL, LOCK, UNFINISHED = ".kernel", ".lock", ".unfinished"
SWEPT = "swept"  # a file whose date says when old files were last removed
MAGIC = b"gridsample kernel 1\n"

# Files of others are never waited for, and links are not followed.
OPEN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class Folder(NamedTuple):
    """A folder of kernels that may be read."""

    path: str
    writable: bool


# Choosing a folder --------------------------------------------------------------------------------


class Candidate(NamedTuple):
    """A folder that might do."""

    path: str
    mode: int  # of the folder, if it is made
    asked: bool = False  # the user asked for it, and hears of it if it will not do
    shared: bool = False  # it lies where other users may put links


def candidates() -> Iterator[Candidate]:
    """Folders in the order of preference."""
    for name, *below in (("GRIDSAMPLE_CACHE_DIR",), ("NUMBA_CACHE_DIR", "gridsample")):
        if value := os.environ.get(name):
            # Others may read it: an image of a container is often built and run by two users.
            yield Candidate(os.path.abspath(os.path.join(value, *below)), 0o755, asked=True)
            break
    for base in user_folders():
        if os.path.isabs(base):
            yield Candidate(os.path.join(base, "gridsample"), 0o700)
            break
    user = str(os.getuid()) if sys.platform != "win32" else "cache"
    try:
        base = tempfile.gettempdir()
    except OSError:
        return
    yield Candidate(os.path.join(base, f"gridsample-{user}"), 0o700, shared=True)


def user_folders() -> Iterator[str]:
    """The user's folders for caches; one that is not absolute does not count."""
    if sys.platform == "win32":
        yield os.environ.get("LOCALAPPDATA", "")
        yield os.path.expanduser("~\\AppData\\Local")
    elif sys.platform == "darwin":
        yield os.path.expanduser("~/Library/Caches")
    else:
        yield os.environ.get("XDG_CACHE_HOME", "")
        yield os.path.expanduser("~/.cache")


def folders() -> list[Folder]:
    """The folders to look in, in order; none but the last can be written to."""
    found: list[Folder] = []
    for path, mode, asked, shared in candidates():
        try:
            if not os.path.isdir(path):
                os.makedirs(os.path.dirname(path), mode, exist_ok=True)
                with contextlib.suppress(FileExistsError):
                    os.mkdir(path, mode)
            status = os.lstat(path) if shared else os.stat(path)
        except OSError as error:
            if asked:  # a home that cannot be written to is usual
                warn(path, f"gridsample keeps no kernels in {path}: {reason(error)}")
            continue
        problem = distrust(status) if stat.S_ISDIR(status.st_mode) else "it is not a folder"
        if problem:
            warn(path, f"gridsample keeps no kernels in {path}: {problem}")
            continue
        found.append(Folder(path, os.access(path, os.W_OK | os.X_OK)))
        if found[-1].writable:
            break
    return found


def distrust(status: os.stat_result) -> str:
    """Why another user might have written what has this status; nothing if none could."""
    if sys.platform != "win32":
        if status.st_uid not in (0, os.geteuid()):
            return "it belongs to another user"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return "other users may write to it (chmod go-w forbids it)"
    return ""


def reason(error: OSError) -> str:
    """Why the system refused."""
    return error.strerror or str(error)


def writable() -> str:
    """The folder that kernels are written to; nothing, and a warning, where there is none."""
    last = folders()[-1:]
    if last and last[0].writable:
        return last[0].path
    warn(
        "",
        "gridsample compiles its kernels again in every process, because no folder was found to "
        "keep them in; set GRIDSAMPLE_CACHE_DIR to one that can be written to",
    )
    return ""


TOLD: set[str] = set()


def warn(key: str, message: str) -> None:
    """Warn, once in a process for each key."""
    if key not in TOLD:
        TOLD.add(key)
        warnings.warn(message, RuntimeWarning, stacklevel=2)


# Files --------------------------------------------------------------------------------------------


def digest(name: str, payload: bytes) -> bytes:
    """What tells a damaged file, or one under another's name."""
    return hashlib.sha256(name.encode() + b"\0" + payload).digest()


def read(name: str) -> bytes | None:
    """What is kept under a name; None if nothing is, or nothing that can be used."""
    for folder in folders():
        path = os.path.join(folder.path, name + KERNEL)
        try:
            with open(os.open(path, os.O_RDONLY | OPEN), "rb") as file:
                status, data = os.fstat(file.fileno()), file.read()
            problem = distrust(status)
        except FileNotFoundError:
            continue
        except OSError as error:
            problem, data = reason(error), b""
        start = len(MAGIC) + hashlib.sha256().digest_size
        payload = data[start:]
        if not problem and data[:start] != MAGIC + digest(name, payload):
            problem = "it is damaged"
        if not problem:
            if time.time() - status.st_mtime > DAY:  # its date is to say that it is in use
                with contextlib.suppress(OSError):
                    os.utime(path)
            return payload
        refuse(name, folder.path, problem)
    return None


def refuse(name: str, folder: str, problem: str) -> None:
    """Say that a file is not used, and so compiled anew."""
    warn(folder, f"gridsample does not use {name + KERNEL} in {folder}: {problem}")


def write(name: str, payload: bytes) -> bool:
    """Keep something under a name, in the place of what was there; returns whether it is kept."""
    folder = writable()
    if not folder:
        return False
    beside = os.path.join(folder, f"{name}-{secrets.token_hex(4)}{UNFINISHED}")
    try:
        place = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPEN, 0o644)
        try:
            with open(place, "wb") as file:
                file.write(MAGIC + digest(name, payload) + payload)
            os.replace(beside, os.path.join(folder, name + KERNEL))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
    except OSError as error:
        warn(folder, f"gridsample cannot keep {name + KERNEL} in {folder}: {reason(error)}")
        return False
    with contextlib.suppress(OSError):
        sweep(folder)
    return True


def sweep(folder: str) -> None:
    """Remove what nobody uses, once a day."""
    now, marker = time.time(), os.path.join(folder, SWEPT)
    if os.path.exists(marker) and now - os.stat(marker).st_mtime < DAY:
        return
    with open(marker, "wb"):
        os.utime(marker)
    files = []
    for entry in os.scandir(folder):
        if entry.name.endswith((KERNEL, LOCK, UNFINISHED)):
            with contextlib.suppress(FileNotFoundError):
                files.append((entry, entry.stat(follow_symlinks=False)))
    room = BYTES
    for entry, status in sorted(files, key=lambda file: -file[1].st_mtime):
        kernel, age = entry.name.endswith(KERNEL), now - status.st_mtime
        room -= status.st_size
        if age > (DAYS * DAY if kernel else DAY) or (kernel and room < 0):
            with contextlib.suppress(OSError):
                os.unlink(entry.path)


# Turns --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def turn(name: str, seconds: float, over: Callable[[], bool]) -> Iterator[None]:
    """Wait until no other process or thread has its turn at a name, and have it.

    The system ends the turn of a process that dies.  Nothing is waited for any longer when what
    was waited for is ``over``, after so many seconds, or where files cannot be locked.
    """
    folder, place = writable(), None
    if folder:
        path, until, pause = os.path.join(folder, name + LOCK), time.monotonic() + seconds, 0.001
        with contextlib.suppress(OSError):
            while (place := lock(path)) is None and time.monotonic() < until and not over():
                time.sleep(pause)
                pause = min(2 * pause, 0.05)
    try:
        yield
    finally:
        if place is not None:
            unlock(path, place)


if sys.platform == "win32":
    import msvcrt

    def lock_file(place: int) -> None:
        """Lock an open file, or raise OSError."""
        msvcrt.locking(place, msvcrt.LK_NBLCK, 1)

    def unlock_file(place: int) -> None:
        """Give up the lock."""
        os.lseek(place, 0, os.SEEK_SET)
        msvcrt.locking(place, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def lock_file(place: int) -> None:
        """Lock an open file, or raise OSError."""
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock_file(place: int) -> None:
        """Give up the lock, for a child that has the file open, too."""
        fcntl.flock(place, fcntl.LOCK_UN)


def lock(path: str) -> int | None:
    """An open file whose lock is ours; None if it is another's."""
    place = os.open(path, os.O_RDWR | os.O_CREAT | OPEN, 0o644)
    try:
        lock_file(place)
        # Who had it before removes it: then it is no longer the file that others lock.
        if os.path.samestat(os.fstat(place), os.stat(path)):
            return place
    except (BlockingIOError, PermissionError, FileNotFoundError):
        pass
    except BaseException:
        os.close(place)
        raise
    os.close(place)
    return None


def unlock(path: str, place: int) -> None:
    """End a turn."""
    with contextlib.suppress(OSError):
        os.unlink(path)
    with contextlib.suppress(OSError):
        unlock_file(place)
    os.close(place)
