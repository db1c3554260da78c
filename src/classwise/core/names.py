"""The names of attacks, defences and models, read from the source of their tables: importing these would import torch."""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import classwise
from classwise.core import arguments, datasets
from classwise.core.audit import Audit, critical
from classwise.core.errors import UserError, unknown
from classwise.core.paths import check_file, checkout
from classwise.core.spec import Evaluation, Spec

# The module and the name of each table.
_TABLES = {
    "attack": ("attacks/__init__.py", "ATTACKS"),
    "defence": ("defences/__init__.py", "DEFENCES"),
    "model": ("models/classifier.py", "MODELS"),
}


@cache
def names(kind: str) -> tuple[str, ...]:
    """Return the names of all attacks, defences or models; `kind` is "attack", "defence" or "model"."""
    module, table = _TABLES[kind]
    tree = ast.parse((Path(classwise.__file__).parent / module).read_text(encoding="utf-8"))
    assigned = [node for node in tree.body if isinstance(node, ast.AnnAssign)]
    values = {ast.unparse(node.target): node.value for node in assigned}
    return tuple(_keys(values[table], values))


def _keys(value: ast.expr | None, values: dict[str, ast.expr | None]) -> list[str]:
    """Return the keys of a dict display, of the name of one, or of a union of such."""
    match value:
        case ast.Dict(keys=keys) if None not in keys:
            return [str(ast.literal_eval(key)) for key in keys if key is not None]
        case ast.Name(id=name):
            return _keys(values[name], values)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return [*_keys(left, values), *_keys(right, values)]
    raise TypeError(f"a table must be a dict display without ** or a union of such, got {ast.dump(value) if value else None}")


def check(kind: str, name: str) -> None:
    """Raise a UserError if there is no such attack, defence or model; a model may also be "module:function"."""
    if name not in names(kind) and not (kind == "model" and ":" in name):
        raise unknown(kind, name, [*names(kind), *["my_module:function"] * (kind == "model")])


def check_spec(spec: Spec, evaluations: Iterable[Evaluation] = ()) -> None:
    """Raise a UserError if the dataset, the model, the defence or an attack of a training does not exist.

    Likewise if its evaluations have an unknown attack, or a radius that is none.
    """
    datasets.check(spec.dataset)
    check("model", spec.model)
    check("defence", spec.defence)
    for attack in (spec.attack, spec.probe, spec.select):
        if attack is not None:
            check("attack", attack)
    for evaluation in evaluations:
        check("attack", evaluation.resolved_for(spec).attack)


def check_audit(given: Mapping[str, Any]) -> None:
    """Raise a UserError if a field of an audit, of those that are given, has a value that no audit can have.

    Besides fields: limit, the number of images; classes, those that are critical; weights, a file in or below the checkout.
    """
    known = {field.name for field in fields(Audit)}
    values = {"dataset": "digits", "eps": "0.2", **{name: value for name, value in given.items() if name in known}}
    audit = Audit(network="", sha256="", **values | {"eps": str(values["eps"])})
    datasets.check(audit.dataset)
    check("model", audit.model)
    check("attack", audit.attack)
    classes = datasets.known_classes(audit.dataset)
    if "limit" in given and given["limit"] < (least := len(classes or ["one"])):
        raise UserError(f"--limit {given['limit']} is less than one image for each of the {least} classes")
    if classes:
        critical(given.get("classes", []), classes)
    if "weights" in given and not (place := checkout() / arguments.path("weights", given["weights"])).is_dir():
        check_file(place, "file", "name the weights of a network, or leave it out")
