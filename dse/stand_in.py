"""Runs a user's Python file that declares configs, with stand-ins where Triton, TileLang or PyTorch are missing.

Reading configs needs no GPU software: of Triton only `Config` matters, of TileLang `GemmWarpPolicy`, the rest is
decoration. A stand-in module answers to any attribute, so that kernels in the same file can be defined though not run.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from enum import IntEnum
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import UserError

ROOTS = ("triton", "tilelang", "torch")
_MODULE = "_dse_user_configs"


class Config:
    """Stands in for `triton.Config`."""

    def __init__(
        self, kwargs: dict[str, Any], num_warps: int = 4, num_stages: int = 3, num_ctas: int = 1, **options: Any
    ) -> None:
        self.kwargs = kwargs
        self.num_warps = num_warps
        self.num_stages = num_stages
        self.num_ctas = num_ctas
        self.options = options


class GemmWarpPolicy(IntEnum):
    """Stands in for `tilelang.language.GemmWarpPolicy`, with its numbers."""

    Square = 0
    FullRow = 1
    FullCol = 2


class Anything:
    """Whatever is asked of it, it is; used as a decorator it gives back what it decorates."""

    def __init__(self, name: str = "") -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> "Anything":
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name)

    def __call__(self, *arguments: Any, **_: Any) -> Any:
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else Anything()

    def __getitem__(self, _: Any) -> "Anything":
        return Anything()

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __mro_entries__(self, _: Any) -> tuple[type, ...]:
        return (object,)

    def __or__(self, _: Any) -> "Anything":
        return Anything()

    __ror__ = __or__


class Autotuned(Anything):
    """A kernel under the stand-in's `autotune`: remembers its configs."""

    def __init__(self, configs: Sequence[Any]) -> None:
        super().__init__("autotuned")
        self.configs = [] if callable(configs) else list(configs)  # TileLang takes a function too


def run_file(path: Path) -> dict[str, Any]:
    """The global names of a Python file after running it. What it prints goes to standard error.

    Raises:
        UserError: the file raises an error or exits; the message names the line.
    """
    with _stand_ins(), _on_path(path.parent), _printing_to_stderr():
        spec = importlib.util.spec_from_file_location(_MODULE, path)
        if spec is None or spec.loader is None:
            raise UserError(f"{path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except SyntaxError as error:
            raise UserError(f"{path}, line {error.lineno}: {error.msg}") from None
        except (Exception, SystemExit) as error:
            raise UserError(
                f"{path}, line {_line(error, path.absolute())}: running the file raised {error!r}"
            ) from None
        return dict(vars(module))


def _line(error: BaseException, path: Path) -> int | str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] if lines and lines[-1] is not None else "?"


def _autotune(*arguments: Any, **options: Any) -> Any:
    configs = options.get("configs", arguments[0] if arguments else ())
    return lambda kernel: Autotuned(configs)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, roots: Sequence[str]) -> None:
        self.roots = tuple(roots)

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in self.roots:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = ModuleType(spec.name)
        module.__getattr__ = _anything  # type: ignore[method-assign]
        if spec.name == "triton":
            module.Config = Config  # type: ignore[attr-defined]
            module.autotune = _autotune  # type: ignore[attr-defined]
        if spec.name.partition(".")[0] == "tilelang":
            module.GemmWarpPolicy = GemmWarpPolicy  # type: ignore[attr-defined]
            module.autotune = _autotune  # type: ignore[attr-defined]
        return module

    def exec_module(self, module: ModuleType) -> None:
        return None


def _anything(name: str) -> Anything:
    if name.startswith("__"):
        raise AttributeError(name)
    return Anything(name)


@contextmanager
def _stand_ins() -> Iterator[None]:
    missing = [root for root in ROOTS if root not in sys.modules and importlib.util.find_spec(root) is None]
    finder = _Finder(missing)
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] in missing]:
            del sys.modules[name]


@contextmanager
def _printing_to_stderr() -> Iterator[None]:
    sys.stdout.flush()
    kept = os.dup(1)  # what child processes print, too
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def _on_path(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
