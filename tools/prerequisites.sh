#!/usr/bin/env bash
# Installs what the tests need and the machine lacks: Python with venv, Node,
# a JDK with Maven, OpenSSL, a PostgreSQL server. On Debian by apt as root; elsewhere it names what is missing.
set -euo pipefail
missing=()
need() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
need python3 python3
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
need node nodejs
need npm npm
need javac default-jdk-headless
need mvn maven
need openssl openssl
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || need initdb postgresql
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}"
else
  echo "install these first, then run make test again: ${missing[*]}" >&2
  exit 1
fi
