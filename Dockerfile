# syntax=docker/dockerfile:1
# Targets: cpu (NumPy; the default), gpu (CuPy; needs the NVIDIA container toolkit to run).

FROM python:3.12-slim AS build
RUN python3 -m venv /opt/tensor-round
ENV PATH=/opt/tensor-round/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY client client
COPY service service

FROM build AS build-cpu
# With compiled kernels; EXTRAS=service alone makes the image 175 MB smaller.
ARG EXTRAS=service,compiled
RUN pip install ".[${EXTRAS}]"

FROM build AS build-gpu
# 13 for drivers from 580 on, 12 for those from 525 on. The driver itself comes with the device.
ARG CUDA=13
RUN pip install ".[service,cuda${CUDA}]"

FROM python:3.12-slim AS runtime
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin tensor-round
# Listening on every address, it serves requests for any host until TENSOR_ROUND_ALLOWED_HOSTS is set.
ENV PATH=/opt/tensor-round/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    TENSOR_ROUND_HOST=0.0.0.0 TENSOR_ROUND_PORT=8000
USER 10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["python3", "-m", "tensor_round_service.healthcheck"]
ENTRYPOINT ["tensor-round-service"]

FROM runtime AS gpu
COPY --from=build-gpu /opt/tensor-round /opt/tensor-round
# Kernels are compiled at start and kept where a read-only root still lets them be.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    CUPY_CACHE_DIR=/tmp/cupy TENSOR_ROUND_BACKEND=cupy
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
  CMD ["python3", "-m", "tensor_round_service.healthcheck"]

FROM runtime AS cpu
COPY --from=build-cpu /opt/tensor-round /opt/tensor-round
