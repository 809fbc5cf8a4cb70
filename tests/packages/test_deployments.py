"""Files for containers, systemd and Kubernetes: valid, hardened, and what they run is a cluster."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fencepost.broker.config.broker_config import BrokerConfig, ConfigError

from ..waiting import DEADLINE_S
from .sandbox import Sandbox

ROOT = Path(__file__).resolve().parents[2]
CONTAINER = ROOT / "packaging" / "container"
COMPOSE = CONTAINER / "compose.yaml"
KUBERNETES = ROOT / "packaging" / "kubernetes" / "fencepost.yaml"
UNIT = ROOT / "packaging" / "systemd" / "fencepost.service"
EXPOSURE_MAX = 1.5
ADMIN = ["--client-config", "/etc/fencepost/certificates/admin.properties"]


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]
    return found


def documents() -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all(KUBERNETES.read_text())}


# -- as they are written ---------------------------------------------------------------------


def test_the_compose_file_names_what_it_has():
    whole = yaml.safe_load(COMPOSE.read_text())
    for name, service in services().items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert set(service.get("depends_on", {})) <= set(services()), name
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            is_there = (
                (CONTAINER / source).is_file() if "/" in source else source in whole["volumes"]
            )
            assert is_there, f"{name}: {volume}"


def test_the_compose_file_is_valid():
    compose_spec = pytest.importorskip("compose_spec", reason="pip install '.[release]'")
    # As JSON, with anchors resolved.
    text = json.dumps(yaml.safe_load(COMPOSE.read_text()))
    spec = compose_spec.PyCompose.from_json(text)
    spec.validate()
    assert set(spec.to_spec().services) == set(services())
    wrong = text.replace("service_completed_successfully", "done")
    with pytest.raises(ValueError, match="done"):
        compose_spec.PyCompose.from_json(wrong)


@pytest.mark.parametrize("version", ["1.28", "1.34"])
def test_the_documents_for_kubernetes_are_valid(version: str):
    validator = pytest.importorskip("kubernetes_validate", reason="pip install '.[release]'")
    for document in yaml.safe_load_all(KUBERNETES.read_text()):
        validator.validate(document, version, strict=True)
    stateful = documents()["StatefulSet"]
    stateful["spec"]["template"]["spec"]["containers"][0]["readinessProb"] = {}
    with pytest.raises(validator.ValidationError):
        validator.validate(stateful, version, strict=True)


def test_the_stateful_set_fits_its_neighbours():
    found = documents()
    spec = found["StatefulSet"]["spec"]
    pod = spec["template"]["spec"]
    assert spec["serviceName"] == found["Service"]["metadata"]["name"]
    assert spec["selector"]["matchLabels"] == found["Service"]["spec"]["selector"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    volumes = {one["name"] for one in [*pod["volumes"]]}
    volumes |= {one["metadata"]["name"] for one in spec["volumeClaimTemplates"]}
    ports = {one["name"] for one in pod["containers"][0]["ports"]}
    for container in [*pod["initContainers"], *pod["containers"]]:
        assert {one["name"] for one in container["volumeMounts"]} <= volumes
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        variables = {one["name"] for one in container["env"]}
        assert set(re.findall(r"\$\((\w+)\)", " ".join(container["args"]))) <= variables
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert pod["containers"][0][probe]["httpGet"]["port"] in ports
    assert pod["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize("path", sorted(CONTAINER.glob("*.properties")), ids=lambda one: one.name)
def test_every_key_of_a_containers_file_is_one(path: Path):
    BrokerConfig.load(path, {})
    with pytest.raises(ConfigError, match=r"no\.such\.key"):
        BrokerConfig.load(path, {"no.such.key": "1"})


def test_the_unit_is_verified_and_hardened(tmp_path: Path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not on this machine")
    program = tmp_path / "fencepost"
    program.touch(mode=0o755)
    text = UNIT.read_text()
    unit = tmp_path / "fencepost.service"
    unit.write_text(
        text.replace("/opt/fencepost/bin/fencepost", str(program)).replace("man:", "file:///man:")
    )
    command = ["systemd-analyze", "verify", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    rated = ["systemd-analyze", "security", "--offline=true", str(unit)]
    said = subprocess.run(rated, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    (level,) = re.findall(r"exposure level for fencepost.service: ([\d.]+)", said.stdout)
    assert float(level) <= EXPOSURE_MAX


def test_the_operations_page_has_the_unit():
    page = (ROOT / "docs" / "OPERATIONS.md").read_text()
    assert "`packaging/systemd/fencepost.service`" in page
    (line,) = re.findall(r"^ExecStart=.*$", UNIT.read_text(), re.MULTILINE)
    assert line in page


# -- as they are run -------------------------------------------------------------------------


@pytest.fixture
def compose(tmp_path: Path) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path, r"kafka-\d")
    yield sandbox
    sandbox.close()


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path, r"fencepost-\d\.fencepost")
    yield sandbox
    sandbox.close()


def write_and_read(sandbox: Sandbox, node: str, servers: str) -> None:
    """A topic on all three nodes, and a record through them."""
    reach = [*ADMIN, "-b", servers]
    sandbox.run(node, ["topics", "create", "orders", *reach])
    sandbox.run(node, ["produce", "orders", *reach], "hello\n")
    assert sandbox.run(node, ["consume", "orders", *reach]) == "hello\n"
    described = sandbox.run(node, ["topics", "describe", "orders", *reach]).splitlines()
    assert len(described[-1].split()[3].split(",")) == 3


@pytest.mark.long
def test_the_services_of_the_compose_file_are_a_cluster(compose: Sandbox):
    found = services()
    nodes = [name for name in found if name.startswith("kafka-")]
    compose.run("certificates", found["certificates"]["command"])
    # Once more, as at every `up`.
    assert "nothing is made" in compose.run("certificates", found["certificates"]["command"])
    for name in nodes:
        file = f"node-{name[-1]}.properties"
        compose.configure(name, file, (CONTAINER / file).read_text())
        compose.run(name, found[f"format-{name[-1]}"]["command"])
        compose.run(name, found[f"format-{name[-1]}"]["command"])
        compose.serve(name, found[name]["command"])
    compose.wait_until_ready()
    servers = found["client"]["environment"]["FENCEPOST_BOOTSTRAP"]
    compose.run("client", [*found["client"]["command"], "-b", servers])
    write_and_read(compose, "client", servers)
    assert compose.stop() == [0, 0, 0]


@pytest.mark.long
def test_the_pods_of_the_stateful_set_are_a_cluster(kubernetes: Sandbox):
    found = documents()
    spec = found["StatefulSet"]["spec"]
    (format_container,) = spec["template"]["spec"]["initContainers"]
    (container,) = spec["template"]["spec"]["containers"]
    made = kubernetes.certificates
    words = ["testing", "certificates", str(made), "--node=fencepost", "--user=admin"]
    kubernetes.run("fencepost", words)
    shutil.copy(made / "ca.pem", made / "ca.crt")
    shutil.copy(made / "fencepost.pem", made / "tls-combined.pem")
    names = [f"fencepost-{number}" for number in range(spec["replicas"])]
    for index, name in enumerate(names):

        def expanded(words: list[str], name: str = name, index: int = index) -> list[str]:
            return [
                one.replace("$(POD_NAME)", name).replace("$(POD_INDEX)", str(index))
                for one in words
            ]

        # A pod has all ports to itself; here each listens where the others reach it.
        own = f"{name}.fencepost:"
        text = found["ConfigMap"]["data"]["server.properties"]
        kubernetes.configure(name, "server.properties", text)
        for part in (format_container, container):
            part_words = [
                word.replace("://:", f"://{own}") if word.startswith("-olisteners") else word
                for word in expanded(part["args"])
            ]
            if part is container:
                kubernetes.serve(name, part_words)
            else:
                kubernetes.run(name, part_words)
    kubernetes.wait_until_ready()
    write_and_read(kubernetes, names[0], "fencepost-1.fencepost:9092")
    assert kubernetes.stop() == [0, 0, 0]
