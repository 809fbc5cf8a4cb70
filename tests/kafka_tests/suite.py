"""Apache Kafka's own integration tests, as they are published, on nodes of Fencepost.

The tests come compiled from Maven Central and run unchanged. First on their class path stand our
`BrokerServer`, `ControllerServer` and `SharedServer` (`java/kafka/server`), which start a Fencepost
node with the properties that the test made for Kafka's. What asks for objects inside Kafka's
process fails with `NeedsInternals`, what needs a part that Fencepost has not with `NotOffered`.

A JVM runs some classes, since its own start takes longer than most tests. What it leaves, because a
test did not end or ended it, the next JVM runs, without the methods that have had their turn.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fencepost.broker.config.features import SUPPORTED_FEATURES
from fencepost.broker.config.keys import BROKER_CONFIGS

from ..interop.apache import java
from ..interop.maven import ROOT, JarSet, JarsUnavailableError

KAFKA_VERSION = "4.3.1"
MODULES = (
    "kafka_2.13",
    "kafka-clients",
    "kafka-clients-integration-tests",
    "kafka-group-coordinator",
    "kafka-metadata",
    "kafka-raft",
    "kafka-server",
    "kafka-server-common",
    "kafka-share-coordinator",
    "kafka-storage",
    "kafka-storage-api",
    "kafka-streams",
    "kafka-streams-integration-tests",
    "kafka-test-common-runtime",
    "kafka-test-common-util",
    "kafka-tools",
    "kafka-transaction-coordinator",
)
"""The modules of Kafka, each with its test jar."""

JARS = JarSet(
    f"kafka-tests-{KAFKA_VERSION}-junit4",
    (
        *(f"org.apache.kafka:{module}:{KAFKA_VERSION}" for module in MODULES),
        *(f"org.apache.kafka:{module}:{KAFKA_VERSION}:test" for module in MODULES),
        f"org.apache.kafka:kafka-test-common-internal-api:{KAFKA_VERSION}",
        "junit:junit:4.13.2",  # some of the tests for streams groups use its Assert
        "org.junit.jupiter:junit-jupiter:5.13.1",
        "org.junit.platform:junit-platform-launcher:1.13.1",
        "org.mockito:mockito-core:5.20.0",
        "org.mockito:mockito-junit-jupiter:5.20.0",
        "org.hamcrest:hamcrest:3.0",
        "org.bouncycastle:bcpkix-jdk18on:1.80",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
    ),
)

SUITES = (
    "kafka-clients-integration-tests",
    "kafka_2.13",
    "kafka-tools",
    "kafka-server",
    "kafka-storage",
    "kafka-streams-integration-tests",
)
"""The modules whose integration tests are run."""

HARNESSES = (
    b"test/api/ClusterTest",
    b"KafkaClusterTestKit",
    b"QuorumTestHarness",
    b"KafkaServerTestHarness",
    b"IntegrationTestHarness",
    b"EmbeddedKafkaCluster",
    b"AbstractAuthorizerIntegrationTest",
    b"AbstractConsumerTest",
    b"AbstractResetIntegrationTest",
    b"AbstractSaslTest",
    b"BaseAdminIntegrationTest",
    b"BaseConsumerTest",
    b"BaseFetchRequestTest",
    b"BaseProducerSendTest",
    b"BaseQuotaTest",
    b"BaseRequestTest",
    b"EndToEndAuthorizationTest",
    b"GroupCoordinatorBaseRequestTest",
    b"TieredStorageTestHarness",
)
"""What a class that starts a cluster names in its byte code."""

LEFT_OUT = ("testAdminClientHandlingBadIPWithoutTimeout",)
"""Methods that are not run: it connects to an address outside of this machine."""

JAVA = Path(__file__).parent / "java"
BUILD = ROOT / "build" / "kafka-tests"
JVM_LIMIT_S = 1500
"""As long as one JVM may take; then it is killed, and the next one goes on behind the test."""

JVM = (
    "-Xmx512m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xlog:disable",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.stream=ALL-UNNAMED",
)


@dataclasses.dataclass(frozen=True)
class Suite:
    """A class of tests and the module that it is from."""

    module: str
    name: str

    @property
    def lines(self) -> Path:
        """What has been run of it: a line of JSON for the begin and for the end of each test."""
        return BUILD / f"{self.name}.jsonl"


def why_not() -> str | None:
    """Why the tests cannot be run here; None if they can."""
    if shutil.which("javac") is None:
        return "no Java compiler (javac)"
    try:
        JARS.jars()
    except JarsUnavailableError as error:
        return str(error)
    return None


def suites() -> list[Suite]:
    """All classes that start clusters, in the order of `SUITES`."""
    return [
        Suite(module, name)
        for module in SUITES
        for name in _classes(JARS.directory / f"{module}-{KAFKA_VERSION}-test.jar")
    ]


def _classes(jar: Path) -> Iterator[str]:
    with zipfile.ZipFile(jar) as archive:
        for entry in sorted(archive.namelist()):
            if not entry.endswith("Test.class") or "$" in entry:
                continue
            code = archive.read(entry)
            if any(harness in code for harness in HARNESSES):
                yield entry.removesuffix(".class").replace("/", ".")


@functools.cache
def compiled() -> Path:
    """Our classes, compiled against the jars, beside the configs and features that there are."""
    sources = sorted(JAVA.rglob("*.java"))
    offered = {
        "keys": "".join(f"{key}\n" for key in sorted(BROKER_CONFIGS)),
        "features": "".join(f"{one.name}={one.max_level}\n" for one in SUPPORTED_FEATURES),
    }
    files = [path for path in sorted(JAVA.rglob("*")) if path.is_file()]
    content = "".join([*offered.values(), *(path.read_text() for path in files)])
    classes = BUILD / f"classes-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    if classes.is_dir():  # a run that goes on while this one begins may use it
        return classes
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as directory:
        draft = Path(directory) / "classes"
        shutil.copytree(JAVA, draft, ignore=shutil.ignore_patterns("*.java"))
        command = ["javac", "-nowarn", "-d", str(draft), "-cp", JARS.class_path()]
        command += map(str, sources)
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise AssertionError(
                f"javac exited with {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        for name, lines in offered.items():
            (draft / name).write_text(lines)
        try:
            draft.rename(classes)
        except OSError:
            if not classes.is_dir():  # if it is, another run has compiled the same
                raise
    return classes


def run(chosen: Sequence[Suite]) -> None:
    """Run what has not been run of some classes."""
    BUILD.mkdir(parents=True, exist_ok=True)
    while rest := [suite for suite in chosen if not is_done(suite)]:
        before = sum(len(results(suite)) for suite in rest)
        _run_once(rest)
        if sum(len(results(suite)) for suite in rest) == before:
            for suite in rest:
                _note(suite, "killed", "a JVM ended, or reached its limit, before it ran a test")
                _note(suite, "end", "")


def is_done(suite: Suite) -> bool:
    """Whether everything of it has been run."""
    return any(line["status"] == "end" for line in results(suite))


def results(suite: Suite) -> list[dict[str, Any]]:
    """The lines that there are of it."""
    if not suite.lines.exists():
        return []
    return [json.loads(line) for line in suite.lines.read_text().splitlines()]


def _note(suite: Suite, status: str, error: str) -> None:
    with suite.lines.open("a") as file:
        line = {"id": suite.name, "name": suite.name, "status": status, "error": error}
        file.write(json.dumps(line) + "\n")


def _run_once(chosen: Sequence[Suite]) -> None:
    """Run the methods that have not had their turn, as far as one JVM comes."""
    with tempfile.TemporaryDirectory(prefix="kafka-tests-") as directory:
        plan = Path(directory) / "plan"
        plan.write_text("".join(f"{line}\n" for suite in chosen for line in _plan(suite)))
        classes = compiled()
        words = [str(java()), *JVM, f"-Djava.io.tmpdir={directory}"]
        words += [f"-Dfencepost.python={sys.executable}", f"-Dfencepost.offered={classes}"]
        words += [f"-Dlog4j2.configurationFile={classes / 'log4j2.xml'}"]
        words += ["-cp", os.pathsep.join((str(classes), JARS.class_path())), "fencepost.Run"]
        words += [str(BUILD), str(plan)]
        with (
            (BUILD / f"{chosen[0].name}.log").open("ab") as log,
            contextlib.suppress(subprocess.TimeoutExpired),
        ):
            subprocess.run(
                words, cwd=ROOT, stdout=log, stderr=log, timeout=JVM_LIMIT_S, check=False
            )


def _plan(suite: Suite) -> Iterator[str]:
    """The class and what is left out of it, as our main class reads them."""
    yield suite.name
    had = {line["method"] for line in results(suite) if "method" in line}
    for method in sorted(had.union(LEFT_OUT)):
        yield f"{suite.name}#{method}"
