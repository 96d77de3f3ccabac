#!/bin/bash
# Runs stock programs and our own under the preload library and the test provider: as root and as an
# unprivileged user, beside other preloaded libraries, with and without a kernel that has RDMA.
# Usage: preloaded_test.sh PRELOAD PROVIDER COUNTING FAKE_KERNEL DEVICE_BEHAVIOR NETLINK_DUMP \
#                          DLOPEN_CLIENT VERBS_PLUGIN
set -u
# GoogleTest would write its reports where only the first user may.
unset XML_OUTPUT_FILE TEST_PREMATURE_EXIT_FILE TEST_TMPDIR

# Copies everything to one place that other users may read. The preload library finds the provider
# in its own directory.
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
chmod 755 "$stage"
cp "$1" "$stage/liburoce-preload.so"
cp "$2" "$stage/liburoce-provider.so"
cp "$3" "$stage/counting.so"
cp "$4" "$stage/fake_kernel.so"
cp "$5" "$stage/device_behavior"
cp "$6" "$stage/netlink_dump"
cp "$7" "$stage/dlopen_client"
cp "$8" "$stage/verbs_plugin.so"
chmod 755 "$stage"/*
cd "$stage" || exit 1
preload=$stage/liburoce-preload.so
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# expect NAME TEXT COMMAND...: the command succeeds and its output (both streams) contains TEXT.
expect() {
  local name=$1 text=$2 output
  shift 2
  if ! output=$("$@" 2>&1); then
    fail "$name: exit status"
  elif ! grep -qF -- "$text" <<<"$output"; then
    fail "$name: no '$text'"
  else
    echo "ok: $name"
    return
  fi
  echo "$output" | grep -v '^\[ .*\(RUN\|OK\)' | tail -50
}

# everything NAME PREFIX...: all checks that hold for every user.
everything() {
  local name=$1
  shift
  expect "$name: ibv_devices" "uroce0          	02aabbfffe000001" \
    "$@" env LD_PRELOAD="$preload" ibv_devices
  expect "$name: ibv_devinfo, provider's part" "max_qp:				77" \
    "$@" env LD_PRELOAD="$preload" ibv_devinfo -v
  expect "$name: ibv_devinfo, port" "PORT_ACTIVE (4)" "$@" env LD_PRELOAD="$preload" ibv_devinfo -v
  expect "$name: ibv_devinfo, GID table" "::ffff:127.0.0.1, RoCE v2" \
    "$@" env LD_PRELOAD="$preload" ibv_devinfo -v
  expect "$name: behavior" "[  PASSED  ]" "$@" env LD_PRELOAD="$preload" ./device_behavior
}

everything "this user"
if [ "$(id -u)" = 0 ]; then
  everything "unprivileged" setpriv --reuid=65534 --regid=65534 --clear-groups
fi

# A program without libibverbs must not notice anything.
expect "untouched program" "hello" env LD_PRELOAD="$preload" echo hello
output=$(LD_PRELOAD=$preload ls / 2>&1 >/dev/null)
[ -z "$output" ] || fail "untouched program writes to stderr: $output"

expect "ls -la of the class" "uroce0" env LD_PRELOAD="$preload" ls -la /sys/class/infiniband

expect "libibverbs loaded privately" "opened uroce0" env LD_PRELOAD="$preload" ./dlopen_client
for way in deepbind namespace; do
  expect "libibverbs by $way" "opened uroce0" env LD_PRELOAD="$preload" ./dlopen_client "$way"
done
expect "libibverbs of a plugin by deepbind" "the plugin sees 1" \
  env LD_PRELOAD="$preload" ./dlopen_client plugin "$stage/verbs_plugin.so"

# Another interposing library, in both orders. It sees the calls that do not concern the device.
for order in "$preload:$stage/counting.so" "$stage/counting.so:$preload"; do
  rm -f count
  expect "chained" "uroce0" \
    env LD_PRELOAD="$order" COUNTING_PRELOAD_FILE="$stage/count" ibv_devinfo
  [ "$(cat count 2>/dev/null || echo 0)" -gt 0 ] || fail "chained: the other library saw no open()"
done

# Beside a kernel that has an RDMA device both devices are listed, ours only once.
expect "with a real kernel: theirs" "fake0" \
  env LD_PRELOAD="$preload:$stage/fake_kernel.so" ./netlink_dump
expect "with a real kernel: ours" "uroce0" \
  env LD_PRELOAD="$preload:$stage/fake_kernel.so" ./netlink_dump
expect "with a real kernel: libibverbs" "uroce0" \
  env LD_PRELOAD="$preload:$stage/fake_kernel.so" ibv_devices
[ "$(LD_PRELOAD=$preload:$stage/fake_kernel.so ./netlink_dump | sort | xargs)" = "fake0 uroce0" ] ||
  fail "with a real kernel: the dump is not exactly both devices"
[ "$(LD_PRELOAD=$preload ./netlink_dump | grep -cx uroce0)" = 1 ] || fail "this kernel: the dump"
# A name that both directories have is listed once.
mkdir -p fake_class/uverbs0 fake_class/abi_version
listed=$(LD_PRELOAD=$preload:$stage/fake_kernel.so FAKE_VERBS_CLASS=$stage/fake_class \
  ls -a /sys/class/infiniband_verbs | xargs)
[ "$listed" = ". .. abi_version uverbs0 uverbs900" ] ||
  fail "with a real kernel: the class directory has $listed"

# Without a provider there is no device, and exactly one line that says why.
complaint() {
  UROCE_PROVIDER=$1 LD_PRELOAD=$preload ibv_devices 2>&1 >/dev/null | grep '^uroce: '
}
[ "$(complaint /nonexistent.so)" = "uroce: cannot load the provider: /nonexistent.so: cannot open \
shared object file: No such file or directory." ] ||
  fail "missing provider: $(complaint /nonexistent.so)"
[ "$(complaint "$stage/counting.so")" = "uroce: $stage/counting.so is not a uroce provider of this \
build: it has no uroce_describe_device()." ] ||
  fail "library that is no provider: $(complaint "$stage/counting.so")"

echo "$failures failures"
[ "$failures" = 0 ]
