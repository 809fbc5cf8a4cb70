"""Apache Kafka's own integration tests, as they are published, on nodes of Fencepost.

The tests come compiled from Maven Central and run unchanged. First on their class path stand our
`BrokerServer`, `ControllerServer` and `SharedServer` (`java/kafka/server`), which start a Fencepost
node with the properties that the test made for Kafka's. What asks for objects inside Kafka's process
fails with `NeedsInternals`, what needs a part that Fencepost has not with `NotOffered`.

A class runs in JVMs of its own, each for the methods that have not had their turn, until all have
had it: a test that does not end takes no other one with it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    f"kafka-tests-{KAFKA_VERSION}",
    (
        *(f"org.apache.kafka:{module}:{KAFKA_VERSION}" for module in MODULES),
        *(f"org.apache.kafka:{module}:{KAFKA_VERSION}:test" for module in MODULES),
        f"org.apache.kafka:kafka-test-common-internal-api:{KAFKA_VERSION}",
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
    b"AbstractConsumerTest",
    b"AbstractResetIntegrationTest",
    b"BaseAdminIntegrationTest",
    b"BaseConsumerTest",
    b"BaseFetchRequestTest",
    b"BaseProducerSendTest",
    b"BaseRequestTest",
    b"GroupCoordinatorBaseRequestTest",
    b"TieredStorageTestHarness",
)
"""What a class that starts a cluster names in its byte code."""

LEFT_OUT = ("testAdminClientHandlingBadIPWithoutTimeout",)
"""Methods that are not run: it connects to an address outside of this machine."""

JAVA = Path(__file__).parent / "java"
BUILD = ROOT / "build" / "kafka-tests"
CLASS_LIMIT_S = 1500
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
    """Our classes, compiled against the jars."""
    classes = BUILD / "classes"
    shutil.rmtree(classes, ignore_errors=True)
    shutil.copytree(JAVA / "META-INF", classes / "META-INF")
    command = ["javac", "-nowarn", "-d", str(classes), "-cp", JARS.class_path()]
    command += [str(source) for source in sorted(JAVA.rglob("*.java"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise AssertionError(f"javac exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    (classes / "keys").write_text("".join(f"{key}\n" for key in sorted(BROKER_CONFIGS)))
    shutil.copy(JAVA / "log4j2.xml", classes)
    return classes


def run(suite: Suite, *, anew: bool = False) -> list[dict[str, Any]]:
    """Run what has not been run of a class; the lines of all that has been."""
    BUILD.mkdir(parents=True, exist_ok=True)
    if anew:
        suite.lines.unlink(missing_ok=True)
    while True:
        before = len(results(suite))
        if _run_once(suite):
            break
        if len(results(suite)) == before:
            _note(suite, "killed", "a JVM ended, or reached its limit, before it ran a test")
            break
    if not any(line["status"] == "end" for line in results(suite)):
        _note(suite, "end", "")
    return results(suite)


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


def _run_once(suite: Suite) -> bool:
    """Run the methods that have not had their turn; whether it came to its end."""
    had = sorted({line["method"] for line in results(suite) if "method" in line})
    with tempfile.TemporaryDirectory(prefix="kafka-tests-") as directory:
        classes = compiled()
        words = [str(java()), *JVM, f"-Djava.io.tmpdir={directory}"]
        words += [f"-Dfencepost.python={sys.executable}", f"-Dfencepost.keys={classes / 'keys'}"]
        words += [f"-Dlog4j2.configurationFile={classes / 'log4j2.xml'}"]
        words += ["-cp", os.pathsep.join((str(classes), JARS.class_path())), "fencepost.Run"]
        words += [str(suite.lines), suite.name, *LEFT_OUT, *had]
        with (BUILD / f"{suite.name}.log").open("ab") as log:
            try:
                done = subprocess.run(
                    words, cwd=ROOT, stdout=log, stderr=log, timeout=CLASS_LIMIT_S, check=False
                )
            except subprocess.TimeoutExpired:
                return False
        return done.returncode == 0
