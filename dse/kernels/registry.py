"""The registered kernels: one file each in this folder, imported by name when it is asked for.

A kernel's file, `dse/kernels/<name>.py`, holds two things:

1. The user's problem: a frozen dataclass that satisfies `dse.kernels.problem.Problem`, usually by inheriting
   `KernelProblem`:

       @dataclass(frozen=True)
       class SoftmaxProblem(KernelProblem):
           \"\"\"...\"\"\"
           kernel: ClassVar[str] = "softmax"
           NAME: ClassVar[str] = "softmax"
           SIZES: ClassVar[tuple[str, ...]] = ("rows", "cols")       # the shape is ROWSxCOLS
           CHOICES: ClassVar[tuple[Choice, ...]] = (OUT_DTYPE, Choice("warm", "the input is in L2", bool))

           rows: int
           cols: int
           dtype: str = "bf16"
           out_dtype: str = "bf16"
           warm: bool = False

           def arrays(self, float_dtype: Any = np.float32) -> "Rows": ...       # imports jaxmodel inside
           @property
           def flop(self) -> float: ...
           def compulsory_bytes(self, gpu: Any) -> float: ...

   A choice becomes an option of the command line (`--warm`, `--warm false`), an argument in Python (`warm=True`) and a
   column of shape lists. Choices of the same name share one option, so they should mean the same thing.

2. `KERNELS`, the entries:

       KERNELS = (
           Kernel("softmax", "softmax", SoftmaxProblem, "jaxmodel.kernels.rows_types:RowSchedule",
                  "jaxmodel.kernels.softmax:cost", tensor_cores=False),
       )

   The schedule's record and the cost function are named as "module:attribute", so that a problem can be read without
   importing jax.

Then one line here, in `FILES`, says which file holds the kernel. A kernel in a folder `kernels` of `DSE_PATH` needs no
line: there the file's name is the kernel's.

Beside it stand `spaces/<name>/_fields.toml`, which declares every field of the schedule record, in its order (`text`;
where they apply `unit`, "1" if left out, `default`, `example`, `names` of the values 0, 1, ..., `in_bytes`), and
`spaces/<name>/<family>.toml`, a file an instruction family; a kernel without tensor instructions (`tensor_cores=False`)
calls its family as it likes, e.g. `simt`. From these come `dse sweep <name>`, schedules as text (`field=value` words),
result columns, run folders, `explain`, `rank`, `search`, `top` and `front`.

What a kernel may add, each named as "module:attribute" so that it is imported when it is needed (see `Kernel`): words
of its own for schedules, one name for launch orders that are the same, numbers for reasons, remarks for `explain`.
"""

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from ..content.files import user_roots
from ..errors import UserError, unknown
from . import with_user_folders
from .choice import Choice
from .entry import Kernel as Kernel
from .problem import Problem

FILES: dict[str, str] = {  # kernel -> the file of this folder that holds it
    "gemm": "gemm",
    "decode_attention": "decode_attention",
    "dequant_gemm": "dequant_gemm",
    "gemm_epilogue": "gemm_epilogue",
    "gemm_chain": "gemm_chain",
    "ag_gemm": "fused_communication",
    "gemm_rs": "fused_communication",
    "gemm_ar": "fused_communication",
    "attention": "attention",
    "ulysses": "spread_attention",
    "ring_attention": "spread_attention",
    "grouped_gemm": "grouped_gemm",
    "moe": "moe",
    "moe_ep": "moe_ep",
    "moe_dispatch": "moe_exchange",
    "moe_combine": "moe_exchange",
    "elementwise": "rows",
    "reduction": "rows",
    "softmax": "rows",
    "layernorm": "rows",
    "rmsnorm": "rows",
    "rope": "rows",
    "kv_cache_write": "rows",
    "quantise": "rows",
}

PACKAGE = Path(__file__).parent


def kernel_names() -> tuple[str, ...]:
    """Every kernel that `get_kernel` knows: those of `FILES`, then the user's own."""
    own = sorted({path.stem for path in _user_files() if not path.name.startswith("_")})
    return tuple(dict.fromkeys((*FILES, *own)))


