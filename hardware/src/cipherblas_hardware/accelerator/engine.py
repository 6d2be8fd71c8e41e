"""An engine whose linear transforms, products and sums are those of the simulated accelerator.

    program.server(keys, engine="fame-rtl").run(operands)       # the hardware's own description, in Verilator
    program.server(keys, engine="fame-machine").run(operands)   # what its instructions compute, on NumPy

It is for small rings: a simulation takes a thousand times as long as the processor, and more.
"""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cipherblas.common.errors import MismatchError, UnsuitedError
from cipherblas.crypto.params import Parameters
from cipherblas.engines.cpu import CpuEngine
from cipherblas.engines.handles import Signed, Term, Words
from cipherblas.engines.operations import OPERATIONS
from cipherblas_hardware.accelerator.isa import Element
from cipherblas_hardware.accelerator.machine import Machine
from cipherblas_hardware.accelerator.runner import Runner, Tally
from cipherblas_hardware.accelerator.timing import Timing

LANES = 8  # of the engines of programs; rings that have no 32 rows of them get fewer
ROWS = 32
# Calls that move, view or encode data, as a host does for its accelerator.
MOVING = (
    *("upload", "download", "upload_key", "upload_message", "upload_matrix", "download_matrix"),
    *("addend", "factor", "extended_factor", "encryption", "weights_shape", "write_weights"),
    *("drop", "components", "beside", "transposed", "cut", "copied", "stack", "spread", "drop_limbs"),
)
MakeElement = Callable[[Timing], Element]


def machine_element() -> MakeElement:
    """What makes elements of the functional model."""
    return Machine


def rtl_element(**options: Any) -> MakeElement:
    """What makes elements of the simulated hardware.

    Args:
        options: of `SimulatedElement`.

    Raises:
        StorageError: Verilator or g++ is not installed.
    """
    from cipherblas_hardware.accelerator.verilated import check_tools

    check_tools()
    from cipherblas_hardware.accelerator.simulator import SimulatedElement

    return functools.partial(SimulatedElement, **options)


def on_machine(params: Parameters) -> FameEngine:
    """The engine "fame-machine": the functional model of the accelerator."""
    return FameEngine(params, machine_element())


def on_rtl(params: Parameters) -> FameEngine:
    """The engine "fame-rtl": the accelerator's SystemVerilog, simulated.

    Raises:
        StorageError: Verilator or g++ is not installed.
    """
    return FameEngine(params, rtl_element())


