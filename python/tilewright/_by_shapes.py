"""Models for shapes that were not known before: compiled when they are first met, better ones in the background."""
from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _arrays, _compile, _runtime, _verbs
from ._errors import ShapeError, UsageError
from ._model import Model

Shapes = Mapping[str, tuple[int, ...]]


class _Ended(Exception):
    """The program ends: a compilation in the background does, too."""


def _until_the_end(*step: Any) -> None:
    if not threading.main_thread().is_alive():
        raise _Ended


class ByShapes:
    """Models by the shapes of their inputs. make(shapes) compiles one, by one thread at a time; better(shapes), if there
    is one, makes another that takes its place, in the background."""

    def __init__(self, make: Callable[[Shapes], Model], better: Callable[[Shapes], Model] | None = None) -> None:
        self._make = make
        self._better = better
        #: Those that there are, by all shapes in the order of the inputs.
        self.made: dict[tuple[Any, ...], Model] = {}
        self._compiling = threading.Lock()
        self._measuring = threading.Lock()
        self._background: list[threading.Thread] = []

    def get(self, names: Sequence[str], arrays: Sequence[Any]) -> Model:
        key = tuple(tuple(array.shape) for array in arrays)
        model = self.made.get(key)
        if model is None:
            with self._compiling:
                model = self.made.get(key)
                if model is None:
                    shapes = {name: tuple(int(n) for n in shape) for name, shape in zip(names, key)}
                    model = self.made[key] = self._make(shapes)
                    self._start(key, shapes)
        return model

    def _start(self, key: tuple[Any, ...], shapes: Shapes) -> None:
        if self._better is None:
            return
        # A daemon would be stopped within native code; this one ends itself when the main thread has.
        thread = threading.Thread(target=self._improve, args=(key, shapes, self._better), name="tilewright-compile")
        self._background = [*(t for t in self._background if t.is_alive()), thread]
        thread.start()

    def _improve(self, key: tuple[Any, ...], shapes: Shapes, better: Callable[[Shapes], Model]) -> None:
        try:
            with self._measuring:
                _until_the_end()
                self.made[key] = better(shapes)
        except _Ended:
            pass
        except Exception as error:  # the first one stays
            warnings.warn(f"no better code was made in the background for {dict(shapes)}: {error}", RuntimeWarning)

    def clear(self) -> None:
        self.made.clear()

    def wait(self) -> None:
        """Returns when nothing is compiled in the background."""
        for thread in self._background:
            thread.join()


class GrowingModel(Model):
    """A compiled model that compiles itself for shapes that its artefact lacks: tilewright.load(compile_missing=...)."""

    def __init__(self, native: _runtime.Model, artefact: bytes | str, level: str, trusted: Sequence[str] | None,
                 source: Any, options: Mapping[str, Any]) -> None:
        super().__init__(native, artefact, level, trusted=trusted)
        if self.state is not None or len(native.functions) > 1:
            raise UsageError("compile_missing: the model keeps a state, which has one shape")
        self._source: Any = source  # as tilewright.compile takes it
        self._load: Mapping[str, Any] = options
        self._others: ByShapes = ByShapes(self._compiled_at_once, self._compiled)

    def _compiled(self, shapes: Shapes, measure: bool = True) -> Model:
        target = f"cuda:{self.target}" if self._on_device else "cpu"
        with _verbs.as_file(self._artefact, "model.tw") as like:
            artefact = _compile.compile_artefact(self._source, shapes=shapes, like=like, measure=measure, target=target,
                                                 progress=_until_the_end if measure else False)
        return artefact.load(**self._load)

    def _compiled_at_once(self, shapes: Shapes) -> Model:
        return self._compiled(shapes, measure=False)

    def _serving(self, given: list[Any]) -> Model:
        if not all(hasattr(array, "shape") for array in given):
            return self
        try:
            self._native.find_entry(given, _arrays.READ)
            return self
        except ShapeError:
            return self._others.get(self._input_names, given)

    def wait_for_compilations(self) -> None:
        """Returns when nothing is compiled in the background any more."""
        self._others.wait()
