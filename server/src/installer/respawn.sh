#!/bin/sh
# Keeps the leasewatch agent running where no service manager does. One that ends is started again,
# after a second, then two, up to a minute while it keeps ending; one that was told to end, is
# configured wrongly or finds another one in its place is not. It starts nothing at boot.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
log=$here/log
pid_file=$here/pid
log_bytes_max=1048576

say() { printf 'respawn: %s\n' "$*"; }

# Prints the process that keeps the agent; the number may have been given to another one since.
keeper() {
  pid=$(cat "$pid_file" 2>/dev/null) && [ -n "$pid" ] || return 1
  case $(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") in
    *" $here/respawn keep "*) printf '%s' "$pid" ;;
    *) return 1 ;;
  esac
}

start() {
  if keeper >/dev/null; then return 0; fi
  (umask 077 && : >>"$log") || return 1
  rm -f "$pid_file"
  # A session of its own, so that it outlives the terminal.
  session=''
  ! command -v setsid >/dev/null || session=setsid
  $session "$here/respawn" keep </dev/null >>"$log" 2>&1 &
  turns=0
  until keeper >/dev/null; do
    turns=$((turns + 1))
    [ "$turns" -lt 50 ] || { say "it does not start; see $log" >&2 && return 1; }
    sleep 0.1 2>/dev/null || sleep 1
  done
}

stop() {
  pid=$(keeper) || return 0
  kill -TERM "$pid" 2>/dev/null || return 0
  turns=0
  while keeper >/dev/null; do
    turns=$((turns + 1))
    [ "$turns" -lt 400 ] || { say "process $pid does not end" >&2 && return 1; }
    sleep 0.1 2>/dev/null || sleep 1
  done
}

status() {
  if pid=$(keeper); then
    say "the agent is kept running by process $pid"
  else
    say 'the agent is not kept running'
    return 1
  fi
}

settings() {
  for file in "$here/environment" "$here/join"; do
    [ -r "$file" ] || continue
    while IFS= read -r line; do export "$line"; done <"$file"
  done
}

# The file stays open in the agent, so it is emptied, not moved.
trim_log() {
  bytes=$(wc -c <"$log" 2>/dev/null) || return 0
  [ "$bytes" -gt "$log_bytes_max" ] || return 0
  (umask 077 && cat "$log" >"$log.1") && : >"$log"
}

keep() {
  stopping=no agent='' nap='' delay=1
  trap 'stopping=yes; kill -TERM $agent $nap 2>/dev/null' TERM INT
  trap '' HUP
  echo "$$" >"$pid_file"
  while [ "$stopping" = no ]; do
    began=$(date +%s)
    (settings && exec "$here/leasewatch-agent" run) &
    agent=$!
    while [ "$stopping" = no ] && kill -0 "$agent" 2>/dev/null; do
      trim_log
      sleep 5 &
      nap=$!
      wait "$nap"
    done
    wait "$agent"
    code=$? agent=''
    [ "$stopping" = no ] || break
    case $code in
      0 | 2 | 3) say "the agent ended with exit code $code and is not started again" && break ;;
    esac
    [ $(($(date +%s) - began)) -lt 60 ] || delay=1
    say "the agent ended with exit code $code; it starts again in $delay s"
    sleep "$delay" &
    nap=$!
    wait "$nap"
    delay=$((delay * 2))
    [ "$delay" -le 60 ] || delay=60
  done
  rm -f "$pid_file"
}

case ${1:-} in
  start | stop | status | keep) "$1" ;;
  *) say 'usage: respawn start | stop | status' >&2 && exit 2 ;;
esac
