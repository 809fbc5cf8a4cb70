"""Jars from Maven Central, fetched once into a cache and given out as class paths.

Maven itself is the client (the project names no repository address). The cache is
`FENCEPOST_INTEROP_CACHE`, or `.cache/interop` in the project; a set of jars is there when its
directory is, because it is moved into place whole.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FETCH_TIMEOUT_S = 900


class JarsUnavailableError(RuntimeError):
    """Maven or Maven Central is out of reach; the message says which and how it showed."""


@dataclass(frozen=True)
class JarSet:
    """A named set of artifacts, resolved with everything they need, or just themselves.

    Spark's own descriptors name further repositories; `transitive=False` keeps Maven from asking
    those, and the artifacts then list what they need.
    """

    name: str
    artifacts: tuple[str, ...]  # group:artifact:version, and :classifier where there are several
    transitive: bool = True

    @property
    def directory(self) -> Path:
        """Where the jars are once fetched."""
        base = os.environ.get("FENCEPOST_INTEROP_CACHE")
        return (Path(base) if base else ROOT / ".cache" / "interop") / self.name

    def jars(self) -> list[Path]:
        """The jars, fetching them on first use; JarsUnavailableError with the reason if not."""
        if not self.directory.is_dir():
            self._fetch()
        return sorted(self.directory.glob("*.jar"))

    def class_path(self) -> str:
        """All jars, as `java -cp` wants them."""
        return os.pathsep.join(map(str, self.jars()))

    def _fetch(self) -> None:
        if shutil.which("mvn") is None:
            raise JarsUnavailableError("Maven (mvn) is not installed")
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.directory.parent) as draft:
            pom = Path(draft) / "pom.xml"
            pom.write_text(self._pom())
            jars = Path(draft) / "jars"
            command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
            command.append(f"-DoutputDirectory={jars}")
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
                )
            except subprocess.TimeoutExpired:
                raise JarsUnavailableError("Maven Central did not answer in time") from None
            if done.returncode != 0:
                reason = (done.stdout + done.stderr).strip().splitlines()
                raise JarsUnavailableError(f"Maven: {reason[0] if reason else 'failed'}")
            jars.rename(self.directory)

    def _pom(self) -> str:
        everything = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
        exclusions = "" if self.transitive else f"<exclusions>{everything}</exclusions>"
        tags = ("groupId", "artifactId", "version", "classifier")
        dependencies = "".join(
            "".join(f"<{tag}>{part}</{tag}>" for tag, part in zip(tags, artifact.split(":"))).join(
                ("<dependency>", f"{exclusions}</dependency>")
            )
            for artifact in self.artifacts
        )
        return (
            "<project><modelVersion>4.0.0</modelVersion><groupId>local</groupId>"
            f"<artifactId>{self.name}</artifactId><version>1</version>"
            f"<dependencies>{dependencies}</dependencies></project>"
        )
