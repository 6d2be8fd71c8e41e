"""`Native`: runs an algorithm on ciphertexts, with public keys alone."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import MismatchError, MissingKeyError
from cipherblas.common.limits import RUN_BYTES, streaming_batch
from cipherblas.common.memory import aligned_empty, in_threads
from cipherblas.common.words import WORD_BYTES
from cipherblas.crypto.keys.evaluation import EvaluationKeys, RowKeys
from cipherblas.crypto.keys.key_id import RELINEARISATION, FromRows, FromSparse, KeyId, ToRows, ToSparse
from cipherblas.crypto.params import Parameters
from cipherblas.engines.cpu import CpuEngine
from cipherblas.engines.encodings import RESIDENT_BYTES, EncodeCache, Encodings, WeightStore
from cipherblas.engines.handles import Factor, Key, Message, Words
from cipherblas.engines.handles import Term as EngineTerm
from cipherblas.engines.protocol import Engine
from cipherblas.evaluators.policy.interface import Numbers, Scale
from cipherblas.evaluators.slots.bookkeeping import DEFAULT_WORKING_BYTES, Term
from cipherblas.evaluators.slots.encoder import encoder_of
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.lazy import LazyCiphertext
from cipherblas.evaluators.slots.products import SUMMED
from cipherblas.evaluators.slots.scales import NumberSumData
from cipherblas.evaluators.slots.values import (
    ClearFactor,
    Ct,
    GiantStep,
    Order,
    Plain,
    Polynomials,
    WeightGroup,
)
from cipherblas.rlwe.key_policies import KeyPolicy

MIN_COEFFICIENTS = 8  # of the polynomials of `Engine.polynomial_sums`


class Native(Evaluator):
    """Homomorphic arithmetic by an engine. Data: its handles; `fresh` takes uint64 (components, limbs, N) in NTT form.

    Args:
        params: the parameters of ciphertexts and keys.
        keys: evaluation keys, or None where nothing is switched.
        engine: who computes; by default this processor.
        order: loop order of linear transforms: "limb" (MO-HLT) or "rotation" (coarse); equal results.
        key_policy: how steps become rotations; must be that of the plan whose keys are given.
        working_bytes: for the buffers of one linear-transform call.
        encodings: where encoded masks and constants are kept; by default its own.
        weights: the store of encoded weights; by default its own.

    Raises:
        MismatchError: the keys belong to other parameters.
    """

    def __init__(
        self,
        params: Parameters,
        keys: EvaluationKeys | RowKeys | None,
        *,
        engine: Engine | None = None,
        order: Order = "limb",
        key_policy: KeyPolicy = "direct",
        working_bytes: int = DEFAULT_WORKING_BYTES,
        encodings: Encodings | None = None,
        weights: WeightStore | None = None,
    ) -> None:
        encodings = encodings if encodings is not None else Encodings()
        super().__init__(
            params, key_policy=key_policy, working_bytes=working_bytes, mask_budget=encodings.budget
        )
        if keys is not None and keys.params != params:
            raise MismatchError(
                "The evaluation keys belong to other parameters.",
                expected=params.fingerprint()[:12],
                got=keys.params.fingerprint()[:12],
            )
        self.order: str = order
        self.encodings = encodings
        self.weights = weights if weights is not None else WeightStore()
        self._run_encodings = EncodeCache(RUN_BYTES)  # of clear operands, which a run may use more than once
        self.encoding_seconds = 0.0  # spent on weights that were not stored yet
        self._stages: dict[str, float] = {}
        self._rotations: dict[tuple[int, ...], tuple[list[int], list[EngineTerm]]] = {}  # of `_rotate_data`
        self._keys = keys
        self._rooms: NDArray[Any] | None = None  # of streamed ciphertexts, one in each
        self.engine: Engine = engine if engine is not None else CpuEngine(params)
        # It encodes: two machines may round float64 differently, and engines must agree.
        self._encoder = encoder_of(params)
        self._parameters = params

    def fresh_block(self, data: Sequence[Any], *, bound: float, **options: Any) -> list[Ct]:
        """Return handles on fresh ciphertexts. Data that are functions make lazy ciphertexts."""
        if not callable(data[0]):
            return super().fresh_block(data, bound=bound, **options)
        like = super().fresh_block([None] * len(data), bound=bound, **options)
        return [LazyCiphertext(ct, make, self.engine.upload) for ct, make in zip(like, data, strict=True)]

    def downloaded(self, data: Any) -> tuple[Any, ...]:
        """The words of a result."""
        return (self.engine.download(data),)

    def _begin_anew(self) -> None:
        self._rooms = None

    def _fresh_data(self, data: Any) -> Any:
        return None if data is None else self.engine.upload(data)

    def _fresh_block_data(self, data: Sequence[Any]) -> list[Any]:
        return list(map(self._fresh_data, data))

    # ---- keys ----

    def _evaluation_keys(self) -> EvaluationKeys | RowKeys:
        if self._keys is None:
            raise MissingKeyError("No evaluation keys were given.", expected="EvaluationKeys", got="none")
        return self._keys

    def _check_key(self, key: KeyId, limbs: int) -> None:
        self._evaluation_keys().expect(key, limbs)

    def _key(self, key: KeyId, limbs: int) -> Key:
        return self.engine.upload_key(self._evaluation_keys().get(key, limbs))

    def _rotation_key(self, step: int, limbs: int) -> Key:
        return self._key(self.rotation_key(step), limbs)

    def _relinearisation_key(self, limbs: int) -> Key:
        return self._key(RELINEARISATION, limbs)

    def _switched(self, engine: Engine, data: Any, key: KeyId, limbs: int) -> Any:
        """Under the secret that a key switches to, by the engine of the ring that it is made in."""
        return engine.switch(data, engine.upload_key(self._evaluation_keys().get(key, limbs)))

    def _raise_data(self, data: Any, limbs: int) -> Any:
        small = self.engine.beside(self._parameters.family.sparse)
        sparse = self._switched(small, data, ToSparse(shared=self.shared_by), 1)
        key = FromSparse(shared=self.shared_by)
        return self._switched(self.engine, self.engine.raised(sparse, limbs), key, limbs)

    def _raised_data(
        self,
        datas: Sequence[Any],
        bound: float,
        steps: Sequence[int],
        group: GiantStep,
        scale: float,
        limbs: int,
        repeats: int,
    ) -> list[Any]:
        family = self._parameters.family
        small, raising = self.engine.beside(family.sparse), self.engine.beside(family.raising)
        sparse = [self._switched(small, data, ToSparse(), 1) for data in datas]
        names = [self.raising_key(step) for step in steps]
        keys = [raising.upload_key(self._evaluation_keys().get(name, limbs)) for name in names]

        def factor(plain: Plain) -> Factor:
            return self._kept(plain).get(
                (plain.key, scale, limbs, "raising", repeats),
                lambda: raising.extended_factor(self._message(plain, scale), limbs, repeats),
            )

        babies = [(name.element, index) for index, name in enumerate(names)]
        giants = [(1, -1, [(index, index) for index in range(len(steps))])]
        raised = [raising.raised(one, limbs) for one in sparse]
        return raising.giant_steps(raised, babies, giants, keys, list(map(factor, group.plains)), repeats)

    def _joined_data(self, parts: Sequence[Any], inner: Any, limbs: int) -> Any:
        return self._switched(self.engine, self.engine.joined(parts, inner.engine), FromRows(), limbs)

    def _parted_data(self, data: Any, inner: Any, limbs: int) -> Sequence[Any]:
        small = self.engine.beside(self._parameters.family.descending)
        return self.engine.parted(self._switched(small, data, ToRows(), limbs), inner.engine)

    @property
    def stage_seconds(self) -> Mapping[str, float]:
        """As `Evaluator.stage_seconds`."""
        return self._stages

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """As `Evaluator.stage`: measured."""
        start = time.perf_counter()
        yield
        self._stages[name] = self._stages.get(name, 0.0) + time.perf_counter() - start

    # ---- plaintexts ----

    def coefficients(self, plain: Plain, scale: float) -> Message:
        """round(scale · plain) as coefficients, cached.

        Raises:
            ShapeError, RangeError: not S finite numbers, beyond the declared bound, or 2^62 and more at this scale.
        """
        return self._kept(plain).get((plain.key, scale), lambda: self._message(plain, scale))

    def _kept(self, plain: Plain) -> Encodings | EncodeCache:
        """Where the encodings of a plaintext are kept."""
        return self.encodings if plain.constant else self._run_encodings

    def _message(self, plain: Plain, scale: Scale) -> Message:
        return self.engine.upload_message(self._encoder.one(plain, scale))

    def _messages(self, plains: Sequence[Plain], scale: Scale) -> Iterator[list[Message]]:
        """Yield the plaintexts of several vectors, a few at a time."""
        for found in self._encoder.all(plains, scale):
            yield list(map(self.engine.upload_message, found))

    def _factor(self, plain: Plain, scale: float, limbs: int) -> Factor:
        """The plaintext to multiply by, cached."""
        return self._kept(plain).get(
            (plain.key, scale, limbs), lambda: self.engine.factor(self._message(plain, scale), limbs)
        )

    def _extended_factor(self, plain: Plain, scale: float, limbs: int, repeats: int) -> Factor:
        """The same for `Engine.giant_steps`."""
        return self._kept(plain).get(
            (plain.key, scale, limbs, "extended", repeats),
            lambda: self.engine.extended_factor(self._message(plain, scale), limbs, repeats),
        )

    # ---- hooks ----

    def _rotate_data(self, data: Any, steps: Sequence[int], limbs: int) -> list[Any]:
        key = tuple(steps)
        if key not in self._rotations:
            different = list(dict.fromkeys(step for step in steps if step))
            position = {step: index for index, step in enumerate(different)}
            rows = [
                (output, 0, self.rotation_key(step).element if step else 1, position.get(step, -1), -1)
                for output, step in enumerate(steps)
            ]
            self._rotations[key] = different, rows
        different, rows = self._rotations[key]
        keys = [self._rotation_key(step, limbs) for step in different]
        return self.engine.linear_transform([data], rows, keys, [], len(steps), False, self.order)

    def _transform_data(
        self,
        sources: Sequence[Any],
        terms: Sequence[Term],
        outputs: int,
        limbs: int,
        rescale: bool,
        order: str | None,
    ) -> list[Any]:
        given = self._engine_terms(terms, limbs)
        return self.engine.linear_transform(sources, *given, outputs, rescale, order or self.order)

    def _undivided_data(self, sources: Sequence[Any], terms: Sequence[Term], limbs: int) -> Any:
        return self.engine.transform_sum(sources, *self._engine_terms(terms, limbs))

    def _divide_sums_data(self, parts: Sequence[Any]) -> Any:
        return self.engine.divide_sums(parts)

    def _engine_terms(
        self, terms: Sequence[Term], limbs: int
    ) -> tuple[list[EngineTerm], list[Key], list[Message]]:
        """Terms, their keys and their plaintexts, as the engine takes them."""
        steps = list(dict.fromkeys(term.step for term in terms if term.step))
        keys = [self._rotation_key(step, limbs) for step in steps]
        position = {step: index for index, step in enumerate(steps)}
        mask_scale = self.mask_scale(limbs)
        plains = [term.plain for term in terms if term.plain is not None]
        made: dict[Hashable, Message] = {}
        absent = {plain.key: plain for plain in plains if (plain.key, mask_scale) not in self._kept(plain)}
        lacking = list(absent.values())
        messages = itertools.chain.from_iterable(self._messages(lacking, mask_scale))
        for plain, message in zip(lacking, messages, strict=True):
            made[plain.key] = self._kept(plain).get((plain.key, mask_scale), _giving(message))
        plaintexts = [made[p.key] if p.key in made else self.coefficients(p, mask_scale) for p in plains]
        used = 0
        rows = []
        for term in terms:
            galois = self.rotation_key(term.step).element if term.step else 1
            plaintext = -1
            if term.plain is not None:
                plaintext = used
                used += 1
            rows.append((term.output, term.source, galois, position.get(term.step, -1), plaintext))
        return rows, keys, plaintexts

    def _giant_steps_data(
        self,
        datas: Sequence[Any],
        babies: Sequence[int],
        groups: Sequence[GiantStep],
        scale: float,
        limbs: int,
        repeats: int,
    ) -> list[Any]:
        steps = dict.fromkeys(step % self.slots for step in (*babies, *(group.step for group in groups)))
        position = {step: index for index, step in enumerate(step for step in steps if step)}
        keys = [self._rotation_key(step, limbs) for step in position]

        def rotation(step: int) -> tuple[int, int]:
            step %= self.slots
            return (self.rotation_key(step).element, position[step]) if step else (1, -1)

        number = {baby: index for index, baby in enumerate(babies)}
        plaintexts: list[Factor] = []
        giants = []
        for group in groups:
            first = len(plaintexts)
            plaintexts += [self._extended_factor(plain, scale, limbs, repeats) for plain in group.plains]
            terms = [(number[baby], first + index) for index, baby in enumerate(group.babies)]
            giants.append((*rotation(group.step), terms))
        return self.engine.giant_steps(datas, list(map(rotation, babies)), giants, keys, plaintexts, repeats)

    def _coefficient_parts_data(
        self, datas: Sequence[Any], level: int, steps: Sequence[int], outputs: int, limbs: int
    ) -> list[Any]:
        keys = [self._rotation_key(step, limbs) for step in steps]
        return self.engine.coefficient_parts(datas, level, len(steps) + 1, outputs, keys)

    def _lefts(self, lefts: Sequence[Any]) -> Sequence[Any]:
        """The left factors of products, times what each is multiplied by."""
        factor = self.policy.product_factor
        return lefts if factor == 1 else [self.engine.multiply_scalar(left, factor) for left in lefts]

    def _product_data(self, lefts: Sequence[Any], rights: Sequence[Any], accumulator: Any) -> Any:
        factor = self.policy.product_factor
        if factor == 1 or len(lefts) == 1:
            return self.engine.multiply_sum(self._lefts(lefts), rights, accumulator)
        total = self.engine.multiply_scalar(self.engine.multiply_sum(lefts, rights, None), factor)
        return total if accumulator is None else self.engine.add(accumulator, total)

    def _handles_product_data(self, lefts: Sequence[Ct], rights: Sequence[Ct], accumulator: Any) -> Any:
        """Streamed ciphertexts are made for a few terms at a time; the next terms reuse their memory."""
        if not any(map(_is_streamed, (*lefts, *rights))):
            return super()._handles_product_data(lefts, rights, accumulator)
        # The left factor of one product is made times what it is multiplied by.
        single = len(lefts) == 1 and _is_streamed(lefts[0]) and lefts[0] is not rights[0]
        factors = itertools.chain([self.policy.product_factor if single else 1], itertools.repeat(1))
        shape = (2, lefts[0].limbs, self.n)
        terms = streaming_batch(math.prod(shape) * WORD_BYTES)
        if self._rooms is None or self._rooms.shape[1:] != shape:
            self._rooms = None  # before the other one is there
            self._rooms = aligned_empty((2 * terms, *shape))
        for start in range(0, len(lefts), terms):
            some = [*lefts[start : start + terms], *rights[start : start + terms]]
            nbytes = len(some) * math.prod(shape) * WORD_BYTES
            streamed = in_threads(_read_once, list(zip(some, self._rooms, factors, strict=False)), nbytes)
            both = streamed[: len(some) // 2], streamed[len(some) // 2 :]
            products = self.engine.multiply_sum if single else self._product_data
            accumulator = products(*both, accumulator)
        return accumulator

    def _plain_product_data(
        self, plains: Sequence[Plain], scale: float, cts: Sequence[Any], accumulator: Any, limbs: int
    ) -> Any:
        batch = max(1, self.working_bytes // self.costs.factor_bytes(limbs))
        for start in range(0, len(plains), batch):
            group = plains[start : start + batch]
            factors = [self._factor(plain, scale, limbs) for plain in group]
            accumulator = self.engine.multiply_plain_sum(factors, cts[start : start + batch], accumulator)
        return accumulator

    def _weighted_sums_data(
        self, groups: Sequence[WeightGroup], scale: float, cts: Sequence[Any], limbs: int
    ) -> list[Any]:
        results: list[Any] = []
        start, each = 0, self.costs.factor_bytes(limbs)
        while start < len(groups):
            # What is not stored is encoded for as many groups as fit the working memory; what is may be in a file.
            stop, room = start, RESIDENT_BYTES // 2 if groups[start].stored else self.working_bytes
            while stop < len(groups) and (stop == start or room >= 0):
                room -= len(groups[stop].sources) * each
                stop += 1
            blocks = []
            for group in groups[start:stop]:
                blocks.append(self._block(group, scale, limbs, len(cts)))
                if self.on_weights is not None:
                    self.on_weights(len(group.sources))
            terms = [list(group.sources) for group in groups[start:stop]]
            results += self.engine.weighted_sums(blocks, terms, cts)
            start = stop
        return results

    def _block(self, group: WeightGroup, scale: float, limbs: int, cts: int) -> Words:
        """The weights of a group, encoded, as the engine has them."""
        key = (group.key, scale, limbs, cts)
        found, begin = self.weights.get(key) if group.stored else None, time.perf_counter()
        if found is not None:
            return found
        shape = self.engine.weights_shape(limbs, len(group.sources), cts)

        def fill(block: Words) -> Words:
            plains = [
                Plain((group.key, term), functools.partial(group.build, term), 1.0)
                for term in range(len(group.sources))
            ]
            first = 0
            for messages in self._messages(plains, scale):
                self.engine.write_weights(block, first, messages)
                first += len(messages)
            return block

        if not group.stored:  # in every run
            return fill(aligned_empty(shape))
        block = self.weights.make(key, shape, fill)
        if key in self.weights:  # else every run does so
            self.encoding_seconds += time.perf_counter() - begin
        return block

    def _polynomial_sums_data(self, polynomials: Polynomials, cts: Sequence[Any]) -> list[Any]:
        shape = (*polynomials.shape[:2], max(polynomials.shape[2], MIN_COEFFICIENTS))
        signed = aligned_empty(shape, np.int64)
        signed[..., : polynomials.shape[2]] = polynomials.integers()
        signed[..., polynomials.shape[2] :] = 0
        return self.engine.polynomial_sums(signed, cts)

    def _matrix_product_data(self, factor: ClearFactor, cts: Sequence[Ct], limbs: int) -> list[Any]:
        integers, sums = factor.integers(), None
        rooms: NDArray[Any] | None = None  # of lazy ciphertexts that nothing else reads
        for start in range(0, len(cts), SUMMED):
            some = cts[start : start + SUMMED]
            if rooms is None and any(map(_is_streamed, some)):
                rooms = aligned_empty((len(some), some[0].components, limbs, self.n))
            datas = (
                [ct.data for ct in some]
                if rooms is None
                else in_threads(_read_once, list(zip(some, rooms, itertools.repeat(1), strict=False)))
            )
            sums = self.engine.integer_sums(integers[:, start : start + SUMMED], datas, sums)
        return sums or []

    def _relinearise_data(self, data: Any, limbs: int) -> Any:
        return self.engine.relinearise(data, self._relinearisation_key(limbs))

    def _relinearised_product_data(self, x: Any, y: Any, limbs: int) -> Any:
        key, left_factor = self._relinearisation_key(limbs), self.policy.product_factor
        return self.engine.multiply_relinearise(x, y, key, left_factor)

    def _relinearised_sums_data(
        self, lefts: Sequence[Sequence[Any]], rights: Sequence[Sequence[Any]], limbs: int
    ) -> list[Any]:
        key = self._relinearisation_key(limbs)
        return self.engine.relinearised_sums(lefts, rights, key, self.policy.product_factor)

    def _product_rescale_data(
        self,
        x: Any,
        y: Any,
        added: Sequence[Any],
        values: Sequence[float],
        numbers: Numbers,
        scale: float,
        limbs: int,
    ) -> Any:
        key, constant = self._relinearisation_key(limbs), self.policy.constant(numbers.constant, scale, limbs)
        other, of_other = (added[0], numbers.factors[1]) if added else (None, 0)
        factors = numbers.factors[0], other, of_other, constant, self.policy.product_factor
        return self.engine.multiply_rescale(x, y, key, *factors)

    def _relinearise_rescale_data(self, data: Any, limbs: int) -> Any:
        return self.engine.relinearise(data, self._relinearisation_key(limbs), rescale=True)

    def _rescale_data(self, data: Any) -> Any:
        return self.engine.rescale(data)

    def _drop_data(self, data: Any, limbs: int) -> Any:
        return self.engine.drop(data, limbs)

    def _add_data(self, x: Any, y: Any) -> Any:
        return self.engine.add(x, y)

    def _sub_data(self, x: Any, y: Any) -> Any:
        return self.engine.sub(x, y)

    def _negate_data(self, x: Any) -> Any:
        return self.engine.neg(x)

    def _add_plain_data(self, x: Any, plain: Plain, scale: float, factor: int, limbs: int) -> Any:
        engine = self.engine
        plaintext = engine.addend(self.coefficients(plain, scale), limbs)
        if factor == 1:
            return engine.add_plain(x, plaintext)
        return engine.add(x, engine.multiply_scalar(engine.encryption(plaintext), factor))

    def _times_monomial_data(self, x: Any, power: int, limbs: int) -> Any:
        return self.engine.multiply_plain_sum([self._monomial(power, limbs)], [x], None)

    def _monomial(self, power: int, limbs: int) -> Factor:
        """X^power, cached."""

        def monomial() -> Factor:
            coefficients = np.zeros(self.n, np.int64)
            coefficients[power] = 1
            return self.engine.factor(self.engine.upload_message(coefficients), limbs)

        return self._run_encodings.get(("monomial", power, limbs), monomial)

    def _number_sum_data(
        self,
        datas: Sequence[Any],
        values: Sequence[float],
        numbers: Numbers,
        scale: float,
        limbs: int,
    ) -> Any:
        return self._number_sums_data([(datas, values, numbers, scale, limbs)])[0]

    def _number_sums_data(self, sums: Sequence[NumberSumData]) -> list[Any]:
        return self.engine.scaled_sums(
            [
                (datas, numbers.factors, self.policy.constant(numbers.constant, scale, limbs))
                for datas, _, numbers, scale, limbs in sums
            ]
        )

    def _scale_data(self, x: Any, factor: int, value: float) -> Any:
        return x if factor == 1 else self.engine.multiply_scalar(x, factor)


def _giving(message: Message) -> Callable[[], Message]:
    return lambda: message


def _is_streamed(ct: Ct) -> bool:
    return isinstance(ct, LazyCiphertext) and ct.is_streamed()


def _read_once(borrowed: tuple[Ct, NDArray[Any], int]) -> Any:
    """The data of a ciphertext; a streamed one is made in `room`, times an integer, for one product."""
    ct, room, factor = borrowed
    return ct.streamed(room, factor) if isinstance(ct, LazyCiphertext) else ct.data
