"""The digest names a contract, whoever compiled it and whoever serves it."""

import subprocess
import sys
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from common.contract_check import breaches_of, contract_digest, services_in
from tests.contract.descriptors import AUDIT_SERVICE, RUN_SERVICE

ROOT = Path(__file__).resolve().parents[2]
BUF = Path(sys.executable).with_name("buf")


def test_another_compiler_with_comments_makes_the_same_digest() -> None:
    """protoc made the generated code; buf compiles the same files and keeps the comments."""
    built = subprocess.run(
        [BUF, "build", "--as-file-descriptor-set", "-o", "-"], cwd=ROOT, capture_output=True, check=True
    )
    files = FileDescriptorSet.FromString(built.stdout)
    assert any(file.HasField("source_code_info") for file in files.file)
    services = services_in(files.file, [RUN_SERVICE.full_name, AUDIT_SERVICE.full_name])
    assert breaches_of(services) == []
    assert contract_digest(services) == contract_digest([RUN_SERVICE, AUDIT_SERVICE])
    for theirs, ours in zip(services, [AUDIT_SERVICE, RUN_SERVICE], strict=True):
        assert contract_digest([theirs]) == contract_digest([ours])


def test_the_services_have_different_digests() -> None:
    assert len({contract_digest(some) for some in ([RUN_SERVICE], [AUDIT_SERVICE], [])}) == 3
