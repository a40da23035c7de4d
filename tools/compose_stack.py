"""Asks docker compose about the running stack."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PORTS = {"run-service": 50051, "audit-service": 50052}


def compose(*arguments: str) -> str:
    """Run docker compose on the project; its output."""
    command = ["docker", "compose", *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"error: docker compose {arguments[0]} failed (see above)")
    return done.stdout


def published(service: str) -> list[str]:
    """host:port of each replica that runs now."""
    text = compose("ps", "--format", "json", service).strip()
    # Older versions of compose answer one array instead of one object a line.
    containers = json.loads(text) if text.startswith("[") else map(json.loads, text.splitlines())
    ports = [port for container in containers for port in container.get("Publishers") or ()]
    return sorted(
        f"127.0.0.1:{port['PublishedPort']}"
        for port in ports
        if port["TargetPort"] == PORTS[service] and port["PublishedPort"]
    )


def possible(service: str) -> list[str]:
    """host:port that a replica may have, now or after a restart, which takes the next free port."""
    (port,) = json.loads(compose("config", "--format", "json"))["services"][service]["ports"]
    first, _, last = str(port["published"]).partition("-")
    return [f"127.0.0.1:{number}" for number in range(int(first), int(last or first) + 1)]
