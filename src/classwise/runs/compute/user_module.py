"""Files of a user: their digests, and a module of code, which is located before torch is imported and run from its source."""

import hashlib
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import SourceLoader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType

from classwise.core.errors import UserError


def digest(file: Path) -> str:
    """Return the sha256 of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def module_file(model: str, home: str) -> Path:
    """Return the file of the user's module; a UserError says which folder was searched."""
    name = model.partition(":")[0]
    spec = _spec_below(name, home)
    if spec is None:  # an installed module
        try:
            with importing(home):
                spec = find_spec(name)
        except (ImportError, ValueError):
            pass
        except (Exception, SystemExit) as error:  # of a package that the module is in
            raise UserError(f"--model {model} cannot be imported: {reason(error)}") from error
    if spec is None or not spec.has_location or spec.origin is None:
        raise UserError(f"--model {model}: there is no module {name} in {home or Path.cwd()}; it is imported from there")
    return Path(spec.origin)


def _spec_below(name: str, home: str) -> ModuleSpec | None:
    """Return the spec of a module below a folder, whatever was imported under its name before; None if it is not there."""
    importlib.invalidate_caches()
    spec, folders, path = None, [home or str(Path.cwd())], ""
    for part in name.split("."):
        path = f"{path}.{part}" if path else part
        spec = PathFinder.find_spec(path, folders)
        if spec is None:
            return None
        folders = list(spec.submodule_search_locations or ())
    return spec if spec is not None and spec.has_location else None


@contextmanager
def importing(home: str) -> Iterator[None]:
    """Make the modules of a folder importable until the block ends."""
    folder = home or str(Path.cwd())
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(folder)


def imported(name: str, home: str) -> ModuleType:
    """Return the user's module; one below `home` is run from its source, whatever was imported or compiled under its name before.

    Its imports are ordinary ones, but modules of its package are imported again.
    """
    spec = _spec_below(name, home)
    if spec is None:
        return importlib.import_module(name)
    first = name.partition(".")[0]
    for known in [known for known in sys.modules if known == first or known.startswith(f"{first}.")]:
        del sys.modules[known]
    if not isinstance(spec.loader, SourceLoader):
        return importlib.import_module(name)
    if "." in name:
        importlib.import_module(name.rpartition(".")[0])
    module = sys.modules[name] = module_from_spec(spec)
    try:
        exec(spec.loader.source_to_code(spec.loader.get_data(str(spec.origin)), str(spec.origin)), module.__dict__)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def reason(error: BaseException) -> str:
    """Return the kind of an error and its first line."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}".removesuffix(": ")