class FameEngine(CpuEngine):
    """The processor, with an accelerator beside it for the calls that FAME's has: linear transforms, products with
    relinearisation and rescale, sums. Their words are compared with the processor's.

    Args:
        params: of the ciphertexts.
        make: an element of given lanes and ring degree.
        lanes: dp; by default 8, or fewer in rings that are smaller than 32 rows of them.
        strict: what the accelerator does not compute is refused, and not left to the processor.
        compared: every result is computed by the processor as well.

    Raises:
        ParameterError: there is no element of so many lanes for the ring.

    Example: a product whose transforms run on the functional model:

        keys = client.evaluation_keys()
        result = program.server(keys, engine="fame-machine").run(client.encrypt({"a": a, "b": b}))
    """

    def __init__(
        self,
        params: Parameters,
        make: MakeElement = Machine,
        *,
        lanes: int | None = None,
        strict: bool = False,
        compared: bool = True,
    ) -> None:
        super().__init__(params)
        self._options: dict[str, Any] = {"lanes": lanes, "strict": strict, "compared": compared}
        self._make, self._compared = make, compared
        lanes = min(LANES, max(4, params.n // ROWS)) if lanes is None else lanes
        element = make(Timing(lanes, params.n.bit_length() - 1))
        self._runner = Runner(element, params.context(), params.alpha, params.digit_limbs)
        self._lock = threading.Lock()  # an element runs one program at a time
        self.elsewhere: Counter[str] = Counter()
        for name in OPERATIONS.keys() - {*ACCELERATED, *MOVING}:
            setattr(self, name, self._left(name, getattr(self, name), strict))

    @property
    def tally(self) -> Tally:
        """The cost of all programs that the element has run."""
        return self._runner.tally

    @property
    def timing(self) -> Timing:
        """The element's lanes and rows."""
        return self._runner.element.timing

    def _left(self, name: str, call: Callable[..., Any], strict: bool) -> Callable[..., Any]:
        """A call that the processor computes."""

        def left(*args: Any, **options: Any) -> Any:
            if strict:
                raise UnsuitedError(
                    f"The accelerator does not compute {name}.",
                    expected=" | ".join(ACCELERATED),
                    got=name,
                    advice="strict=False leaves it to the processor",
                )
            self.elsewhere[name] += 1
            return call(*args, **options)

        return left

    def _checked(self, name: str, mine: Words, processor: Callable[[], Words]) -> Words:
        """The words of the accelerator, which are those of the processor."""
        if self._compared:
            wanted = processor()
            if not np.array_equal(mine, wanted):
                place = tuple(int(i) for i in np.argwhere(mine != wanted)[0])
                raise MismatchError(
                    f"The accelerator's words of {name} are not those of the processor.",
                    expected=f"{wanted[place]} as component, limb, coefficient {place}",
                    got=int(mine[place]),
                )
        return mine

    def beside(self, params: Parameters) -> FameEngine:
        return FameEngine(params, self._make, **self._options)

    def linear_transform(
        self,
        sources: Sequence[Words],
        terms: Sequence[Term],
        keys: Sequence[Words],
        plaintexts: Sequence[Signed],
        outputs: int,
        rescale: bool,
        order: str,
    ) -> list[Words]:
        plain = super().linear_transform
        if sources[0].shape[0] != 2:  # messages that share their a part
            left = self._left("linear_transform", plain, self._options["strict"])
            found: list[Words] = left(sources, terms, keys, plaintexts, outputs, rescale, order)
            return found
        with self._lock:
            mine = self._runner.linear_transform(sources, terms, keys, plaintexts, outputs, rescale)
        if self._compared:
            wanted = plain(sources, terms, keys, plaintexts, outputs, rescale, order)
            for one, other in zip(mine, wanted, strict=True):
                self._checked("linear_transform", one, lambda other=other: other)  # type: ignore[misc]
        return mine

    def switch(self, x: Words, key: Words) -> Words:
        with self._lock:
            (mine,) = self._runner.linear_transform([x], [(0, 0, 1, 0, -1)], [key], [], 1, False)
        plain = super().switch
        return self._checked("switch", mine, lambda: plain(x, key))

    def relinearise(self, x: Words, key: Words, rescale: bool = False) -> Words:
        with self._lock:
            mine = self._runner.relinearise(x, key, rescale)
        plain = super().relinearise
        return self._checked("relinearise", mine, lambda: plain(x, key, rescale))

    def multiply_sum(
        self, lefts: Sequence[Words], rights: Sequence[Words], accumulator: Words | None
    ) -> Words:
        with self._lock:
            mine = self._runner.multiply_sum(lefts, rights, accumulator)
        plain = super().multiply_sum
        return self._checked("multiply_sum", mine, lambda: plain(lefts, rights, accumulator))

    def multiply_relinearise(self, x: Words, y: Words, key: Words, left_factor: int = 1) -> Words:
        left = x if left_factor == 1 else self.multiply_scalar(x, left_factor)
        mine = self.relinearise(self.multiply_sum([left], [y], None), key)
        plain = super().multiply_relinearise
        return self._checked("multiply_relinearise", mine, lambda: plain(x, y, key, left_factor))

    def relinearised_sums(
        self, lefts: Sequence[Sequence[Words]], rights: Sequence[Sequence[Words]], key: Words, factor: int
    ) -> list[Words]:
        found = []
        for line in lefts:
            for column in rights:
                total = self.multiply_sum(line, column, None)
                found.append(
                    self.relinearise(total if factor == 1 else self.multiply_scalar(total, factor), key)
                )
        return found

    def multiply_rescale(
        self,
        x: Words,
        y: Words,
        key: Words,
        factor: int,
        added: Words | None,
        added_factor: int,
        constant: int,
        left_factor: int = 1,
    ) -> Words:
        product = self.multiply_sum([x], [y], None)
        values = [left_factor * factor]
        terms = [product]
        if added is not None:
            values.append(added_factor)
            terms.append(np.concatenate([added, np.zeros_like(added[:1])]))
        (total,) = self.scaled_sums([(terms, values, constant)])
        mine = self.relinearise(total, key, True)
        plain = super().multiply_rescale
        arguments = (x, y, key, factor, added, added_factor, constant, left_factor)
        return self._checked("multiply_rescale", mine, lambda: plain(*arguments))

    def rescale(self, x: Words) -> Words:
        with self._lock:
            mine = self._runner.rescale(x)
        plain = super().rescale
        return self._checked("rescale", mine, lambda: plain(x))

    def add(self, x: Words, y: Words) -> Words:
        both = min(len(x), len(y))
        with self._lock:
            mine = self._runner.add(x[:both], y[:both])
        more = x if len(x) > both else y
        plain = super().add
        return self._checked("add", np.concatenate([mine, more[both:]]), lambda: plain(x, y))

    def sub(self, x: Words, y: Words) -> Words:
        both = min(len(x), len(y))
        with self._lock:
            mine = self._runner.scaled_sum([x[:both], y[:both]], [1, -1])
            rest = self._runner.scaled_sum([y[both:]], [-1]) if len(y) > both else x[both:]
        plain = super().sub
        return self._checked("sub", np.concatenate([mine, rest]), lambda: plain(x, y))

    def neg(self, x: Words) -> Words:
        with self._lock:
            mine = self._runner.scaled_sum([x], [-1])
        plain = super().neg
        return self._checked("neg", mine, lambda: plain(x))

    def multiply_scalar(self, x: Words, value: int) -> Words:
        with self._lock:
            mine = self._runner.scaled_sum([x], [value])
        plain = super().multiply_scalar
        return self._checked("multiply_scalar", mine, lambda: plain(x, value))

    def scaled_sums(self, sums: Sequence[tuple[Sequence[Words], Sequence[int], int]]) -> list[Words]:
        found, plain = [], super().scaled_sums
        for each in sums:
            with self._lock:
                mine = self._runner.scaled_sum(*each)
            found.append(self._checked("scaled_sums", mine, lambda each=each: plain([each])[0]))  # type: ignore[misc]
        return found


# Calls that the accelerator computes.
ACCELERATED = tuple(name for name in vars(FameEngine) if name in OPERATIONS and name not in MOVING)
