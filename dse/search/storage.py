"""Studies in a file: a search that goes on with the same command, and that several processes share.

The file is Optuna's journal (`JournalStorage`), which optuna-dashboard and `optuna.visualization` read. The study holds
what was asked, so that a file of another question is refused; each process that opens it adds itself, so that no two
draw the same candidates from one seed.
"""

import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.study import StudyDirection

from ..content.files import home_expanded
from ..errors import UserError
from .choice import CHOSEN, Choice, stored_choice
from .optuna import quiet
from .samplers import SAMPLERS

QUESTION = "question"
SAMPLER = "sampler"
SESSION = "session "
STALE_LOCK_S = 5  # a process that was killed while it wrote leaves its lock behind


def open_study(
    path: str | os.PathLike[str],
    name: str,
    question: Mapping[str, Any],
    objectives: int,
    seed: int,
) -> tuple[optuna.Study, int]:
    """The study of this name in a journal file, made where it is not there.

    Args:
        path: the file.
        name: of the study.
        question: what is asked, label -> text or number; a study that has another is refused.
        objectives: how many are minimised.
        seed: how candidates are drawn.

    Returns:
        the study, and the seed of this process: the given one for the first that opens it, others for those after it.

    Raises:
        UserError: the file is damaged, is no journal or cannot be written, or the study is of another question.
    """
    where = home_expanded(path).absolute()
    if where.is_dir():
        raise UserError(f"--storage {where} is a folder: give a file, e.g. {where / 'search.journal'}")
    if where.exists() and not where.is_file():  # a device or a pipe may be read without end
        raise UserError(f"--storage {where} is a device or a pipe: give a file")
    lock = JournalFileSymlinkLock(str(where), STALE_LOCK_S)
    try:
        _mend(where, lock)
        with quiet():
            storage = JournalStorage(JournalFileBackend(str(where), lock))
            study = _study(storage, name, question, objectives, where)
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"--storage {where}: {error.strerror or error}; choose another file") from None
    except Exception as error:  # what Optuna raises on a line that is none of its own: any of a dozen kinds
        raise UserError(
            f"--storage {where} is damaged, or no Optuna journal (line {_bad_line(where)}: {type(error).__name__}): "
            "move it away, or give another file"
        ) from None
    ordinal = _register(study)
    seed = seed if ordinal == 0 else int(np.random.SeedSequence([seed, ordinal]).generate_state(1)[0])
    return study, seed


def kept_choice(study: optuna.Study, choice: Choice) -> Choice:
    """The sampler that goes on with a study: the one that is named, else the one that its trials were drawn by. The
    study keeps its name."""
    before = study.user_attrs.get(SAMPLER)
    if choice.by == CHOSEN and before in SAMPLERS and before != choice.sampler:
        return stored_choice(before)
    if before != choice.sampler:
        study.set_user_attr(SAMPLER, choice.sampler)
    return choice


def differing(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """What two questions differ in, in words."""
    return [
        f"{label} is {_shown(there.get(label))} there, {_shown(here.get(label))} here"
        for label in dict.fromkeys((*there, *here))
        if there.get(label) != here.get(label)
    ]


def _study(
    storage: JournalStorage, name: str, question: Mapping[str, Any], objectives: int, where: Path
) -> optuna.Study:
    known = [frozen.study_name for frozen in storage.get_all_studies()]
    directions = [StudyDirection.MINIMIZE] * objectives
    asked = json.loads(json.dumps(question))  # as it comes back
    study = optuna.create_study(storage=storage, study_name=name, directions=directions, load_if_exists=True)
    there = study.user_attrs.get(QUESTION)
    if (there is None and study.get_trials(deepcopy=False)) or study.directions != directions:
        raise UserError(f"--storage {where}: study {name!r} was not made by dse search; give another --study-name")
    if there is None:
        study.set_user_attr(QUESTION, asked)
    elif there != asked:
        raise UserError(
            f"--storage {where}: study {name!r} is of another question: {'; '.join(differing(there, asked))}; give "
            f"another --storage or --study-name (there: {', '.join(known)})"
        )
    return study


def _register(study: optuna.Study) -> int:
    """How many processes opened the study before this one: the file's order decides."""
    own = SESSION + uuid.uuid4().hex
    study.set_user_attr(own, os.getpid())
    return [key for key in study.user_attrs if key.startswith(SESSION)].index(own)


def _mend(where: Path, lock: JournalFileSymlinkLock) -> None:
    """Takes off a last line that a killed process or a full disk left unfinished: the next would be joined to it."""
    if not where.exists() or not where.stat().st_size:
        return
    lock.acquire()
    try:
        with where.open("r+b") as file:
            file.seek(0, os.SEEK_END)
            size = file.tell()
            file.seek(max(size - 2**20, 0))
            tail = file.read()
            if tail.endswith(b"\n"):
                json.loads(tail.rstrip(b"\n").rpartition(b"\n")[2])  # Optuna would pass over a last line, and add to it
                return
            if b"\n" not in tail:
                raise UserError(f"--storage {where} is no Optuna journal: it is not lines of JSON; give another file")
            file.truncate(size - len(tail) + tail.rindex(b"\n") + 1)
    finally:
        lock.release()


def _bad_line(where: Path) -> int | str:
    try:
        with where.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not isinstance(content := json.loads(line), dict) or "op_code" not in content:
                    return number
    except (OSError, ValueError):
        return number
    return "?"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "none"
    if isinstance(value, dict):
        return " ".join(f"{key}={_shown(entry)}" for key, entry in value.items()) or "none"
    if isinstance(value, float):
        return f"{value:g}"
    return "not said" if value is None else str(value)
