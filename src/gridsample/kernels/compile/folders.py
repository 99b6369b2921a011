"""Where compiled kernels are stored, and how their files are read and written.

The folder is the first of these that is writable:

    $GRIDSAMPLE_CACHE_DIR               if it is set
    $NUMBA_CACHE_DIR/gridsample         if that is set instead
    the user's cache folder             $XDG_CACHE_HOME/gridsample or ~/.cache/gridsample on Linux,
                                        ~/Library/Caches/gridsample on macOS,
                                        %LOCALAPPDATA%/gridsample on Windows
    gridsample-<user id>                in the system's folder for temporary files

Folders earlier in this order are still read: a container image may contain them.

A kernel's file is code, so a file is not read if another user could have written it: the file and
the folder must belong to this user or to root, and be writable by nobody else.  (Windows has no
such modes, but a user's own folders there are private.)  A file begins with a digest of its name
and contents.  Damaged files are not used, and are replaced.  A new file is written next to the old
one and renamed, so that no process ever reads half a file.

Files unused for ``DAYS``, and the least recently used ones beyond ``BYTES``, are removed.
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
SWEPT = "swept"  # a file whose modification time is that of the last removal of old files
MAGIC = b"gridsample kernel 1\n"

# Opening a file never blocks on another process, and links are not followed.
OPEN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class Folder(NamedTuple):
    """A folder of kernels that is safe to read."""

    path: str
    writable: bool


# Choosing a folder --------------------------------------------------------------------------------


class Candidate(NamedTuple):
    """A folder that may be suitable."""

    path: str
    mode: int  # of the folder, if it has to be created
    asked: bool = False  # the user chose it, and is warned if it is unsuitable
    shared: bool = False  # it is where other users may create links


def candidates() -> Iterator[Candidate]:
    """Yield folders in the order of preference."""
    for name, *below in (("GRIDSAMPLE_CACHE_DIR",), ("NUMBA_CACHE_DIR", "gridsample")):
        if value := os.environ.get(name):
            # Others may read it: a container image is often built by one user and run by another.
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
    """Yield the user's cache folders; the caller ignores relative ones."""
    if sys.platform == "win32":
        yield os.environ.get("LOCALAPPDATA", "")
        yield os.path.expanduser("~\\AppData\\Local")
    elif sys.platform == "darwin":
        yield os.path.expanduser("~/Library/Caches")
    else:
        yield os.environ.get("XDG_CACHE_HOME", "")
        yield os.path.expanduser("~/.cache")


def folders() -> list[Folder]:
    """Return the folders to search, in order; only the last can be writable."""
    found: list[Folder] = []
    for path, mode, asked, shared in candidates():
        try:
            if not os.path.isdir(path):
                os.makedirs(os.path.dirname(path), mode, exist_ok=True)
                with contextlib.suppress(FileExistsError):
                    os.mkdir(path, mode)
            status = os.lstat(path) if shared else os.stat(path)
        except OSError as error:
            if asked:  # an unwritable home folder is common
                warn(path, f"gridsample stores no kernels in {path}: {reason(error)}")
            continue
        problem = distrust(status) if stat.S_ISDIR(status.st_mode) else "it is not a folder"
        if problem:
            warn(path, f"gridsample stores no kernels in {path}: {problem}")
            continue
        found.append(Folder(path, os.access(path, os.W_OK | os.X_OK)))
        if found[-1].writable:
            break
    return found


def distrust(status: os.stat_result) -> str:
    """Return why another user might have written a file of this status; empty if none could."""
    if sys.platform != "win32":
        if status.st_uid not in (0, os.geteuid()):
            return "it belongs to another user"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return "other users may write to it (use chmod go-w to prevent that)"
    return ""


def reason(error: OSError) -> str:
    """Return the system's reason for an error."""
    return error.strerror or str(error)


def writable() -> str:
    """Return the folder that kernels are written to; if there is none, warn and return ""."""
    last = folders()[-1:]
    if last and last[0].writable:
        return last[0].path
    warn(
        "",
        "gridsample compiles its kernels again in every process, because no writable folder was "
        "found to store them in; set GRIDSAMPLE_CACHE_DIR to one that is writable",
    )
    return ""


TOLD: set[str] = set()


def warn(key: str, message: str) -> None:
    """Warn once per process for each key."""
    if key not in TOLD:
        TOLD.add(key)
        warnings.warn(message, RuntimeWarning, stacklevel=2)


# Files --------------------------------------------------------------------------------------------


def digest(name: str, payload: bytes) -> bytes:
    """Compute the digest that reveals a damaged file, or a file with another file's name."""
    return hashlib.sha256(name.encode() + b"\0" + payload).digest()


def read(name: str) -> bytes | None:
    """Return what is stored under a name; None if there is nothing, or nothing usable."""
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
            if time.time() - status.st_mtime > DAY:  # a recent date marks the file as used
                with contextlib.suppress(OSError):
                    os.utime(path)
            return payload
        refuse(name, folder.path, problem)
    return None


def refuse(name: str, folder: str, problem: str) -> None:
    """Warn that a file is not used; its kernel is then compiled anew."""
    warn(folder, f"gridsample does not use {name + KERNEL} in {folder}: {problem}")


def write(name: str, payload: bytes) -> bool:
    """Store data under a name, replacing what was there; return whether it is stored."""
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
        warn(folder, f"gridsample cannot store {name + KERNEL} in {folder}: {reason(error)}")
        return False
    with contextlib.suppress(OSError):
        sweep(folder)
    return True


def sweep(folder: str) -> None:
    """Remove unused files, once a day."""
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
    """Wait until no other process or thread holds the turn for a name, then hold it.

    The system ends the turn of a process that dies.  The wait also ends when ``over`` returns True,
    after ``seconds``, or if files cannot be locked.
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
        """Release the lock."""
        os.lseek(place, 0, os.SEEK_SET)
        msvcrt.locking(place, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def lock_file(place: int) -> None:
        """Lock an open file, or raise OSError."""
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock_file(place: int) -> None:
        """Release the lock, also for a forked child that has the file open."""
        fcntl.flock(place, fcntl.LOCK_UN)


def lock(path: str) -> int | None:
    """Open a file and lock it; None if another process has the lock."""
    place = os.open(path, os.O_RDWR | os.O_CREAT | OPEN, 0o644)
    try:
        lock_file(place)
        # Its previous holder removes the file; then it is no longer the file that others lock.
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
