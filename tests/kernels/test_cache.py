"""The kernels' cache on disk: no fault of it reaches a caller, and nobody else's code is loaded."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gridsample
from gridsample.kernels.compile import cache, folders
from gridsample.kernels.compile.jit import compile_driver
from gridsample.kernels.compile.lower import rebind

TESTS = Path(__file__).parents[1]
SOURCE = Path(gridsample.__file__).parent

posix = pytest.mark.skipif(os.name == "nt", reason="owners and modes of POSIX")
as_root = pytest.mark.skipif(
    os.name == "nt" or os.geteuid() != 0, reason="only root can give files away"
)


def double(x: Any, out: Any) -> None:
    for i in range(len(x)):
        out[i] = FACTOR * x[i]  # type: ignore[name-defined]  # noqa: F821


def call(name: str = "double_2", factor: float = 2.0) -> str:
    """Call a small kernel as a new process would, and say how the machine code was had."""
    before = cache.tally.copy()
    driver = compile_driver(rebind(double, {"FACTOR": np.float32(factor)}, name))
    x, out = np.arange(7, dtype=np.float32), np.zeros(7, np.float32)
    driver(x, out)
    np.testing.assert_array_equal(out, np.float32(factor) * x)
    (how,) = (cache.tally - before).elements()
    return how


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that kernels are kept in, in a process that has not warned of anything."""
    monkeypatch.setattr(folders, "TOLD", set())
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("GRIDSAMPLE_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def kernels(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.kernel"))


# Keeping ------------------------------------------------------------------------------------------


def test_a_kernel_is_compiled_once_and_then_loaded(folder: Path) -> None:
    assert [call(), call(), call()] == ["compiled", "loaded", "loaded"]
    assert len(kernels(folder)) == 1
    assert {path.name for path in folder.iterdir()} == {kernels(folder)[0].name, "swept"}


def test_nothing_is_kept_beside_the_sources(folder: Path) -> None:
    def files() -> set[Path]:
        return {path for path in SOURCE.rglob("*") if path.suffix != ".pyc"}

    before = files()
    call()
    assert files() == before


def test_what_code_depends_on_is_in_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = compile_driver(rebind(double, {"FACTOR": 1.0}, "double_1"))
    kept = driver._cache

    def name() -> str:
        cache.environment.cache_clear()
        return str(kept.name(("a type",)))

    names = {name(), kept.name(("another type",))}
    with monkeypatch.context() as patch:
        patch.setattr(cache.config, "BOUNDSCHECK", 1)
        names.add(name())
    for module, version in ((cache, "__version__"), (cache.numba, "__version__")):
        with monkeypatch.context() as patch:
            patch.setattr(module, version, "0.0")
            names.add(name())
    with monkeypatch.context() as patch:
        codegen = SimpleNamespace(magic_tuple=lambda: ("another", "processor", ""))
        patch.setattr(kept, "context", SimpleNamespace(codegen=lambda: codegen))
        names.add(name())
    cache.environment.cache_clear()
    assert len(names) == 6
    assert all(one.startswith("double-") for one in names)


# Faults -------------------------------------------------------------------------------------------


