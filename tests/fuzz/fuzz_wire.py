"""Coverage-guided search for bytes that a decoder takes wrongly.

    python -m tests.fuzz.fuzz_wire [--canary] CORPUS_DIRECTORY [options of libFuzzer]

Needs the extra `fuzz` (atheris). The generated decoders are instrumented, so that the fuzzer sees
which of their branches an input reaches; the compiled backend runs beside them on the same input.
What is found is printed as a line for `tests/fuzz/found/`, where the ordinary tests read it.
"""

from __future__ import annotations

import sys
from typing import Any

import atheris

with atheris.instrument_imports(include=["fencepost.wire"]):
    from fencepost.wire.generated import GeneratedCodec

    from . import wire_target

compile_plain = GeneratedCodec._compile


def compile_instrumented(self: Any, source: str, environment: Any, label: str) -> dict[str, Any]:
    """As the original, with counters in what it compiled."""
    made = compile_plain(self, source, environment, label)
    for name in ("decode", "encode"):
        if name in made:
            made[name] = atheris.instrument_func(made[name])
    return made


@atheris.instrument_func
def canary(message: Any) -> None:
    """A mistake that only a few inputs reach: whether the fuzzer gets there tests the fuzzer."""
    for tag in message.unknown_tags or ():
        if tag not in (200, 70000) and tag % 4 == 1:  # these two are in the seeds
            raise AssertionError("the canary was found")


def main() -> None:
    """Fuzz until something fails or libFuzzer's limits are reached."""
    arguments = [word for word in sys.argv if word != "--canary"]
    with_canary = len(arguments) != len(sys.argv)
    GeneratedCodec._compile = compile_instrumented  # type: ignore[method-assign]

    def one_input(data: bytes) -> None:
        cls, version, body = wire_target.chosen(data)
        try:
            message = wire_target.check(cls, version, body)
            if with_canary and message is not None:
                canary(message)
        except BaseException:
            print(f"FOUND {cls.__name__} {version} {body.hex()}", file=sys.stderr, flush=True)
            raise

    atheris.Setup(arguments, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
