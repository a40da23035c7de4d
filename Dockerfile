# One image for everything that runs on a server: `python -m run_service`, `python -m audit_service`,
# `superbizagent migrate`. Another base: --build-arg PYTHON_IMAGE=...
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# Without pip of its own: the environment is copied as it is, and nothing is ever installed into it again.
RUN python -m venv --without-pip /opt/superbizagent && python -m venv /opt/tools
# The packages change seldom and come first. Wheels only: this stage has no compiler either.
COPY requirements-runtime.lock requirements-build.lock ./
RUN python -m pip --python /opt/superbizagent/bin/python install \
        --require-hashes --only-binary=:all: --requirement requirements-runtime.lock \
    && /opt/tools/bin/python -m pip install \
        --require-hashes --only-binary=:all: --requirement requirements-build.lock
COPY . .
RUN /opt/tools/bin/python -m pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /wheels . \
    && python -m pip --python /opt/superbizagent/bin/python install --no-deps --no-index /wheels/*.whl

FROM ${PYTHON_IMAGE}
# A name is needed too: the MySQL driver asks for the name of the user it runs as.
RUN useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin superbizagent
COPY --from=build /opt/superbizagent /opt/superbizagent
ENV PATH=/opt/superbizagent/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /tmp
USER 10001:10001
EXPOSE 50051 50052
STOPSIGNAL SIGTERM
# Asks the service whose LISTEN setting this container has. NOT_SERVING is unhealthy: it takes no calls.
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=3 CMD ["python", "-m", "cli.probe"]
CMD ["superbizagent", "--help"]
