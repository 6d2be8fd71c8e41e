"""Every method of a product or a layer, by its name: those of the house, and those that are registered from outside.

`register` enters a method. Packages that are installed enter theirs by entry points of the group `cipherblas.methods`,
when methods are first looked up.
"""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from cipherblas.common.errors import DTypeError, ParameterError, UnsuitedError, nearest_choice
from cipherblas.lang.operands import MAX_LENGTH
from cipherblas.methods.matmul.base import Algorithm
from cipherblas.methods.matmul.baselines.e2dm import E2dm
from cipherblas.methods.matmul.baselines.e2dm_r import E2dmR
from cipherblas.methods.matmul.baselines.fame_published import FamePublished
from cipherblas.methods.matmul.baselines.fhe_mm import FheMm
from cipherblas.methods.matmul.baselines.halevi_shoup import HaleviShoup
from cipherblas.methods.matmul.baselines.hegmm import Hegmm
from cipherblas.methods.matmul.baselines.hegmm_en import HegmmEn
from cipherblas.methods.matmul.baselines.huang_zong import HuangZong
from cipherblas.methods.matmul.bicyclic import Bicyclic
from cipherblas.methods.matmul.diagonals import Diagonals
from cipherblas.methods.matmul.fame import Fame
from cipherblas.methods.matmul.gemm import secret_product
from cipherblas.methods.matmul.outer_product import OuterProduct
from cipherblas.methods.matmul.ring_products import outer_product
from cipherblas.methods.matmul.skewed import Skewed
from cipherblas.methods.matvec_conv.base import LayerMethod, OneVectorMethod
from cipherblas.methods.matvec_conv.baselines.fhe_mp_cnn import ConvFheMpCnn, MatVecFheMpCnn
from cipherblas.methods.matvec_conv.baselines.fhelipe import ConvFhelipe, MatVecFhelipe
from cipherblas.methods.matvec_conv.baselines.halevi_shoup_bsgs import MatVecHelib
from cipherblas.methods.matvec_conv.metakernel import ConvMetaKernel, MatVecMetaKernel

RING = "ring-products"  # likewise, in a ring of their own, see methods/matmul/ring_products.py
GEMM = "gemm"  # products of matrices that are encrypted by rows: not in slots, see methods/matmul/gemm.py
GROUP = "cipherblas.methods"  # of entry points
RESERVED = ("elementwise", "packing", "slots")  # what plans call something else

Computes = Literal["product", "matvec", "convolution"]
AnyMethod = TypeVar("AnyMethod", bound=type)

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
# Types of options that files hold; whole numbers are lengths, from 1 to MAX_LENGTH.
OPTION_TYPES: Mapping[str, Any] = {"bool": bool, "int": int, "int | None": int | None}


@dataclass(frozen=True)
class Entry:
    """One method.

    Attributes:
        name: for `algorithm=` and files.
        computes: a product of two matrices, a product of a clear matrix and a vector, or a convolution.
        form: of the values that it computes with: "blocks", "tensors" or "rows".
        method: its class; of "rows" the function.
        outside: it was registered.
    """

    name: str
    computes: Computes
    form: str
    method: Callable[..., Any]
    outside: bool = False

    @property
    def baseline(self) -> bool:
        """Whether it is planned only when it is asked for by name."""
        return bool(getattr(self.method, "baseline", False))


_PRODUCT_BASELINES: tuple[type[Algorithm], ...] = (
    *(FamePublished, Hegmm, HegmmEn),
    *(HuangZong, E2dm, E2dmR, FheMm, HaleviShoup),
)
_PRODUCTS: tuple[type[Algorithm], ...] = (
    *(Diagonals, OuterProduct, Skewed, Bicyclic, Fame),
    *_PRODUCT_BASELINES,
)
_MATVECS: tuple[type[LayerMethod], ...] = (MatVecMetaKernel, MatVecHelib, MatVecFheMpCnn, MatVecFhelipe)
_CONVOLUTIONS: tuple[type[LayerMethod], ...] = (ConvMetaKernel, ConvFheMpCnn, ConvFhelipe)
_ENTRIES: dict[tuple[str, str], Entry] = {
    (entry.name, entry.computes): entry
    for entry in (
        *(Entry(method.name, "product", "blocks", method) for method in _PRODUCTS),
        Entry(GEMM, "product", "rows", secret_product),
        Entry(RING, "product", "rows", outer_product),
        *(Entry(method.name, "matvec", "tensors", method) for method in _MATVECS),
        *(Entry(method.name, "convolution", "tensors", method) for method in _CONVOLUTIONS),
    )
}


# --- looking up ---


