# syntax=docker/dockerfile:1
# The daemon on a base without shell or package manager, as a user without rights, on a root that may be read-only.
#
#     docker build --tag ostard .

# Debian 12 builds and Debian 12 runs it: the C library is the same.
FROM docker.io/library/rust:1.95-bookworm AS chef
RUN cargo install --locked cargo-chef@0.1.78
WORKDIR /source

FROM chef AS plan
COPY . .
RUN cargo chef prepare --recipe-path recipe.json

FROM chef AS build
ARG FEATURES=tls,parquet,schemas,onnx,candle
COPY --from=plan /source/recipe.json .
# A layer of its own: it is only built anew when the dependencies change.
RUN cargo chef cook --locked --profile dist --package ostard --features "$FEATURES" --recipe-path recipe.json
COPY . .
RUN cargo build --locked --profile dist --package ostard --features "$FEATURES" && mkdir /empty

FROM gcr.io/distroless/cc-debian12:nonroot
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="ostard" \
      org.opencontainers.image.description="Streaming adaptation daemon: follows label and conditional shift of a deployed classifier without labels" \
      org.opencontainers.image.source="https://github.com/ostard/ostard" \
      org.opencontainers.image.documentation="https://github.com/ostard/ostard/tree/main/docs" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.base.name="gcr.io/distroless/cc-debian12:nonroot"
COPY --from=build /source/target/dist/ostard /usr/local/bin/ostard
# New volumes take over the owner of the folder that they are mounted on.
COPY --from=build --chown=65532:65532 /empty /state
COPY --from=build --chown=65532:65532 /empty /models
USER 65532:65532
EXPOSE 8080 50051
ENTRYPOINT ["/usr/local/bin/ostard"]
CMD ["--help"]
