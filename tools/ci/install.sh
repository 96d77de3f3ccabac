#!/bin/sh
# Puts uroce and the stock RDMA libraries into a CI job's machine or image, and says what it finds.
#
#   install.sh TARBALL [FOLDER]      TARBALL is what tools/package made; FOLDER is /opt/uroce
set -eu

tarball=$1
folder=${2:-/opt/uroce}

# Minimal images have neither libibverbs nor xz.
has_libraries=$(ldconfig -p | grep 'libibverbs\.so\.1 ' || true)
if [ -z "$has_libraries" ] || ! command -v xz >/dev/null; then
  if command -v apt-get >/dev/null; then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
      ibverbs-utils librdmacm1 xz-utils
  else
    dnf install -q -y libibverbs-utils librdmacm xz
  fi
fi

mkdir -p "$folder"
tar -xf "$tarball" -C "$folder" --strip-components=1

# GitHub's runners read from this file what later steps have on their PATH.
if [ -n "${GITHUB_PATH:-}" ]; then
  echo "$folder/bin" >>"$GITHUB_PATH"
fi
"$folder/bin/uroce" check
