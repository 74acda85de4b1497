# Sourced by `run`: processes by pid file, and a web server's answer. Processes are ended by their
# id, after a look at what runs under it, never by name.

# is_running PID_FILE PROGRAM: prints the pid when it still belongs to that program.
is_running() {
  local pid
  pid=$(cat "$1" 2>/dev/null) && [ -n "$pid" ] || return
  # The number may have been given to another program since.
  case "$(readlink "/proc/$pid/exe" 2>/dev/null)" in
    */"$2" | */"$2 (deleted)") printf '%s' "$pid" ;;
    *) return 1 ;;
  esac
}

# stop_all PROGRAM PID_FILE..: asks all of them to end, then waits for each.
stop_all() {
  local program=$1 file pid waited
  shift
  for file in "$@"; do
    if pid=$(is_running "$file" "$program"); then kill -TERM "$pid" 2>/dev/null || true; fi
  done
  for file in "$@"; do
    for ((waited = 0; waited < 600; waited++)); do
      pid=$(is_running "$file" "$program") || break
      sleep 0.1
    done
    if pid=$(is_running "$file" "$program"); then
      say "$program (process $pid) does not end; its log is in ${file%/*}"
    else
      rm -f "$file"
    fi
  done
}

# http_status HOST PORT PATH: prints the three digits; fails when nobody listens.
http_status() {
  (
    exec 9<>"/dev/tcp/$1/$2" || exit
    printf 'GET %s HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\n\r\n' "$3" "$1" "$2" >&9
    IFS= read -r -t 5 line <&9
    printf '%s' "${line:9:3}"
  ) 2>/dev/null
}

# An older log is kept once.
rotate() { if [ -f "$1" ]; then mv -f "$1" "$1.1"; fi; }
