"""Outputs in Zarr stores that are continued by the call that began them, and appear when complete.

An output is written to a hidden folder beside its path, and moved there when it is complete.  A
*recipe* is stored beside it: everything that determines the content, the source's state included.
Only a call with the same recipe continues it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gridsample.io.image import FileError, as_file_error, reason, require
from gridsample.io.stores import METADATA, keys_of, store_of

# The attribute of a store's root that contains the recipe of an unfinished output.
UNFINISHED = "gridsample-unfinished"
# What file systems of fsspec say about a file that changes with its content.
SIGNS = ("size", "mtime", "created", "updated", "ETag", "etag", "LastModified", "Last-Modified")

Recipe = Mapping[str, Any]


@contextmanager
def resumable(path: Path, recipe: Recipe, *, overwrite: bool) -> Iterator[Path]:
    """Provide a folder for a store, which becomes ``path`` at the end of the block.

    If the block raises, or the process ends, the folder remains with what has been finished, and is
    provided again to a call with the same recipe.

    Args:
        path: where the complete store will be.
        recipe: everything that determines the content, as JSON; see `check_recipe`.
        overwrite: whether to replace ``path``, and an unfinished store of another recipe.

    Raises:
        FileError: the path exists, has no parent folder, or another recipe's result is unfinished.
    """
    if not path.parent.is_dir():
        raise FileError(f"cannot write {path.name}: there is no folder {path.parent}")
    if path.exists() and not overwrite:
        raise FileError(f"{path} exists; --force replaces it (in Python, overwrite=True)")
    path = path.resolve()
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.mkdir(exist_ok=True)
    with lock_folder(unfinished):
        store = prepare_folder(unfinished, recipe, overwrite)
        try:
            yield store
        except BaseException as error:
            if not has_results(names_of(store)):
                shutil.rmtree(unfinished)
            elif isinstance(error, (FileError, OSError)):
                raise with_hope(error) from error
            raise
        if path.exists():
            shutil.rmtree(unfinished / "replaced", ignore_errors=True)
            os.replace(path, unfinished / "replaced")
        os.replace(store, path)
        shutil.rmtree(unfinished)


@contextmanager
def resumable_store(store: Any, recipe: Recipe, *, overwrite: bool) -> Iterator[None]:
    """Prepare a Zarr store for an output, which is complete after the block.

    An attribute of its root contains the recipe until the output is complete.  A store is expected
    to write an object at once, or to leave the previous one.

    Args:
        store: the store, which may be written to.
        recipe: everything that determines the content, as JSON; see `check_recipe`.
        overwrite: whether to replace what is in the store.

    Raises:
        FileError: something else is in the store.
    """
    zarr = require("zarr", "zarr")
    try:
        group = zarr.open_group(store, mode="r+")
        previous = group.attrs.get(UNFINISHED)
    except (FileNotFoundError, ValueError, zarr.errors.NodeNotFoundError):
        group = previous = None
    is_continued = previous is not None and is_same(previous, recipe)
    if not is_continued and not overwrite and (keys := keys_of(store, "")):
        if previous is None:
            raise FileError(
                f"{store} is not empty; --force replaces it (in Python, overwrite=True)"
            )
        if has_results(keys):
            raise FileError(why_refused(previous, recipe, str(store)))
    if not is_continued:
        zarr_format = recipe["layout"]["zarr_format"]
        group = zarr.open_group(store, mode="w", zarr_format=zarr_format)
        group.attrs[UNFINISHED] = json.dumps(recipe, sort_keys=True)
    try:
        yield
    except (FileError, OSError) as error:
        raise (with_hope(error) if has_results(keys_of(store, "")) else error) from error
    attributes = zarr.open_group(store, mode="r+").attrs
    del attributes[UNFINISHED]


def prepare_folder(folder: Path, recipe: Recipe, overwrite: bool) -> Path:
    """Return the store in a hidden folder, with what an earlier run of the recipe wrote."""
    store, recipe_file = folder / "store", folder / "recipe.json"
    previous = recipe_file.read_text(encoding="utf-8") if recipe_file.exists() else ""
    if store.exists():
        for partial_file in store.rglob("*.partial"):
            partial_file.unlink()
        if not is_same(previous, recipe):
            if not overwrite and has_results(names_of(store)):
                raise FileError(why_refused(previous, recipe, str(folder)))
            shutil.rmtree(store)
    store.mkdir(exist_ok=True)
    draft = recipe_file.with_suffix(".draft")
    draft.write_text(json.dumps(recipe, sort_keys=True, indent=1), encoding="utf-8")
    os.replace(draft, recipe_file)
    return store


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a folder; the system unlocks it when this one ends.

    Raises:
        FileError: another process is writing to it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise FileError(f"another process is writing to {folder}") from None
    else:
        yield
    finally:
        os.close(descriptor)


def with_hope(error: Exception) -> FileError:
    """Return the error of an output of which something is finished."""
    return FileError(f"{reason(error)}; the same command continues what is finished")


def names_of(folder: Path) -> Iterator[str]:
    """Yield the names of the files in a folder and in the folders below."""
    return (path.name for path in folder.rglob("*") if path.is_file())


def has_results(names: Iterable[str]) -> bool:
    """Whether there is a chunk among the files of a store, which may also have metadata only."""
    return any(not name.endswith(METADATA) for name in names)


# Recipes ------------------------------------------------------------------------------------------


def is_same(previous: str, recipe: Recipe) -> bool:
    """Whether an output was begun with a recipe, given the text of the recipe that it has."""
    return bool(parsed(previous) == parsed(json.dumps(recipe)))


def parsed(text: str) -> Any:
    """Return a recipe as it is stored; None if it is damaged."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def why_refused(previous: str, recipe: Recipe, place: str) -> str:
    """Say why an unfinished output is not continued."""
    cure = "discard it by --force (in Python, overwrite=True)"
    before, now = parsed(previous) or {}, parsed(json.dumps(recipe))
    then, source = before.pop("source", None), now.pop("source", None)
    if then and source and before == now and then["place"] == source["place"]:
        return f"{source['place']} has changed since {place} was begun from it; {cure}"
    return f"{place} is the unfinished result of another command; finish that, or {cure}"


