#!/usr/bin/env bash
# Runs the gocql driver's own suite from its module against a server on HOST:9042.
#   gocql.sh gocql|gocql1 HOST      (v2 with protocol 5, v1.7.0 with protocol 4)
# Tests that cannot pass by design are listed in docs/compatibility.md and here.
set -euo pipefail
suite=$1 host=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case $suite in
  gocql) module=github.com/apache/cassandra-gocql-driver/v2@v2.1.2 proto=5;;
  gocql1) module=github.com/gocql/gocql@v1.7.0 proto=4;;
esac
dir=$(cd "$here" && go mod download -json "$module" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
cache=${XDG_CACHE_HOME:-$HOME/.cache}/varve-test/$suite
mkdir -p "$cache"
if [ ! -x "$cache/suite.test" ]; then
  cp -rL "$dir" "$cache/src" 2>/dev/null || true
  chmod -R u+w "$cache/src"
  (cd "$cache/src" && go test -c -tags "integration cassandra" -o "$cache/suite.test" .)
fi
skip=$(grep -v '^#' "$here/gocql.skip" | awk -v s="$suite" '$1==s || $1=="both" {print $2}' | paste -sd'|')
cd "$cache/src"
out=$cache/out.txt
set +e
"$cache/suite.test" -test.v -test.timeout 20m -test.skip "^($skip)\$" -proto=$proto -rf=1 -clusterSize=1 \
  -autowait=1000ms -gocql.timeout=30s -gocql.cversion=5.0.9 -cluster="$host" >"$out" 2>&1
rc=$?
set -e
grep -E '^--- FAIL|^panic:' "$out" || true
p=$(grep -c '^--- PASS' "$out" || true) f=$(grep -c '^--- FAIL' "$out" || true) s=$(grep -c '^--- SKIP' "$out" || true)
echo "$p passed, $f failed, $s skipped"
exit $rc
