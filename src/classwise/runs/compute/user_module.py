"""Files of a user: their digests, and a module of code, which is run from its source."""

import hashlib
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec, spec_from_file_location
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
    if (file := _file_below(name, home)) is not None:
        return file
    try:  # an installed module
        with importing(home):
            spec = find_spec(name)
    except (ImportError, ValueError):
        spec = None
    except (Exception, SystemExit) as error:  # of a package that the module is in
        raise UserError(f"--model {model} cannot be imported: {reason(error)}") from error
    if spec is None or not spec.has_location or spec.origin is None:
        raise UserError(f"--model {model}: there is no module {name} in {home or Path.cwd()}; it is imported from there")
    return Path(spec.origin)


def _file_below(name: str, home: str) -> Path | None:
    """Return the source of a module below a folder; None if it is not there."""
    place = Path(home or Path.cwd(), *name.split("."))
    return next((file for file in (place / "__init__.py", place.with_suffix(".py")) if file.is_file()), None)


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
    file, first = _file_below(name, home), name.partition(".")[0]
    spec = None if file is None else spec_from_file_location(name, file)
    if file is None or spec is None:
        return importlib.import_module(name)
    for known in [known for known in sys.modules if known.partition(".")[0] == first]:
        del sys.modules[known]
    if "." in name:
        importlib.import_module(name.rpartition(".")[0])
    module = sys.modules[name] = module_from_spec(spec)
    exec(compile(file.read_bytes(), str(file), "exec"), module.__dict__)
    return module


def reason(error: BaseException) -> str:
    """Return the kind of an error and its first line."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}".removesuffix(": ")
