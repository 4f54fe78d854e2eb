"""The kernels that can be swept, a file each; `dse.kernels.registry` finds them and says what such a file holds.

A folder `kernels` in one of the user's own content folders (`DSE_PATH`) counts as part of this package, so that a
kernel of the user's is imported, and unpickled by workers, like any other.
"""

import os

from ..content.files import user_roots


def with_user_folders() -> None:
    """Lets `dse.kernels.NAME` be found in the user's folders too; those of a `DSE_PATH` that changed are added."""
    for root in user_roots():
        folder = os.fspath(root / "kernels")
        if folder not in __path__ and os.path.isdir(folder):
            __path__.append(folder)


with_user_folders()
