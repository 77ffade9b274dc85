# The server as one static binary on an empty image, run by an unprivileged user.
#
#   docker build -t picomq .
#   docker run -p 4437:4437 -v picomq-data:/data picomq

FROM golang:1.26.8-bookworm AS build
WORKDIR /src

# Modules first: they change less often than the code.
COPY go.mod go.sum ./
RUN go mod download

COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION}" -o /out/picomq ./cmd/picomq

# Folders that the server writes to and cannot make itself on an empty image.
RUN install -d -m 0700 /out/writable/data && install -d -m 1777 /out/writable/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/picomq /usr/local/bin/
COPY --from=build --chown=65532:65532 /out/writable/ /

USER 65532:65532
# A new named volume takes over the owner of this folder; a bind mount must belong to 65532.
VOLUME /data
# 4437 serves streams. 4438 is the admin listener: publish it only where strangers cannot reach it.
EXPOSE 4437 4438
# Variables, so that they hold beside the flags that "docker run picomq serve --retention-age 7d" gives.
ENV PICOMQ_DATA=/data PICOMQ_LISTEN=0.0.0.0:4437 PICOMQ_ADMIN_LISTEN=0.0.0.0:4438
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/picomq"]
CMD ["serve"]
