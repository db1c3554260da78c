"""What a user hands in, as files: their digests, and a module of code, found before torch is imported and run from its source."""

import hashlib
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import SourceLoader
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType

from classwise.errors import UserError


def digest(file: Path) -> str:
    """Return the sha256 of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def module_file(model: str, home: str) -> Path:
    """Return the file of the user's module; a UserError says where it was looked for."""
    name = model.partition(":")[0]
    with importing(home):
        try:
            found = find_spec(name)
        except (ImportError, ValueError):
            found = None
        except (Exception, SystemExit) as error:  # of a package that the module is in
            raise UserError(f"--model {model} cannot be imported: {reason(error)}") from error
    if found is None or found.origin is None:
        raise UserError(f"--model {model}: there is no module {name} in {home or Path.cwd()}; it is imported from there")
    return Path(found.origin)


@contextmanager
def importing(home: str) -> Iterator[None]:
    """Let modules be found in a folder until the block ends."""
    place = home or str(Path.cwd())
    sys.path.insert(0, place)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(place)


def imported(name: str) -> ModuleType:
    """Return the user's module, read anew: what was imported or compiled before may be of another file or an older text."""
    sys.modules.pop(name, None)
    spec = find_spec(name)
    if spec is None or not isinstance(spec.loader, SourceLoader):
        return importlib.import_module(name)
    module = sys.modules[name] = module_from_spec(spec)
    exec(spec.loader.source_to_code(spec.loader.get_data(str(spec.origin)), str(spec.origin)), module.__dict__)
    return module


def reason(error: BaseException) -> str:
    """Return the kind of an error and its first line."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}".removesuffix(": ")