def entries() -> list[Entry]:
    """Return all methods, the built-in ones first."""
    _PLUG_INS.load()
    return list(_ENTRIES.values())


def names() -> list[str]:
    """Of all methods; those that compute several things once."""
    return list(dict.fromkeys(entry.name for entry in entries()))


class Methods(Mapping[str, Any]):
    """Name → class of some of the methods, as they are registered now."""

    def __init__(self, computes: Computes, form: str, *, baseline: bool | None = None) -> None:
        self._computes, self._form, self._baseline = computes, form, baseline

    def _chosen(self, entry: Entry | None) -> bool:
        return (
            entry is not None
            and entry.form == self._form
            and entry.computes == self._computes
            and self._baseline in (None, entry.baseline)
        )

    def __getitem__(self, name: str) -> Any:
        _PLUG_INS.load()
        entry = _ENTRIES.get((name, self._computes))
        if entry is None or not self._chosen(entry):
            raise KeyError(name)
        return entry.method

    def __iter__(self) -> Iterator[str]:
        return (entry.name for entry in entries() if self._chosen(entry))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def unknown(what: str, name: str) -> ParameterError:
    """The error for an unknown method name. It lists the known ones."""
    return ParameterError(
        f"There is no {what} of this name.",
        expected=" | ".join(names()),
        got=name,
        advice=nearest_choice("algorithm", name, names()),
    )


