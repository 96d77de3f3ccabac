# shellcheck shell=bash
# Shared by the scripts in tools/; source it with the script's own folder resolved:
#   source "$(dirname "$(readlink -f "$0")")/lib/common.sh"
# It leaves the shell in the root of the source tree.

UROCE_ROOT=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
cd "$UROCE_ROOT" || exit 1

# Ends the script with one sentence on stderr.
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# Bazel keeps its output under $HOME/.cache; service accounts have no home that can be written to.
# Exported, so that the scripts which this one calls use the same place.
if [[ ! -d ${HOME:-/nonexistent} || ! -w ${HOME:-/nonexistent} ]]; then
  HOME=${TMPDIR:-/tmp}/uroce-home-$(id -u)
  mkdir -p -m 700 "$HOME" && [[ -O $HOME ]] ||
    die "there is no home directory to build in: set HOME to a folder that can be written to."
  export HOME
fi

# Where the built programs are; the bazel-bin link is missing where the source tree is read-only.
bazel_bin() {
  bazel info bazel-bin 2>/dev/null
}
