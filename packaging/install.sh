#!/bin/sh
# Installs svc from an archive beside this file, after it has compared it with SHA256SUMS:
#   sh install.sh [--prefix DIR] [ARCHIVE]
# Into DIR/lib/svc/VERSION, with DIR/bin/svc as a link to it: an earlier version stays, and is one link away.
# DIR is /usr/local for root, else ~/.local. Nothing is fetched, and nothing outside DIR is written.
set -eu

fail() {
  echo "error: $1" >&2
  [ $# -lt 2 ] || echo "  $2" >&2
  exit 1
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
prefix=
archive=
while [ $# -gt 0 ]; do
  case $1 in
    --prefix) [ $# -ge 2 ] || fail "--prefix needs a folder"; prefix=$2; shift ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) fail "$1 is no option" "sh install.sh [--prefix DIR] [ARCHIVE]" ;;
    *) archive=$1 ;;
  esac
  shift
done

case $(uname -s)-$(uname -m) in
  Linux-x86_64 | Linux-amd64) platform=linux-x64 ;;
  Linux-aarch64 | Linux-arm64) platform=linux-arm64 ;;
  Darwin-arm64) platform=darwin-arm64 ;;
  *) fail "there is no archive for $(uname -s) on $(uname -m)" "With Node.js 24.10 or newer, npm installs the package instead." ;;
esac
if [ -z "$prefix" ]; then
  if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=${HOME:?}/.local; fi
fi
[ -n "$archive" ] || archive=$here/svc-$platform.tar.gz
[ -f "$archive" ] || fail "$archive is missing" "Put it beside install.sh, or name it."
name=$(basename -- "$archive")
sums=$(dirname -- "$archive")/SHA256SUMS
[ -f "$sums" ] || fail "$sums is missing: the archive cannot be checked" "Put it beside the archive."

expected=$(awk -v name="$name" '$2 == name || $2 == "*" name { print $1 }' "$sums")
[ -n "$expected" ] || fail "$sums does not name $name: the archive cannot be checked"
if command -v sha256sum >/dev/null 2>&1; then
  actual=$(sha256sum <"$archive")
elif command -v shasum >/dev/null 2>&1; then
  actual=$(shasum -a 256 <"$archive")
else
  fail "neither sha256sum nor shasum is here: the archive cannot be checked"
fi
[ "${actual%% *}" = "$expected" ] ||
  fail "$name is not what SHA256SUMS says: nothing was installed" "Fetch both again, from where you trust them."

mkdir -p "$prefix/lib/svc" "$prefix/bin" || fail "$prefix cannot be written" "Choose another with --prefix."
prefix=$(CDPATH='' cd -- "$prefix" && pwd -P)
part=$prefix/lib/svc/.part.$$
trap 'rm -rf "$part"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$part"
tar -xzf "$archive" -C "$part" --strip-components=1 --no-same-owner || fail "$name cannot be unpacked"
[ "$(cat "$part/PLATFORM")" = "$platform" ] || fail "$name is for $(cat "$part/PLATFORM"), this machine is $platform"
version=$("$part/bin/svc" --version) ||
  fail "what is in $name does not run here" "Its Node needs glibc 2.28 or newer (Debian 10, Ubuntu 20.04, RHEL 8)."
chmod -R go+rX "$part"
target=$prefix/lib/svc/$version
rm -rf "$target"
mv "$part" "$target"
link=$prefix/bin/.svc.$$
ln -s "../lib/svc/$version/bin/svc" "$link"
mv -f "$link" "$prefix/bin/svc"

echo "svc $version is installed: $prefix/bin/svc"
case :$PATH: in
  *":$prefix/bin:"*) ;;
  *) echo "Add it to your PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
  echo "svc also needs Python 3.10 or newer as python3, with pip or uv."