class _PlugIns:
    """The methods of installed packages, looked for once."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._loaded = self._loading = False

    def load(self) -> None:
        """Register them; what one raises becomes a warning, and the others are entered."""
        if self._loaded:
            return
        with self._lock:
            self._load()

    def _load(self) -> None:
        if (
            self._loaded or self._loading
        ):  # by another thread; or a plug-in looks methods up while it is imported
            return
        self._loading = True
        try:
            found = importlib.metadata.entry_points(group=GROUP)
            for point in sorted(found, key=lambda point: (point.name, point.value)):
                self._enter(point)
        finally:
            self._loaded, self._loading = True, False

    def _enter(self, point: importlib.metadata.EntryPoint) -> None:
        try:
            register(point.load())
        except Exception as error:
            owner = "an unknown package" if point.dist is None else point.dist.name
            warnings.warn(
                f"The method {point.name!r} of {owner} ({point.value}) is left out: "
                f"{type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )


_PLUG_INS = _PlugIns()


# --- registering ---


def register(method: AnyMethod) -> AnyMethod:
    """Register your own method; the package then plans, saves and runs it like a built-in one. Works as a decorator.

    The planner considers it wherever it fits, unless it is a `baseline`; `algorithm="its-name"` forces it. A program
    that uses it can be loaded where it is registered. A class that is defined again, as in a notebook, replaces itself.

    Args:
        method: a subclass of `cb.lab.Algorithm` (a product of two matrices in slots), or of `cb.lab.OneVectorMethod` (a
            product of a clear matrix and a vector; these are baselines, planned when they are asked for by name).

    Returns:
        The class.

    Raises:
        DTypeError: the class is a subclass of neither.
        ParameterError: it lacks something, its name is taken, or an option has a type that files do not hold.

    Examples:
        `@cb.register` above `class Own(cb.lab.Algorithm): …`; a whole one is in docs/own-product.md.
    """
    given: Any = method
    if not isinstance(given, type) or not issubclass(given, (Algorithm, OneVectorMethod)):
        expected = "a subclass of cb.lab.Algorithm or cb.lab.OneVectorMethod"
        raise DTypeError("Only the class of a method can be registered.", expected=expected, got=repr(given))
    entry = _entry_of(given)
    _check_name_is_free(entry)
    _ENTRIES[entry.name, entry.computes] = entry
    return method


def _entry_of(method: type[Algorithm | OneVectorMethod]) -> Entry:
    """Of a class from outside, which is checked."""
    _check_complete(method)
    _check_attributes(method)
    if issubclass(method, Algorithm):
        options_of(method)
        return Entry(method.name, "product", "blocks", method, outside=True)
    _check_vector_method(method)
    return Entry(method.name, "matvec", "tensors", method, outside=True)


def unregister(name: str) -> None:
    """Take a method off again that `register` entered.

    Raises:
        ParameterError: there is none of that name, or it is one of the house.
    """
    found = [key for key, entry in _ENTRIES.items() if entry.name == name and entry.outside]
    if not found:
        registered = [entry.name for entry in _ENTRIES.values() if entry.outside]
        raise ParameterError(
            "No method of this name was registered.", expected=" | ".join(registered) or "one", got=name
        )
    for key in found:
        del _ENTRIES[key]


def options_of(method: type[Algorithm]) -> dict[str, str]:
    """The options of a product in slots: its keyword arguments, with their types by the names in `OPTION_TYPES`.

    Raises:
        ParameterError: it cannot be made from (m, k, n, slots) alone, or an option has another type.
    """
    try:
        signature = inspect.signature(method, eval_str=True)
        signature.bind(1, 1, 1, 1)
    except (NameError, SyntaxError) as error:
        raise ParameterError(
            f"The annotations of {method.__name__} name unknown types.", expected="known types", got=error
        ) from None
    except TypeError as error:
        expected = "(m, k, n, slots, *, options with defaults)"
        raise ParameterError(
            f"The method {method.__name__} takes the wrong arguments.", expected=expected, got=error
        ) from None
    found = {}
    for parameter in list(signature.parameters.values())[4:]:
        kind = next((name for name, kind in OPTION_TYPES.items() if kind == parameter.annotation), None)
        if parameter.kind is not parameter.KEYWORD_ONLY or kind is None:
            raise ParameterError(
                f"The option {parameter.name} of {method.__name__} is not declared as options are.",
                expected="a keyword argument annotated as " + " or ".join(OPTION_TYPES),
                got=str(parameter),
            )
        found[parameter.name] = kind
    return found


def check_options(method: type[Algorithm], options: Mapping[str, Any]) -> None:
    """Raise UnsuitedError where a method has no such option, or an option a value that files do not hold."""
    kinds = _known_options(method)
    for name, value in options.items():
        kind = kinds.get(name)
        if kind is None:
            raise UnsuitedError(
                f"The algorithm {method.name} does not take these options.",
                expected=", ".join(kinds) or "none",
                got=name,
            )
        if kind == "int | None" and value is None:
            continue
        if kind == "bool":
            expected, right = "True or False", isinstance(value, bool)
        else:
            expected, right = f"from 1 to {MAX_LENGTH}", type(value) is int and 1 <= value <= MAX_LENGTH
        if not right:
            raise UnsuitedError(
                f"The option {name} of {method.name} has the wrong value.", expected=expected, got=repr(value)
            )


_known_options = functools.lru_cache(maxsize=256)(options_of)


def _check_complete(method: type) -> None:
    missing = sorted(getattr(method, "__abstractmethods__", ()))
    if missing:
        raise ParameterError(
            f"The method {method.__name__} is incomplete.",
            expected=f"an implementation of {', '.join(missing)}",
            got="none",
        )


def _check_attributes(method: type) -> None:
    product = issubclass(method, Algorithm)
    for name in ("name", "title", "source", *(["summary"] if product else [])):
        value = getattr(method, name, None)
        if not isinstance(value, str) or not value.strip():
            raise ParameterError(
                f"The attribute {name} of {method.__name__} must be a text.", expected="a text", got=value
            )
    if not _NAME.fullmatch(name := method.name) or name in RESERVED:  # type: ignore[attr-defined]
        expected = f"small letters, digits, hyphens, dots; none of {', '.join(RESERVED)}"
        raise ParameterError("A method cannot have this name.", expected=expected, got=name)
    flags = ("baseline", "blocks_inner") if product else ("baseline",)
    for name in flags:
        if not isinstance(value := getattr(method, name), bool):
            raise ParameterError(
                f"The attribute {name} of {method.__name__} must be a bool.", expected="a bool", got=value
            )
    levels = getattr(method, "min_levels" if product else "levels")
    if type(levels) is not int or levels < 0:
        raise ParameterError(
            f"The levels of {method.__name__} must be a whole number from 0 on.",
            expected="a whole number from 0 on",
            got=levels,
        )


def _check_vector_method(method: type[OneVectorMethod]) -> None:
    if not method.baseline:
        raise ParameterError(
            f"The attribute baseline of {method.__name__} has the wrong value.",
            expected="True: layers are planned by patterns, other methods when they are asked for",
            got=False,
        )
    try:
        inspect.signature(method).bind(None, 1)
    except TypeError as error:
        raise ParameterError(
            f"The method {method.__name__} takes the wrong arguments.", expected="(layout, rows)", got=error
        ) from None


def _check_name_is_free(entry: Entry) -> None:
    for other in list(_ENTRIES.values()):
        if other.name == entry.name and not (other.outside and _place(other.method) == _place(entry.method)):
            taken = ", ".join(dict.fromkeys(known.name for known in _ENTRIES.values()))
            raise ParameterError(
                "The name of the method is taken.", expected=f"another one than {taken}", got=entry.name
            )


def _place(method: Callable[..., Any]) -> tuple[str, str]:
    return method.__module__, method.__qualname__
