# The service's image: `docker build -t veristream:0.1.0 .`
# deploy/pin-images.sh pins the base by digest as well.
# No HEALTHCHECK here: a front, a worker and a one-shot command are well in different ways; docker-compose.yml
# has a check for each.

FROM python:3.11.14-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/veristream
WORKDIR /src
COPY requirements.lock ./
RUN /opt/veristream/bin/pip install --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY schemas schemas
COPY streams streams
COPY app app
RUN /opt/veristream/bin/pip install --no-deps . && /opt/veristream/bin/pip uninstall --yes pip

# The wheels need libc, libstdc++, libgcc and zlib of the system, which the slim image has; no package is added.
FROM python:3.11.14-slim-bookworm
LABEL org.opencontainers.image.title="veristream" \
      org.opencontainers.image.description="Identity verification you run yourself." \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/veristream/veristream"
COPY --from=build /opt/veristream /opt/veristream
# Volumes and tmpfs mounted here belong to the service; all else belongs to root and is only read.
RUN install -d -m 0700 -o 10001 -g 10001 /var/lib/veristream /var/lib/veristream/blobs \
    /var/lib/veristream/audit-checkpoints
ENV PATH=/opt/veristream/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    MALLOC_ARENA_MAX=2 \
    SERVICE_DATA_DIR=/var/lib/veristream \
    SERVICE_LOG_FORMAT=json
USER 10001:10001
WORKDIR /
STOPSIGNAL SIGTERM
EXPOSE 8080
ENTRYPOINT ["veristream"]
CMD ["--help"]
