"""A real S3 server on loopback: SeaweedFS, whose binary comes from the package index."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyarrow import fs

from fencepost.testing.ports import free_ports

from ...waiting import eventually

BUCKET = "tests"
"""One for all: the server makes several volumes for each."""
KEY, SECRET = "fencepost", "secret-of-tests"


@dataclass(frozen=True)
class S3Server:
    """Where it listens."""

    address: str

    @property
    def options(self) -> dict[str, str]:
        """As Hadoop and Spark are told of it; `storage_at` takes them, too."""
        return {
            "fs.s3a.endpoint": f"http://{self.address}",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.access.key": KEY,
            "fs.s3a.secret.key": SECRET,
            "fs.s3a.path.style.access": "true",
        }

    @property
    def filesystem(self) -> fs.S3FileSystem:
        return fs.S3FileSystem(
            access_key=KEY,
            secret_key=SECRET,
            region="us-east-1",
            scheme="http",
            endpoint_override=self.address,
            allow_bucket_creation=True,
            request_timeout=60,
            connect_timeout=30,
        )


def binary() -> str | None:
    """The program, beside this interpreter or on the path."""
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.exists() else shutil.which("weed")


@contextmanager
def s3_server(place: Path) -> Iterator[S3Server]:
    """A server with its data in `place`, which ends with the block."""
    program = binary()
    assert program is not None
    place.mkdir(parents=True, exist_ok=True)
    config = place / "s3.json"
    credentials = [{"accessKey": KEY, "secretKey": SECRET}]
    who = {"name": "tests", "credentials": credentials, "actions": ["Admin", "Read", "Write"]}
    config.write_text(json.dumps({"identities": [who]}))
    parts = ("master", "volume", "filer", "s3")
    names = [f"{part}.{port}" for part in parts for port in ("port", "port.grpc")]
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    command = [
        program,
        "-logtostderr=true",
        "server",
        f"-dir={place}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-filer",
        "-s3",
        f"-s3.config={config}",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=0",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        *(f"-{name}={port}" for name, port in ports.items()),
    ]
    with (place / "weed.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        server = S3Server(f"127.0.0.1:{ports['s3.port']}")
        eventually(lambda: _answers(server, process), f"an S3 server: {place / 'weed.log'}")
        yield server
    finally:
        process.kill()  # asked to end, it waits for clients for a minute
        process.wait()


def _answers(server: S3Server, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "the S3 server ended"
    try:
        server.filesystem.create_dir(BUCKET)
        with server.filesystem.open_output_stream(f"{BUCKET}/first") as file:
            file.write(b"ready")
    except OSError:
        return False
    return True
