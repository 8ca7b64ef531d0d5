# syntax=docker/dockerfile:1
# Targets: cpu (NumPy; the default), gpu (CuPy; needs the NVIDIA container toolkit to run).

# For the same image each time, with its digest: --build-arg BASE=python:3.13-slim@sha256:...
ARG BASE=python:3.13-slim

# What installs and trims stays here: the environments have neither pip nor a build backend.
FROM ${BASE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/opt/build/bin:$PATH
# For strip, in Debian's present version.
# hadolint ignore=DL3008,DL3009
RUN apt-get update && apt-get install -y --no-install-recommends binutils
WORKDIR /src
COPY locks locks
RUN python3 -m venv /opt/build \
    && pip install --require-hashes -r locks/build.txt \
    && python3 -m venv --without-pip /opt/tensor-round
COPY deploy/image/trim.sh ./

# The project's own wheel, in a layer of its own.
FROM build AS own
COPY pyproject.toml README.md LICENSE ./
COPY client client
COPY service service
COPY verify verify
COPY cli cli
# `make images` gives it; else the version ends with +unknown, for .git is not here. The wheel has it
# from the metadata that an sdist would have.
ARG VERSION=
RUN if [ -n "${VERSION}" ]; then \
    printf 'Metadata-Version: 2.4\nName: tensor-round\nVersion: %s\n' "${VERSION}" > PKG-INFO; fi \
    && pip wheel --no-deps --no-build-isolation -w /wheels . \
    && pip --python /opt/tensor-round install --compile --no-deps --prefix /own /wheels/*.whl

FROM build AS build-cpu
# compiled: LLVM makes the kernels, 16-bit types several times as fast, for 160 MB. telemetry: traces.
ARG EXTRAS=
RUN for lock in service ${EXTRAS}; do \
    pip --python /opt/tensor-round install --require-hashes -r "locks/$lock.txt" || exit 1; done \
    && ./trim.sh /opt/tensor-round

FROM build AS build-gpu
# 13 for drivers from 580 on, 12 for those from 525 on. The driver itself comes with the device.
ARG CUDA=13
ARG EXTRAS=
RUN for lock in service cuda${CUDA} ${EXTRAS}; do \
    pip --python /opt/tensor-round install --require-hashes -r "locks/$lock.txt" || exit 1; done \
    && ./trim.sh /opt/tensor-round

FROM ${BASE} AS runtime
LABEL org.opencontainers.image.title="tensor-round" \
    org.opencontainers.image.description="Exact tensor rounding over the wire" \
    org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin tensor-round
# Listening on every address, it serves requests for any host until TENSOR_ROUND_ALLOWED_HOSTS is set.
ENV PATH=/opt/tensor-round/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    TENSOR_ROUND_HOST=0.0.0.0 TENSOR_ROUND_PORT=8000
USER 10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["python3", "-m", "tensor_round_service.process.healthcheck"]
ENTRYPOINT ["tensor-round-service"]

FROM runtime AS gpu
# Kernels are compiled at start and kept where a read-only root still lets them be.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    CUPY_CACHE_DIR=/tmp/cupy TENSOR_ROUND_BACKEND=cupy
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
  CMD ["python3", "-m", "tensor_round_service.process.healthcheck"]
COPY --from=build-gpu /opt/tensor-round /opt/tensor-round
COPY --from=own /own /opt/tensor-round
ARG VERSION=
LABEL org.opencontainers.image.version="${VERSION}"

FROM runtime AS cpu
COPY --from=build-cpu /opt/tensor-round /opt/tensor-round
COPY --from=own /own /opt/tensor-round
ARG VERSION=
LABEL org.opencontainers.image.version="${VERSION}"
