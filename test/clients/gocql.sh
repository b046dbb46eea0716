#!/usr/bin/env bash
# Runs the gocql driver's own suite, taken from its module, against a server on HOST:9042.
#   gocql.sh gocql|gocql1 HOST [FLAG...]
# gocql is v2 at protocol 5, gocql1 is v1.7.0 at protocol 4. FLAGs go to the suite last,
# so they win: -compressor=snappy, -test.run=TestCAS, -runauth.
# Tests that no correct server passes, or that need what Varve refuses, are in gocql.skip.
set -euo pipefail
usage="usage: gocql.sh gocql|gocql1 HOST [FLAG...]"
[ $# -ge 2 ] || { echo "$usage" >&2; exit 2; }
suite=$1 host=$2
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case $suite in
  gocql) module=github.com/apache/cassandra-gocql-driver/v2@v2.1.2 proto=5;;
  gocql1) module=github.com/gocql/gocql@v1.7.0 proto=4;;
  *) echo "$usage" >&2; exit 2;;
esac

# The module cache is read-only, and the tests open testdata/ below their working directory,
# so a copy is built and run. It is built aside and renamed: an interrupted build leaves nothing.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/varve-test
src=$cache/$suite-${module##*@}
if [ ! -x "$src/suite.test" ]; then
  mkdir -p "$cache"
  fresh=$(mktemp -d "$cache/$suite.XXXXXX")
  dir=$(cd "$fresh" && go mod download -json "$module" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
  cp -rL "$dir/." "$fresh"
  chmod -R u+w "$fresh"
  (cd "$fresh" && GOWORK=off GOFLAGS=-mod=mod go test -c -tags "integration cassandra" -o suite.test .)
  rm -rf "$src"
  mv "$fresh" "$src"
fi

# A subtest is named test/subtest; each level is matched by an expression of its own.
skip=$(awk -v s="$suite" '/^#/ {next} $1 == s || $1 == "both" {gsub("/", "$/^", $2); print "^" $2 "$"}' \
  "$here/gocql.skip" | paste -sd'|')
out=$(mktemp)
trap 'rm -f "$out"' EXIT
cd "$src"
rc=0
./suite.test -test.v -test.timeout=20m -test.skip="$skip" -proto=$proto -rf=1 -clusterSize=1 \
  -autowait=1000ms -gocql.timeout=30s -gocql.cversion=5.0.9 -cluster="$host" "$@" >"$out" 2>&1 || rc=$?

# Top-level results start a line; those of subtests are indented. What a failed test printed
# is between its RUN line and its result.
count() { grep -c "^--- $1: " "$out" || true; }
if [ "$rc" -ne 0 ]; then
  awk '/^=== RUN/ && $3 !~ /\// {said = ""}
       {said = said $0 "\n"}
       /^--- FAIL: / {printf "%s", said}
       /^panic: |^fatal error: / {dying = 1}
       dying && dead++ < 60 {print}' "$out"
fi
echo "$(count PASS) passed, $(count FAIL) failed, $(count SKIP) skipped"
exit "$rc"