def describe_source(source: Any, array: Any) -> dict[str, Any]:
    """Describe the source of an output for its recipe: its place, and its state.

    The state is that of all files of an array: their names, sizes and times, or the tags that a
    server gives to their contents; the contents of a store in memory.  Servers that list no files,
    such as those of HTTP, tell it of the metadata alone.

    Args:
        source: the folder, the address or the Zarr store.
        array: the Zarr array that is read.
    """
    store = store_of(source)
    while isinstance(store, require("zarr.storage", "zarr").WrapperStore):
        store = store._store
    place = f"{store}" if not is_local(store) else str(Path(store.root, array.path).resolve())
    digest = hashlib.sha256(json.dumps(array.metadata.to_dict(), default=str).encode())
    with as_file_error(f"cannot read {source}"):
        for sign in signs_of(store, array.path):
            digest.update(sign)
    return {"place": place, "array": array.path, "state": digest.hexdigest()}


def is_local(store: Any) -> bool:
    """Whether a Zarr store is a folder."""
    return isinstance(store, require("zarr.storage", "zarr").LocalStore)


def signs_of(store: Any, path: str) -> Iterator[bytes]:
    """Yield, in a fixed order, something of each file of an array that changes when it does."""
    storage = require("zarr.storage", "zarr")
    if is_local(store):
        yield from signs_of_files(Path(store.root, path).resolve())
    elif isinstance(store, storage.ZipStore):
        yield from signs_of_files(Path(store.path).resolve())
    elif isinstance(store, storage.FsspecStore):
        yield from signs_of_addresses(store, path)
    else:
        in_memory = isinstance(store, storage.MemoryStore)
        for key in sorted(keys_of(store, path)):
            yield key.encode()
            if in_memory:
                yield content_of(store, key)


def signs_of_files(path: Path) -> Iterator[bytes]:
    """Yield the name, size and time of a file, or of each file in a folder and those below."""
    folders = []
    entries = sorted(os.scandir(path), key=lambda entry: entry.name) if path.is_dir() else [path]
    for entry in entries:
        if entry.is_dir():
            folders.append(Path(entry))
        else:
            status = entry.stat()
            yield f"{os.fspath(entry)}\n{status.st_size}\n{status.st_mtime_ns}\n".encode()
    for folder in folders:
        yield from signs_of_files(folder)


def signs_of_addresses(store: Any, path: str) -> Iterator[bytes]:
    """Yield the address of each file of an array, and what its file system says of its content."""
    sync, fs = require("zarr.core.sync", "zarr").sync, store.fs
    root = f"{store.path}/{path}".rstrip("/")
    protocols = [fs.protocol] if isinstance(fs.protocol, str) else fs.protocol
    if "http" in protocols:  # it lists the links of a page
        found = {}
        for name in ("zarr.json", ".zarray"):
            with suppress(FileNotFoundError):
                found[name] = sync(fs._info(f"{root}/{name}"))
    else:
        found = sync(fs._find(root, detail=True))
    for name, facts in sorted(found.items()):
        yield repr((name, [facts.get(sign) for sign in SIGNS])).encode()


def content_of(store: Any, key: str) -> bytes:
    """Return the content of a file of a store."""
    sync = require("zarr.core.sync", "zarr").sync
    prototype = require("zarr.core.buffer", "zarr").default_buffer_prototype()
    buffer = sync(store.get(key, prototype))
    return b"" if buffer is None else bytes(buffer.to_bytes())
