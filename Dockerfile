# One image for every part of the service: `gpu-billing consume`, `serve`, `close`, `database migrate`.
# Give PYTHON_IMAGE a digest where builds have to repeat to the byte: --build-arg PYTHON_IMAGE=python:...@sha256:...
ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm

# The project as a wheel, made with the locked build backend; nothing of this stage is shipped.
FROM ${PYTHON_IMAGE} AS wheel
WORKDIR /build
RUN python -m venv /build/venv
COPY requirements-dev.lock ./
RUN /build/venv/bin/pip install --no-cache-dir --require-hashes --requirement requirements-dev.lock
COPY pyproject.toml README.md ./
COPY core core
COPY pricing pricing
COPY metering metering
COPY invoices invoices
COPY api api
COPY cli cli
COPY migrations migrations
RUN /build/venv/bin/pip wheel --no-deps --no-build-isolation --wheel-dir dist .

# What the service runs on, by hash, and the project in it.
FROM ${PYTHON_IMAGE} AS installed
RUN python -m venv /opt/gpu-billing
COPY requirements.lock ./
RUN /opt/gpu-billing/bin/pip install --no-cache-dir --require-hashes --requirement requirements.lock
COPY --from=wheel /build/dist dist
RUN /opt/gpu-billing/bin/pip install --no-cache-dir --no-deps --no-index dist/*.whl

FROM ${PYTHON_IMAGE}
COPY --from=installed /opt/gpu-billing /opt/gpu-billing
COPY --chmod=0555 deploy/close-monthly.sh /opt/gpu-billing/bin/close-monthly
# /data keeps invoices; a named volume takes its owner from here.
RUN groupadd --system --gid 10001 gpu-billing \
    && useradd --system --uid 10001 --gid 10001 --home-dir /data --shell /usr/sbin/nologin gpu-billing \
    && install --directory --owner=10001 --group=10001 --mode=0750 /data
ENV PATH=/opt/gpu-billing/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 GPU_BILLING_DATA=/data
WORKDIR /data
USER 10001:10001
VOLUME /data
ENTRYPOINT ["gpu-billing"]
CMD ["--help"]
