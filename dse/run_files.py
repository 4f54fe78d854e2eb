"""The files of a run folder by name, written whole or not at all, and who writes into the folder now."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from .content.files import home_expanded
from .errors import UserError
from .state import SweepState

RUN_FILE = "run.json"  # made first: marks the folder as ours and says of what run it is
STATE_FILE = "state.npz"
SUMMARY_FILE = "summary.json"
QUESTION_FILE = "question.json"
LAYOUTS = ("layouts", "disaggregated")  # kinds of a sweep of layouts, in its summary
ANSWER_FILE = "answer.json"  # of a folder that `dse.studies` write
BATCH_FILE = "batch.json"  # of a folder of `dse batch`
OURS = (RUN_FILE, STATE_FILE, SUMMARY_FILE, QUESTION_FILE, "top.parquet", "front.parquet", "report.html")
PARTS, UNFINISHED = "rows-*.parquet", ".*.tmp"
PARQUET_MARK = b"PAR1"
PROBE = "tilesweep-probe"
LOCKS = Path("/proc/locks")
CLAIM_TRIES, CLAIM_PAUSE_S = 3, 0.05


def replace_file(path: Path, data: bytes) -> None:
    """Writes a file, whole or not at all, and waits until the disk has it: a machine may go away at any time. One that
    holds this already stays: a finished run can be called again on a full disk.

    Raises:
        UserError: it cannot be written.
    """
    with suppress(OSError):
        if path.stat().st_size == len(data) and path.read_bytes() == data:
            return
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(unfinished, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {error.strerror}; make room or choose another folder") from error


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Writes an object as JSON; raises as `replace_file`."""
    replace_file(path, json.dumps(content, indent=1).encode())


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        UserError: it is missing or damaged.
    """
    try:
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict):
            raise ValueError(f"a {type(content).__name__}, not an object")
        return content
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}): start anew with --overwrite") from error


def read_state(folder: Path) -> SweepState | None:
    """What the run in a folder has done; None where nothing was kept yet.

    Raises:
        UserError: the file is damaged.
    """
    file = folder / STATE_FILE
    if not file.exists():
        return None
    try:
        return SweepState.from_bytes(file.read_bytes())
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        why = "not an archive of NumPy" if "pickle" in str(error) else error  # which NumPy advises to read unsafely
        raise UserError(f"{file} is damaged ({why}): start anew with --overwrite") from error


def is_whole_parquet(file: Path) -> bool:
    """Whether a file begins and ends as Parquet does; one that was cut off does not end so."""
    try:
        with open(file, "rb") as held:
            begins = held.read(len(PARQUET_MARK)) == PARQUET_MARK
            return begins and held.seek(-len(PARQUET_MARK), os.SEEK_END) > 0 and held.read() == PARQUET_MARK
    except OSError:
        return False


def make_writable(path: Path) -> None:
    """Makes a folder where it does not exist.

    Raises:
        UserError: it cannot be written into.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".{PROBE}.{os.getpid()}.tmp"
        probe.touch()
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"cannot write into the folder {path}: {error.strerror}; choose another with --out") from error


def is_ours(path: Path) -> bool:
    """Whether a file in a run folder is one that a run writes."""
    return path.name in OURS or path.match(PARTS) or path.match(UNFINISHED)


def remove_run(path: Path) -> None:
    """Removes a run's files from its folder."""
    for file in (*(path / name for name in OURS), *path.glob(PARTS)):
        file.unlink(missing_ok=True)
    remove_unfinished(path)


def remove_unfinished(path: Path) -> None:
    """Removes what writers that were killed have left; they would take room that the run needs."""
    for file in path.glob(UNFINISHED):
        file.unlink(missing_ok=True)


@contextmanager
def claimed(path: str | os.PathLike[str], read_only: bool = False) -> Iterator[None]:
    """Makes a folder where it does not exist, and within the block keeps other processes from writing a run into it.

    Args:
        path: the folder.
        read_only: let pass one that is there and cannot be written.

    Raises:
        UserError: the folder cannot be written or read, or another process is at it.
    """
    where = home_expanded(path)
    if not (read_only and where.is_dir()):
        make_writable(where)
    try:
        handle = os.open(where, os.O_RDONLY)
    except OSError as error:
        raise UserError(f"cannot read the folder {where}: {error.strerror}; choose another with --out") from error
    try:
        with suppress(OSError):  # file systems without locks, some network ones: then nobody keeps watch
            if not _locked(handle, CLAIM_TRIES):
                raise UserError(
                    f"another process writes a run into the folder {where}: wait for it, or choose another with --out"
                )
        yield
    finally:
        os.close(handle)


def writer_of(folder: Path) -> int | None:
    """The process on this machine that writes a run into the folder now (0: one that cannot be seen from here); None
    where there is none, or the file system has no locks."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        return None if _locked(handle) else _holder(os.fstat(handle).st_ino)
    except OSError:
        return None
    finally:
        os.close(handle)


def _locked(handle: int, tries: int = 1) -> bool:
    import fcntl

    for again in reversed(range(tries)):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(CLAIM_PAUSE_S if again else 0)  # `writer_of` holds the lock for an instant
    return False


def _holder(inode: int) -> int:
    """The process that holds the lock on a folder; 0 where the system does not tell."""
    if not LOCKS.exists():
        return 0
    for line in LOCKS.read_text().splitlines():
        words = line.split()
        if "FLOCK" in words and words[-3].endswith(f":{inode}") and words[-4].isdecimal():
            return int(words[-4])
    return 0


def refuse_layouts(path: Path) -> None:
    """Raises UserError where the folder holds layouts of a model: other commands read these."""
    try:
        kind = json.loads((path / SUMMARY_FILE).read_bytes()).get("kind")
    except (OSError, ValueError, AttributeError):
        return
    if kind in LAYOUTS:
        raise UserError(
            f"{path} holds layouts of a model, no schedules (dse sweep sharding): dse report, dse export and dse query "
            "read it"
        )


def refuse_batch(path: Path) -> None:
    """Says so where a folder that should hold a sweep holds a batch.

    Raises:
        UserError: it does.
    """
    if (path / BATCH_FILE).exists():
        raise UserError(
            f"{path} holds a batch of dse batch, not one sweep: the same dse batch command goes on with it where it "
            f"stopped, dse query {path} shows what it found"
        )
