#!/usr/bin/env bash
# Runs other people's clients against a varve binary: cqlsh and the Python,
# Node and Java drivers, then the gocql driver's own suites.
#   test/clients/run.sh BINARY VENV [python|node|java|gocql|gocql1|rust ...]
# rust is not among those run by default: it takes minutes to build.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
varve=$(realpath "$1") venv=$(realpath "$2")
shift 2
[ $# -gt 0 ] || set -- python node java gocql gocql1
work=$(mktemp -d)
pids=()
cleanup() {
  for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

# start NAME HOST PORT ARGS...: a server on HOST:PORT, ready before this returns.
start() {
  local name=$1 host=$2 port=$3
  shift 3
  # The tests' own variables are no settings of the server.
  env $(compgen -e VARVE_ | sed "s/^/-u /") "$varve" serve --data "$work/$name" --cql "$host:$port" --http "" "$@" >"$work/$name.log" 2>&1 &
  local pid=$!
  pids+=("$pid")
  for _ in $(seq 1500); do
    if grep -q msg=ready "$work/$name.log"; then return; fi
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.02
  done
  echo "the $name server did not start:" >&2
  cat "$work/$name.log" >&2
  exit 1
}

# gocql connects to port 9042 of any address, so its server takes it on an address of its own.
plain=29042 secure=29142 gocql_addr=127.0.0.61
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=varve-test \
  -addext "subjectAltName=IP:127.0.0.1" -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
start plain 127.0.0.1 $plain
start secure 127.0.0.1 $secure --auth password --set "cql_tls.certificate=$work/cert.pem" --set "cql_tls.key=$work/key.pem"
# The certificate that this one asks of clients signs itself, as the server's does.
mutual=29242
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=varve-client \
  -keyout "$work/client-key.pem" -out "$work/client.pem" 2>/dev/null
start mutual 127.0.0.1 $mutual --set "cql_tls.certificate=$work/cert.pem" --set "cql_tls.key=$work/key.pem" \
  --set "cql_tls.client_ca=$work/client.pem" --set cql_tls.require_client_auth=true
export VARVE_MUTUAL_ADDR=127.0.0.1:$mutual VARVE_MUTUAL_CERT=$work/client.pem VARVE_MUTUAL_KEY=$work/client-key.pem
export VARVE_BIN=$varve VARVE_ADDR=127.0.0.1:$plain VARVE_SECURE_ADDR=127.0.0.1:$secure VARVE_SECURE_CA=$work/cert.pem CQLSH=$venv/bin/cqlsh
failed=0
for suite in "$@"; do
  echo "== $suite"
  case $suite in
    python) (cd "$here/python" && "$venv/bin/python" -m pytest -q -p no:cacheprovider --no-header) || failed=1;;
    node) (cd "$here/node" && npm ci --silent --no-audit --no-fund && node --test) || failed=1;;
    java) (cd "$here/java" && mvn -q -B -ntp test && awk -F'[:,]' '/Tests run/{n+=$2; f+=$4+$6} END{printf "java: %d passed, %d failed\n", n-f, f}' target/surefire-reports/*.txt) || failed=1;;
    rust) (cd "$here/rust" && cargo test -q --locked) || failed=1;;
    gocql | gocql1)
      [ "${gocql_up:-}" = 1 ] || start gocql "$gocql_addr" 9042
      gocql_up=1
      "$here/gocql.sh" "$suite" "$gocql_addr" || failed=1;;
    *) echo "unknown suite $suite" >&2; exit 2;;
  esac
done
for name in plain secure mutual gocql; do
  if [ -e "$work/$name.log" ] && grep -n 'panic\|goroutine [0-9]* \[' "$work/$name.log"; then
    echo "the $name server panicked" >&2
    failed=1
  fi
done
exit $failed
