"""`fencepost.spark.install()`: programs for `format("kafka")` run with this data source, unchanged.

Spark keeps the name `kafka` for its own connector: it can neither be registered nor discovered. So
`install` wraps the methods of PySpark's readers and writers in this process (of Spark Connect's,
too): `format("kafka")` means `format("fencepost")`, and what Spark refuses of Python sinks though
its own Kafka sink takes it works:

* a write without a mode, or with `errorifexists`, appends;
* `outputMode("update")` of a stream: each micro-batch is written by `foreachBatch`, in which rows
  are appended, as Spark's own sink does; with `deliveryGuarantee=exactly-once`, once each.

What never passes through these methods stays as it was: `USING kafka` in SQL and programs in Scala.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

NAME = "fencepost"
# Spark finds its connector under these names, in any case.
ALIASES = {
    "kafka",
    "org.apache.spark.sql.kafka010",
    "org.apache.spark.sql.kafka010.kafkasourceprovider",
}
FILTER_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
APPENDING = ("append", "default", "error", "errorifexists")
_MODULES = (
    "pyspark.sql.readwriter",
    "pyspark.sql.streaming.readwriter",
    "pyspark.sql.connect.readwriter",
    "pyspark.sql.connect.streaming.readwriter",
)
_originals: dict[tuple[type, str], Callable[..., Any]] = {}

Method = Callable[..., Any]


def install(spark: Any = None) -> None:
    """Let `format("kafka")` mean this data source, in this process and for all sessions.

    With a session the data source is registered there by name as well, for servers whose Python
    does not find it by itself (package `pyspark_fencepost`), and Spark is told to hand filters to
    data sources in Python. Calling it twice is no mistake.
    """
    if not _originals:
        for kind in _classes():
            methods: dict[str, Callable[[Method], Method]] = {"format": _format}
            if kind.__name__ == "DataFrameWriter":
                methods |= {"format": _format_of_batch, "mode": _mode}
            elif kind.__name__ == "DataStreamWriter":
                methods |= {"outputMode": _output_mode, "option": _option, "start": _start}
                methods |= {"options": _options}
            for name, wrap in methods.items():
                original = getattr(kind, name)
                _originals[kind, name] = original
                setattr(kind, name, functools.wraps(original)(wrap(original)))
    if spark is not None:
        from fencepost.spark.datasource import FencepostDataSource

        spark.dataSource.register(FencepostDataSource)
        spark.conf.set(FILTER_PUSHDOWN, "true")


def uninstall() -> None:
    """Take back what `install` has changed; queries that run go on."""
    while _originals:
        (kind, name), original = _originals.popitem()
        setattr(kind, name, original)


def is_installed() -> bool:
    """Whether `format("kafka")` means this data source now."""
    return bool(_originals)


def _classes() -> Iterator[type]:
    """Readers and writers of PySpark, and of Spark Connect where its packages are."""
    for module in _MODULES:
        try:
            found = importlib.import_module(module)
        except Exception:
            if ".connect." not in module:
                raise
            continue  # Connect's own packages are not installed, whatever it says of that
        for name in ("DataFrameReader", "DataFrameWriter", "DataStreamReader", "DataStreamWriter"):
            kind = vars(found).get(name)
            if isinstance(kind, type) and kind.__module__ == module:
                yield kind


def _note(writer: Any, **known: Any) -> dict[str, Any]:
    """What a writer was told, kept with it."""
    notes: dict[str, Any] = writer.__dict__.setdefault("_fencepost", {})
    notes.update(known)
    return notes


def _format(original: Method) -> Method:
    def format(self: Any, source: str) -> Any:
        ours = str(source).lower() in {NAME, *ALIASES}
        _note(self, ours=ours)
        return original(self, NAME if ours else source)

    return format


def _format_of_batch(original: Method) -> Method:
    set_format = _format(original)

    def format(self: Any, source: str) -> Any:
        was_ours = _note(self).get("ours", False)
        set_format(self, source)
        # What was chosen before, translated for this format, or its default.
        chosen = _note(self).get("mode")
        if chosen is None and (was_ours or _note(self)["ours"]):
            chosen = "errorifexists"
        return self if chosen is None else self.mode(chosen)

    return format


def _mode(original: Method) -> Method:
    def mode(self: Any, saveMode: str | None) -> Any:  # noqa: N803
        if saveMode is None:  # from save(), for as chosen before
            return self
        notes = _note(self, mode=saveMode)
        appends = notes.get("ours") and str(saveMode).lower() in APPENDING
        return original(self, "append" if appends else saveMode)

    return mode


def _output_mode(original: Method) -> Method:
    def outputMode(self: Any, outputMode: str) -> Any:  # noqa: N802, N803
        _note(self, update=str(outputMode).lower() == "update")
        return original(self, outputMode)

    return outputMode


def _option(original: Method) -> Method:
    def option(self: Any, key: str, value: Any) -> Any:
        _note(self).setdefault("options", {})[key] = value
        return original(self, key, value)

    return option


def _options(original: Method) -> Method:
    def options(self: Any, **options: Any) -> Any:
        _note(self).setdefault("options", {}).update(options)
        return original(self, **options)

    return options


def _start(original: Method) -> Method:
    def start(
        self: Any,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,  # noqa: N803
        partitionBy: Any = None,  # noqa: N803
        queryName: str | None = None,  # noqa: N803
        **options: Any,
    ) -> Any:
        if format is not None:
            self.format(format)
        if outputMode is not None:
            self.outputMode(outputMode)
        self.options(**options)
        notes = _note(self)
        if notes.get("ours") and notes.get("update"):
            self.foreachBatch(_append_batches(dict(notes.get("options", {}))))
        return original(self, path, None, None, partitionBy, queryName)

    return start


def _append_batches(options: dict[str, Any]) -> Callable[[Any, int], None]:
    """What writes a micro-batch of a stream with output mode update."""
    from fencepost.spark.idempotency import in_batch

    chosen = {key: value for key, value in options.items() if key.lower() != "checkpointlocation"}
    guarantees = [value for key, value in chosen.items() if key.lower() == "deliveryguarantee"]
    is_exactly_once = any(str(value).strip().lower() == "exactly-once" for value in guarantees)

    def append(frame: Any, batch_id: int) -> None:
        written = frame.write.format("fencepost").options(**chosen)
        if is_exactly_once:
            written = written.options(**in_batch(frame, batch_id))
        written.mode("append").save()

    return append