def flipped(data: bytes) -> bytes:
    return data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut in the header": lambda data: data[:30],
    "cut": lambda data: data[: len(data) // 2],
    "one bit": flipped,
    "random": lambda data: np.random.default_rng(5).bytes(len(data)),
    "another format": lambda data: b"gridsample kernel 0\n" + data[20:],
    "zeros": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_file_is_replaced(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    call()
    (path,) = kernels(folder)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(RuntimeWarning, match="damaged") as told:
        assert call() == "compiled"
    assert [str(folder) in str(one.message) for one in told] == [True]
    assert call() == "loaded"


def test_a_file_under_the_name_of_another_is_replaced(folder: Path) -> None:
    call()
    (first,) = kernels(folder)
    call("double_3", 3.0)
    (other,) = set(kernels(folder)) - {first}
    os.replace(other, first)
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert call() == "compiled"


@pytest.mark.parametrize("payload", [b"", b"no pickle", b"\x80\x04N.", b"cnowhere\nnothing\n."])
def test_what_cannot_be_loaded_is_replaced(folder: Path, payload: bytes) -> None:
    call()
    folders.write(kernels(folder)[0].stem, payload)
    with pytest.warns(RuntimeWarning, match="does not use double-.* in "):
        assert call() == "compiled"
    assert call() == "loaded"


def test_a_folder_in_the_place_of_a_file(folder: Path) -> None:
    call()
    (path,) = kernels(folder)
    path.unlink()
    path.mkdir()
    with pytest.warns(RuntimeWarning, match=str(folder)) as told:
        assert [call(), call()] == ["compiled", "compiled"]
    assert len(told) == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no file here that is always full")
def test_a_full_disk_is_told_of_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def open_full(path: str, flags: int, mode: int = 0o777) -> int:
        if not str(path).endswith(folders.UNFINISHED):
            return real(path, flags, mode)
        os.close(real(path, flags, mode))
        return real("/dev/full", os.O_WRONLY)

    with monkeypatch.context() as patch:
        patch.setattr(folders.os, "open", open_full)
        with pytest.warns(RuntimeWarning, match="No space left") as told:
            assert [call(), call()] == ["compiled", "compiled"]
    assert [str(folder) in str(one.message) for one in told] == [True]
    assert list(folder.iterdir()) == []
    assert [call(), call()] == ["compiled", "loaded"]


# Whose files are read -----------------------------------------------------------------------------


@posix
@pytest.mark.parametrize(
    ("owner", "mode", "trusted"),
    [
        (1000, 0o100600, True),
        (1000, 0o100644, True),
        (0, 0o40755, True),
        (1000, 0o100664, False),
        (1000, 0o40702, False),
        (1001, 0o100600, False),
    ],
)
def test_who_is_trusted(
    monkeypatch: pytest.MonkeyPatch, owner: int, mode: int, trusted: bool
) -> None:
    monkeypatch.setattr(folders.os, "geteuid", lambda: 1000)
    status: Any = SimpleNamespace(st_uid=owner, st_mode=mode)
    assert (folders.distrust(status) == "") is trusted


@posix
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_a_folder_that_others_may_write_to_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    call()
    folder.chmod(mode)
    with pytest.warns(RuntimeWarning, match=f"{folder}: other users may write to it") as told:
        assert [call(), call()] == ["compiled", "loaded"]
    assert len(told) == 1
    assert len(kernels(tmp_path / "home" / "gridsample")) == 1


@posix
def test_a_file_that_others_may_write_to_is_replaced(folder: Path) -> None:
    call()
    (path,) = kernels(folder)
    path.chmod(0o666)
    with pytest.warns(RuntimeWarning, match=f"in {folder}: other users may write to it"):
        assert call() == "compiled"
    assert stat.S_IMODE(path.stat().st_mode) & 0o022 == 0
    assert call() == "loaded"


@as_root
@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_belongs_to_another_user_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    call()
    os.chown(folder if what == "folder" else kernels(folder)[0], 12345, -1)
    with pytest.warns(RuntimeWarning, match="belongs to another user") as told:
        assert [call(), call()] == ["compiled", "loaded"]
    assert [str(folder) in str(one.message) for one in told] == [True]


# Which folder -------------------------------------------------------------------------------------


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a folder for caches, and nothing that was asked for."""
    monkeypatch.delenv("GRIDSAMPLE_CACHE_DIR")
    for name in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA", "USERPROFILE"):
        monkeypatch.setenv(name, os.path.join(os.devnull, "none"))


@pytest.mark.usefixtures("nowhere")
def test_the_user_s_folder_for_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative: does not count")
    place = {"win32": tmp_path, "darwin": tmp_path / "Library/Caches"}.get(
        sys.platform, tmp_path / ".cache"
    )
    assert folders.writable() == str(place / "gridsample")
    if sys.platform not in ("win32", "darwin"):
        assert stat.S_IMODE((place / "gridsample").stat().st_mode) == 0o700
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
        assert folders.writable() == str(tmp_path / "x" / "gridsample")


def test_numba_s_folder_serves_where_ours_is_not_set(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert folders.writable() == str(folder)
    monkeypatch.setenv("GRIDSAMPLE_CACHE_DIR", "")
    assert folders.writable() == str(tmp_path / "gridsample")


@posix
@pytest.mark.usefixtures("nowhere")
def test_without_a_home_a_temporary_folder_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders.tempfile, "tempdir", str(tmp_path))
    assert [call(), call()] == ["compiled", "loaded"]
    place = tmp_path / f"gridsample-{os.getuid()}"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert len(kernels(place)) == 1


@posix
@pytest.mark.usefixtures("nowhere")
def test_a_link_in_the_place_of_the_temporary_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders.tempfile, "tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / f"gridsample-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.warns(RuntimeWarning) as told:
        assert [call(), call()] == ["compiled", "compiled"]
    messages = [str(one.message) for one in told]
    assert len(messages) == 2
    assert "it is not a folder" in messages[0]
    assert "set GRIDSAMPLE_CACHE_DIR" in messages[1]
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.usefixtures("nowhere")
def test_without_any_folder_there_is_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders.tempfile, "tempdir", os.path.join(os.devnull, "none"))
    with pytest.warns(RuntimeWarning, match="set GRIDSAMPLE_CACHE_DIR") as told:
        assert [call(), call()] == ["compiled", "compiled"]
    assert len(told) == 1


def test_a_folder_that_cannot_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GRIDSAMPLE_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    with pytest.warns(RuntimeWarning, match=f"{tmp_path / 'file'}: it is not a folder") as told:
        assert [call(), call()] == ["compiled", "loaded"]
    assert len(told) == 1


def test_a_folder_that_can_only_be_read_is_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container whose image holds kernels: new ones go where they can be written."""
    call()
    access = os.access
    monkeypatch.setattr(
        folders.os, "access", lambda path, mode: path != str(folder) and access(path, mode)
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert call() == "loaded"
    assert [call("double_3", 3.0), call("double_3", 3.0)] == ["compiled", "loaded"]
    assert len(kernels(folder)) == len(kernels(tmp_path / "home" / "gridsample")) == 1


# What is removed ----------------------------------------------------------------------------------


def test_what_is_not_used_is_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call()
    now = time.time()
    ages = {
        "old.kernel": 31, "recent.kernel": 29, "dead.lock": 2, "held.lock": 0.5,
        "dead.unfinished": 2, "half.unfinished": 0.5, "of-others": 400,
    }  # fmt: skip
    for name, days in ages.items():
        (folder / name).write_bytes(b"0" * 1000)
        os.utime(folder / name, (now, now - days * folders.DAY))
    call("double_3", 3.0)
    assert set(ages) < {path.name for path in folder.iterdir()}  # today it was done already
    os.utime(folder / "swept", (now, now - 1.1 * folders.DAY))
    call("double_4", 4.0)
    left = {path.name for path in folder.iterdir()} & set(ages)
    assert left == {"recent.kernel", "held.lock", "half.unfinished", "of-others"}
    monkeypatch.setattr(folders, "BYTES", sum(path.stat().st_size for path in kernels(folder)) - 1)
    os.unlink(folder / "swept")
    folders.sweep(str(folder))
    assert not (folder / "recent.kernel").exists()  # the one that was used least recently
    assert len(kernels(folder)) == 3


def test_what_is_used_stays(folder: Path) -> None:
    call()
    (path,) = kernels(folder)
    os.utime(path, (0, 0))
    assert call() == "loaded"
    assert time.time() - path.stat().st_mtime < folders.DAY


# Turns --------------------------------------------------------------------------------------------


def never() -> bool:
    return False


def test_a_turn_is_one_process_s(folder: Path) -> None:
    folders.writable()
    path = str(folder / "a.lock")
    with folders.turn("a", 60, never):
        assert folders.lock(path) is None
        with folders.turn("b", 60, never):  # another name has turns of its own
            assert folders.lock(path) is None
        with folders.turn("a", 0, never):  # no longer than so
            pass
        with folders.turn("a", 60, lambda: True):  # nor for what is there
            pass
        assert folders.lock(path) is None
    place = folders.lock(path)
    assert place is not None
    folders.unlock(path, place)
    assert list(folder.iterdir()) == []


def test_a_turn_ends_with_an_error(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError), folders.turn("a", 60, never):
        1 / 0  # noqa: B018
    assert list(folder.iterdir()) == []


def test_threads_take_turns(folder: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            with folders.turn("a", 60, never):
                inside.append(number)
                most.append(len(inside))
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 80


def start(code: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    """A process that finds this module, and says what is wrong on stdout."""
    path = os.pathsep.join([str(TESTS / "kernels"), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code],
        env={
            **os.environ, "PYTHONPATH": path, "GRIDSAMPLE_CACHE_DIR": str(folder), **environment,
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


HOLD = """
from gridsample.kernels.compile import folders
with folders.turn("a", 60, lambda: False):
    print("held", flush=True)
    input()
"""


def test_the_turn_of_a_process_that_is_killed_ends(folder: Path) -> None:
    process = start(HOLD, folder)
    assert line(process) == "held"
    path = str(folder / "a.lock")
    assert folders.lock(path) is None
    process.kill()
    process.communicate()
    place = folders.lock(path)
    assert place is not None
    folders.unlock(path, place)


TOGETHER = """
import test_cache
print("ready", flush=True)
input()
for n in range(3):
    print(test_cache.call(f"double_{n}", float(n)), flush=True)
"""


def test_processes_that_start_together_compile_a_kernel_once(folder: Path) -> None:
    processes = [start(TOGETHER, folder) for _ in range(8)]
    assert [line(process) for process in processes] == ["ready"] * 8
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    words = [w for one in processes for w in one.communicate(timeout=120)[0].split()]
    assert sorted(words) == ["compiled"] * 3 + ["loaded"] * 21
    assert len(kernels(folder)) == 3


WITHOUT_END = """
import itertools, os, test_cache
print("ready", flush=True)
input()
for n in itertools.count():
    test_cache.call(f"double_{n % 40}", float(n % 40))
    if n % 40 == 0:
        for path in test_cache.kernels(test_cache.Path(os.environ["GRIDSAMPLE_CACHE_DIR"])):
            path.unlink(missing_ok=True)
"""


@pytest.mark.slow
def test_killed_processes_leave_a_working_cache(folder: Path) -> None:
    rng = np.random.default_rng(7)
    processes: list[subprocess.Popen[str]] = []

    def kill() -> Iterator[str]:
        process = processes.pop(0)
        process.kill()
        yield from process.communicate()[0].split()

    for _ in range(50):
        processes.append(start(WITHOUT_END, folder))
        assert line(processes[-1]) == "ready"
        assert processes[-1].stdin is not None
        processes[-1].stdin.write("\n")
        processes[-1].stdin.flush()
        if len(processes) == 2:
            threading.Event().wait(rng.uniform(0, 1))  # a random moment of its work
            assert list(kill()) == []
    assert list(kill()) == []
    for path in kernels(folder):
        assert folders.read(path.stem) is not None
    process = start(TOGETHER, folder)
    output, _ = process.communicate("\n", timeout=120)
    assert set(output.split()) <= {"ready", "compiled", "loaded"}
