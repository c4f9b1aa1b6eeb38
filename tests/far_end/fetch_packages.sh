#!/bin/sh
# fetch_packages.sh DIR: unpacks the Debian programs that tests and benchmarks talk to into DIR, one folder a group.
# Installs nothing and needs no root: an APT state of its own reads this machine's sources and checks its signatures.
# A group that is there already costs nothing; one that cannot be had leaves the reason in DIR/GROUP.missing, and
# the script goes on: tests/far_end/packages.py tells a test which it is.
set -u
dir=${1:?a folder}
mkdir -p "$dir" && dir=$(cd "$dir" && pwd) || exit 2

# $1: a folder for the group's files; the rest: packages, of `a|b` the first that this Debian has. Prints what apt says.
unpack() {
  into=$1
  shift
  mkdir -p "$dir/apt/state/lists/partial" "$into/cache/archives/partial" "$into/root" || return 1
  apt() {
    program=$1
    shift
    "$program" -q -o Dir::State="$dir/apt/state" -o Dir::State::status=/var/lib/dpkg/status \
      -o Dir::Cache="$into/cache" -o Debug::NoLocking=true -o APT::Sandbox::User= -o APT::Install-Recommends=false -o Acquire::Languages=none \
      -o Acquire::GzipIndexes=true -o Acquire::Retries=3 -o Acquire::http::Timeout=30 "$@"
  }
  apt apt-get --error-on=any update || return 1
  chosen=
  for either in "$@"; do
    for package in $(echo "$either" | tr '|' ' '); do
      apt apt-cache show "$package" >/dev/null 2>&1 && break
    done
    chosen="$chosen $package"
  done
  # --reinstall: also what this machine has is unpacked. shellcheck disable=SC2086: names hold no blanks
  apt apt-get -y --download-only --reinstall install $chosen || return 1
  for deb in "$into"/cache/archives/*.deb; do
    case $deb in
      */libc6_* | */libc-bin_*) continue ;; # a libc newer than this machine's loader crashes
    esac
    dpkg -x "$deb" "$into/root" || return 1
  done
  # Nothing here becomes another user; and such a program would not see the libraries it is told of.
  find "$into/root" -type f -perm /6000 -exec chmod ug-s {} +
  rm -f "$into/root/usr/bin/prometheus" # 150 MB beside its promtool, and nothing runs it
  (cd "$into/cache/archives" && sha256sum ./*.deb) >"$into/SHA256SUMS"
  rm -rf "$into/cache"
}

fetch() { # group, package...
  group=$1
  shift
  wanted=$( (cat "$0" /etc/debian_version; uname -m; echo "$@") 2>/dev/null | cksum | tr -d ' ')
  [ "$(cat "$dir/$group/stamp" 2>/dev/null)" = "$wanted" ] && return
  missing=$dir/$group.missing
  if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    echo "this machine has no apt-get and dpkg" >"$missing"
  else
    echo "farends: fetching $* from Debian into ${dir##*/}/$group ..."
    new=$dir/$group.new.$$
    if unpack "$new" "$@" >"$new.log" 2>&1; then
      echo "$wanted" >"$new/stamp"
      rm -rf "${dir:?}/$group" "$missing"
      mv "$new" "$dir/$group"
    else
      { grep -E '^(E|dpkg[a-z-]*): ' "$new.log" || tail -n 3 "$new.log"; } >"$missing"
    fi
    rm -rf "$new" "$new.log"
  fi
  [ -f "$missing" ] && echo "farends: no $group, tests that need it are skipped: $(head -n 1 "$missing")"
}

# The wrappers make Postfix and Exim believe what they must about users, as they run without root.
fetch mail postfix libuid-wrapper libnss-wrapper
fetch exim exim4-daemon-light libnss-wrapper libresolv-wrapper
fetch dovecot dovecot-imapd dovecot-pop3d dovecot-lmtpd
fetch dkim libmail-dkim-perl
fetch redis redis-server
# Older releases have promtool in the package of the server only.
fetch metrics 'promtool|prometheus'
# A browser without a screen; libatomic is what Playwright's own Node needs where a machine lacks it.
fetch browser chromium-headless-shell fonts-dejavu-core libatomic1
exit 0