def get_kernel(name: str) -> Kernel:
    """The kernel of that name.

    Raises:
        UserError: naming the known ones; or a user's file that cannot be imported or lacks the kernel.
    """
    names = kernel_names()
    if name not in names:
        raise unknown("kernel", name, names, "one of your own is found in a folder that DSE_PATH names")
    own = next((path for path in _user_files() if path.stem == name), None)
    if own and (PACKAGE / own.name).exists() | (name in FILES):
        raise UserError(
            f"{own} has the name of a file or kernel of the package: call the file, and its kernel, otherwise"
        )
    with_user_folders()
    file = FILES.get(name, name)
    try:
        kernels = import_module(f".{file}", __package__).KERNELS
    except Exception as error:
        if name in FILES:
            raise
        raise UserError(
            f"the file kernels/{name}.py in DSE_PATH cannot be used: {type(error).__name__}: {error}"
        ) from error
    found = next((kernel for kernel in kernels if kernel.name == name), None)
    if found is None:
        raise UserError(f"kernels/{file}.py holds {', '.join(k.name for k in kernels)}, not {name}: see KERNELS there")
    return found


def usable_kernels() -> tuple[str, ...]:
    """Those of `kernel_names` that `get_kernel` gives: a broken file of the user's keeps no other kernel from use."""
    return tuple(name for name in kernel_names() if _is_usable(name))


def kernel_of(problem: Problem) -> Kernel:
    """The kernel that a problem is of."""
    return get_kernel(problem.kernel)


def question_names(kernel: str) -> tuple[str, ...]:
    """What may refine a question on a kernel beside shape, dtype and GPU: machine's choices, then the kernel's."""
    return ("family", "accumulator", "clock", *(choice.name for choice in get_kernel(kernel).problem.CHOICES))


def choices_by_option(names: Iterable[str] | None = None) -> dict[str, dict[str, Choice]]:
    """Option -> kernel -> its choice of that option.

    Args:
        names: of kernels; None: all that can be used.
    """
    found: dict[str, dict[str, Choice]] = {}
    for name in usable_kernels() if names is None else names:
        for choice in get_kernel(name).problem.CHOICES:
            found.setdefault(choice.option, {})[name] = choice
    return found


def check_choices(kernel: Kernel, given: Iterable[str]) -> None:
    """Raises where a name is no choice of the kernel's, saying whose it is.

    Raises:
        UserError: "--layout is a choice of gemm; softmax has --warm".
    """
    own = {choice.name: choice.option for choice in kernel.problem.CHOICES}
    for name in given:
        if name in own:
            continue
        for option, kernels in choices_by_option().items():
            if name in {choice.name for choice in kernels.values()}:
                has = f"{kernel.name} has {', '.join(own.values())}" if own else f"{kernel.name} has none"
                raise UserError(f"{option} is a choice of {', '.join(kernels)}; {has}")
        raise unknown(f"choice of {kernel.name}", name, own)


def check_served(kernel: str, what: str, served: Iterable[str] = ("gemm",)) -> None:
    """Raises where something is made for certain kernels and this is none of them.

    Args:
        kernel: name of the kernel that is asked about.
        what: what it is, as a sentence begins: "dse report".
        served: names of the kernels it is made for.

    Raises:
        UserError: "dse report serves gemm, not softmax: ...".
    """
    known = tuple(served)
    if kernel not in known:
        raise UserError(
            f"{what} serves {', '.join(known)}, not {kernel}; of every kernel there are dse sweep, search, top, front, "
            "explain, rank, prune, compare, sensitivity, whatif, target, and dse export --to json or csv"
        )


def without_interval(kernel: str) -> str:
    """The line that stands in an interval's place: what of a kernel was held against measurements."""
    compared = get_kernel(kernel).compared
    return f"no interval; held against measurements: {compared or 'nothing'}"


def _user_files() -> list[Path]:
    return [path for root in user_roots() for path in sorted((root / "kernels").glob("*.py"))]


def _is_usable(name: str) -> bool:
    try:
        get_kernel(name)
    except UserError:
        return False
    return True
