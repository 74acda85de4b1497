# Sourced by `run` and `test`: what this machine has, and installing what it lacks.
# Not here: anything about leasewatch itself.

# One line for each argument.
say() { printf '%s\n' "$@" >&2; }

die() {
  printf 'error: %s\n' "$1" >&2
  shift
  [ $# -eq 0 ] || printf '       %s\n' "$@" >&2
  exit 1
}

# A C compiler without the C library's files links nothing.
has_linker() {
  command -v cc >/dev/null && [ "$(cc -print-file-name=crt1.o 2>/dev/null)" != crt1.o ]
}

# Prints the folder of PostgreSQL's server programs, found as leasewatch-server finds it; fails
# where there is none.
postgresql_bin() {
  local directory
  while read -r directory; do
    [ -x "$directory/initdb" ] && [ -x "$directory/postgres" ] && echo "$directory" && return
  done < <(ls -d /usr/lib/postgresql/*/bin /usr/pgsql-*/bin 2>/dev/null | sort -Vr)
  directory=$(command -v initdb) && command -v postgres >/dev/null && dirname "$directory"
}

has_postgresql() { postgresql_bin >/dev/null; }

find_cargo() {
  if ! command -v cargo >/dev/null && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
    PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
  fi
  command -v cargo >/dev/null || die "Rust is missing." \
    "Install it with rustup; rust-toolchain.toml names the version that is used."
}

# as_root COMMAND..: runs it as root, or says why it cannot.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    sudo "$@"
  else
    return 126
  fi
}

# Whether install_packages has a chance: Debian or the like, and a way to be root.
can_install_packages() { command -v apt-get >/dev/null && as_root true; }

# install_packages PACKAGE..: from Debian's or Ubuntu's own repositories. Which mirror and proxy
# are used is the machine's configuration, or LEASEWATCH_APT_OPTIONS.
install_packages() {
  [ $# -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "this machine lacks: $*" \
    "Those are Debian's package names. Install what your system calls them, then start again."
  as_root true || die "this machine lacks: $*" "Install them as root, then start again:" \
    "apt-get install $*"
  say "installing: $*"
  local log options
  log=$(mktemp)
  # Options are words, so that one variable can hold several.
  read -r -a options <<<"${LEASEWATCH_APT_OPTIONS:-}"
  options+=(-q -y --no-install-recommends -o DPkg::Lock::Timeout=300)
  if ! { apt_get "${options[@]}" update && install_without_services "$@"; } >"$log" 2>&1 </dev/null; then
    tail -n 25 "$log" >&2
    rm -f "$log"
    die "apt could not install: $*" \
      "Options for apt-get, such as a proxy, can be given in LEASEWATCH_APT_OPTIONS."
  fi
  rm -f "$log"
}

apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get "$@"; }

# Debian's PostgreSQL makes a database cluster of its own and starts it, and its nginx answers on
# port 80. Nobody asked for those: leasewatch wants the programs. The settings hold for this
# installation only.
install_without_services() {
  local cluster=/etc/postgresql-common/createcluster.d/leasewatch.conf
  local policy=/usr/sbin/policy-rc.d status=0 added=()
  case " $* " in
    *" postgresql "*)
      as_root mkdir -p "${cluster%/*}" || return
      echo 'create_main_cluster = false' | as_root tee "$cluster" >/dev/null || return
      added+=("$cluster")
      ;;
  esac
  # A policy of the machine's own stays as it is.
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null || return
    as_root chmod 0755 "$policy"
    added+=("$policy")
  fi
  apt_get "${options[@]}" install "$@" || status=$?
  as_root rm -f "${added[@]}"
  case " $* " in
    *" nginx-light "*) as_root systemctl disable nginx >/dev/null 2>&1 || true ;;
  esac
  return "$status"
}
