"""The form of the contracts: packages, paths, Java options, requests and responses, zero values."""

import pytest
from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor

from tests.contract.descriptors import AUDIT_SERVICE, FILES, RUN_SERVICE

BY_FILE = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
BY_SERVICE = pytest.mark.parametrize(
    "service", [RUN_SERVICE, AUDIT_SERVICE], ids=lambda service: service.name
)


@BY_FILE
def test_a_file_lies_at_the_path_of_its_package(file: FileDescriptor) -> None:
    area = file.package.split(".")[1]
    assert file.package == f"superbizagent.{area}.v1"
    assert file.name.startswith(f"superbizagent/{area}/v1/")


@BY_FILE
def test_java_gets_a_package_of_its_own_and_one_file_for_each_message(file: FileDescriptor) -> None:
    options = file.GetOptions()
    assert options.java_package == f"com.{file.package}"
    assert options.java_multiple_files


@BY_FILE
def test_the_zero_of_every_enum_is_unspecified(file: FileDescriptor) -> None:
    for enum in file.enum_types_by_name.values():
        assert enum.values_by_number[0].name.endswith("_UNSPECIFIED")


@BY_SERVICE
def test_each_rpc_has_a_request_and_a_response_of_its_own(service: ServiceDescriptor) -> None:
    for method in service.methods:
        assert method.input_type.name == f"{method.name}Request"
        assert method.output_type.name == f"{method.name}Response"


def test_only_the_run_stream_streams_and_only_its_answer() -> None:
    methods = [*RUN_SERVICE.methods, *AUDIT_SERVICE.methods]
    assert [method.name for method in methods if method.server_streaming] == ["StreamRunEvents"]
    assert [method.name for method in methods if method.client_streaming] == []
