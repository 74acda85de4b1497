#!/bin/sh
# Installs the leasewatch agent on this machine. A leasewatch server made this file; it holds no
# secret. Whoever runs it has compared its SHA-256, and it takes an agent only by SHA-256, so it does
# not matter who carries either of them. `sh install.sh --help` says what it can be told.
set -eu

version='@VERSION@'
# Where the server is, in the order in which to try.
addresses='@ADDRESSES@'
# Architecture and SHA-256 of each agent.
agents='@AGENTS@'

newline='
'

usage() {
  cat <<'TEXT'
usage: sh install.sh [OPTION ..]              installs, or upgrades and keeps the state
       sh install.sh --uninstall [--purge]    removes it; --purge the state too

  --user             for this account alone, without root: ~/.local/share/leasewatch-agent
  --state-dir DIR    where the node's key and its records are kept [/var/lib/leasewatch-agent]
  --join-file FILE   a file with the join string, - for the standard input; else LEASEWATCH_JOIN
  --keep-join        keep the join string after the node has joined, for machines that are copied
  --no-start         do not start it, for an image; keeps the join string
  --name NAME        the name that people see [the host name]
  --set NAME=VALUE   any other setting, as `leasewatch-agent run --help` names its variable
  --agent FILE       an agent that was brought here; it must be the one that this file knows
TEXT
}

say() { printf '%s\n' "$@"; }

# die WHAT ADVICE..
die() {
  printf 'leasewatch: %s\n' "$1" >&2
  shift
  for advice in "$@"; do printf '            %s\n' "$advice" >&2; done
  exit 1
}

main() {
  PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  LC_ALL=C
  export PATH LC_ALL
  umask 022
  # The join string is in no child's environment.
  join=${LEASEWATCH_JOIN:-}
  unset LEASEWATCH_JOIN
  take_arguments "$@"
  choose_place
  if [ "$action" = uninstall ]; then
    [ -x "$lib/uninstall" ] || die "no agent is installed in $lib." "$other_place"
    exec "$lib/uninstall" $purge
  fi
  choose_agent
  choose_state
  read_join
  trap undo EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  make_folder "$lib"
  get_agent
  install_files
  finished=yes
  start_agent
}

take_arguments() {
  action=install user=no purge='' state='' join_file='' keep_join=no start=yes settings='' local_agent=''
  while [ $# -gt 0 ]; do
    case $1 in
      --user) user=yes ;;
      --uninstall) action=uninstall ;;
      --purge) purge=--purge ;;
      --keep-join) keep_join=yes ;;
      --no-start) start=no keep_join=yes ;;
      --state-dir | --join-file | --name | --set | --agent)
        [ $# -ge 2 ] || die "$1 needs a value."
        case $1 in
          --state-dir) state=$2 ;;
          --join-file) join_file=$2 ;;
          --name) take_setting "LEASEWATCH_NODE_NAME=$2" ;;
          --set) take_setting "$2" ;;
          --agent) local_agent=$2 ;;
        esac
        shift
        ;;
      -h | --help) usage && exit 0 ;;
      *) usage >&2 && die "unknown argument: $1" ;;
    esac
    shift
  done
  [ -z "$purge" ] || [ "$action" = uninstall ] || die '--purge belongs to --uninstall.'
}

# take_setting NAME=VALUE: it stands in a file that systemd and a shell read alike.
take_setting() {
  case $1 in
    LEASEWATCH_JOIN=* | LEASEWATCH_JOIN_FILE=*)
      die 'a join string is no setting.' 'Give it in LEASEWATCH_JOIN or with --join-file.' ;;
    LEASEWATCH_STATE_DIR=*) die 'the state directory is no setting.' 'Give it with --state-dir.' ;;
    LEASEWATCH_[A-Z]*=* | HTTPS_PROXY=* | https_proxy=* | NO_PROXY=* | no_proxy=*) ;;
    *) die "${1%%=*} is no setting of the agent." 'leasewatch-agent run --help lists them.' ;;
  esac
  case ${1%%=*} in *[!A-Za-z_]*) die "${1%%=*} is no setting of the agent." ;; esac
  plain "${1#*=}" || die "the value of ${1%%=*} holds a quote, a backslash or a control character."
  settings=$settings$1$newline
}

plain() {
  case $1 in *[\'\"\\]* | *[[:cntrl:]]* | ' '* | *' ') return 1 ;; esac
}

choose_place() {
  if [ "$user" = yes ]; then
    [ -n "${HOME:-}" ] || die 'HOME is not set, and --user installs below it.'
    lib=${XDG_DATA_HOME:-$HOME/.local/share}/leasewatch-agent
    link='' default_state=$lib/state
    other_place='Without --user it is the one of the whole machine that is meant.'
  else
    [ "$(id -u)" -eq 0 ] || die 'this needs root.' \
      'Put sudo in front of sh, or install for this account alone: sh -s -- --user'
    lib=/usr/local/lib/leasewatch-agent
    link=/usr/local/bin/leasewatch-agent default_state=/var/lib/leasewatch-agent
    other_place='With --user it is the one of an account that is meant.'
  fi
  plain "$lib" || die "$lib holds a quote, a backslash or a control character."
  manager=respawn
  if [ "$user" = no ] && [ -d /run/systemd/system ] && command -v systemctl >/dev/null; then
    manager=systemd
  fi
  unit=/etc/systemd/system/leasewatch-agent.service
  fresh=yes finished=no made='' new=$lib/leasewatch-agent.new
  [ ! -e "$lib/leasewatch-agent" ] || fresh=no
  [ ! -e "$lib/made" ] || made=$(cat "$lib/made")$newline
}

choose_agent() {
  command -v sha256sum >/dev/null ||
    die 'sha256sum is missing, so nothing can be checked.' 'Install coreutils or busybox.'
  architecture=$(uname -m) digest=''
  while read -r known sum; do
    [ "$known" != "$architecture" ] || digest=$sum
  done <<TEXT
$agents
TEXT
  [ -n "$digest" ] || die "the server has no agent for $architecture." \
    'Build one on such a machine (cargo build --release -p leasewatch-agent), and start it by hand.'
}

choose_state() {
  kept=''
  if [ -e "$lib/environment" ]; then
    kept=$(sed -n 's/^LEASEWATCH_STATE_DIR=//p' "$lib/environment")
  fi
  : "${state:=${kept:-$default_state}}"
  case $state in
    / | */../* | */.. | */./* ) die "$state is no folder for a state." ;;
    /*) ;;
    *) die "--state-dir must be a whole path, not $state" ;;
  esac
  plain "$state" || die "$state holds a quote, a backslash or a control character."
  [ -z "$kept" ] || [ "$kept" = "$state" ] || die "the agent that is here keeps its state in $kept." \
    'To have it elsewhere, uninstall it, move that folder, and install again with --state-dir.'
}

read_join() {
  case $join_file in
    '') ;;
    -) IFS= read -r join || true ;;
    *) join=$(cat -- "$join_file") || die "$join_file cannot be read." ;;
  esac
  case $join in
    '')
      [ -s "$state/server.toml" ] || [ -s "$lib/join" ] || [ "$start" = no ] ||
        die 'a join string is needed.' \
          'Make one on the page "Add nodes" of the server, or there with' \
          '`leasewatch-server join-token create`, and give it in LEASEWATCH_JOIN or --join-file.'
      ;;
    *[!A-Za-z0-9_-]*) die 'that is no join string.' 'Copy all of it again, without quotes and spaces.' ;;
    lwj1_*) ;;
    *) die 'that is no join string: it begins with lwj1_' 'Copy all of it again.' ;;
  esac
}

# make_folder FOLDER: what it makes is noted, to be removed again.
make_folder() {
  [ ! -d "$1" ] || return 0
  make_folder "$(dirname "$1")"
  mkdir "$1" || die "$1 cannot be made."
  made=$made$1$newline
}

# Nothing of an installation that failed stays.
undo() {
  rm -f "$new" "$new.why"
  [ "$finished" = no ] && [ "$fresh" = yes ] || return 0
  for name in uninstall respawn environment join made leasewatch-agent; do
    rm -f "$lib/$name" "$lib/$name.put"
  done
  remove_made
}

remove_made() {
  inner_first=''
  while IFS= read -r folder; do inner_first=$folder$newline$inner_first; done <<TEXT
$made
TEXT
  printf '%s' "$inner_first" | while IFS= read -r folder; do
    [ -z "$folder" ] || rmdir "$folder" 2>/dev/null || true
  done
}

get_agent() {
  if [ "$fresh" = no ] && [ "$(sum_of "$lib/leasewatch-agent")" = "$digest" ]; then
    say "leasewatch-agent $version is here already"
    return
  fi
  problem='' got=no
  if [ -n "$local_agent" ]; then
    cp -- "$local_agent" "$new" || die "$local_agent cannot be read."
    is_known "$local_agent" && got=yes
  else
    for address in $addresses; do
      say "fetching leasewatch-agent $version from $address"
      if fetch "$address/agents/$digest" && is_known "$address"; then got=yes && break; fi
    done
  fi
  [ "$got" = yes ] || die 'there is no agent to install.' "$problem" \
    'Can this machine reach the server? curl, wget or python3 must be there and speak TLS 1.3.' \
    'If the server has other agents by now, copy the command from its page "Add nodes" again.' \
    'Or bring the agent here as a file, and add --agent FILE.'
  chmod 755 "$new"
  said=$("$new" --version 2>&1 </dev/null) || die "the agent does not run here: $said" \
    'It needs glibc 2.17 or newer, and a file system that programs may be run from.'
}

# fetch URL: into $new, with whichever program can. No certificate is checked: what arrives has the
# digest that is known here, or is not used.
fetch() {
  rm -f "$new"
  ! command -v curl >/dev/null || ! try curl -gfsSk --connect-timeout 20 -o "$new" "$1" || return 0
  ! command -v wget >/dev/null || ! try wget -nv -T 20 --no-check-certificate -O "$new" "$1" || return 0
  ! command -v python3 >/dev/null || ! try python3 -c '
import shutil, ssl, sys, urllib.request
context = ssl._create_unverified_context()
with urllib.request.urlopen(sys.argv[1], timeout=20, context=context) as answer:
    with open(sys.argv[2], "wb") as file:
        shutil.copyfileobj(answer, file)' "$1" "$new" || return 0
  : "${problem:=none of curl, wget and python3 is here.}"
  return 1
}

try() {
  if "$@" 2>"$new.why" </dev/null; then return; fi
  problem="$1: $(tail -n 1 "$new.why")"
  return 1
}

sum_of() { sha256sum <"$1" | cut -c 1-64; }

is_known() {
  if [ "$(sum_of "$new")" = "$digest" ]; then return; fi
  problem="what $1 gave has another SHA-256 than this file knows; it is not used."
  rm -f "$new"
  return 1
}

# put FILE MODE: the standard input, in place at once or not at all.
put() {
  rm -f "$1.put"
  (umask 077 && cat >"$1.put") || die "$1 cannot be written."
  chmod "$2" "$1.put" && mv -f "$1.put" "$1" || die "$1 cannot be written."
}

install_files() {
  changed=$fresh
  if [ -e "$new" ]; then mv -f "$new" "$lib/leasewatch-agent" && changed=yes; fi
  before=$(cat "$lib/environment" 2>/dev/null) || before=''
  environment=$(list_settings)
  [ "$before" = "$environment" ] || changed=yes
  printf '%s\n' "$environment" | put "$lib/environment" 644
  if [ -n "$join" ]; then
    printf 'LEASEWATCH_JOIN=%s\n' "$join" | put "$lib/join" 600
    changed=yes
  fi
  put "$lib/respawn" 755 <<'LEASEWATCH_END'
@RESPAWN@
LEASEWATCH_END
  put_state
  put_uninstall
  if [ "$manager" = systemd ]; then put_unit; fi
  if [ -n "$link" ] && [ ! -e "$link" ] && [ ! -L "$link" ]; then
    make_folder "$(dirname "$link")"
    ln -s "$lib/leasewatch-agent" "$link"
  fi
  printf '%s' "$made" | put "$lib/made" 644
}

# Those that were there, but for what was given now.
list_settings() {
  given=$settings
  if [ -e "$lib/environment" ]; then
    while IFS= read -r line; do
      case $newline$given in *"$newline${line%%=*}="*) ;; *) printf '%s\n' "$line" ;; esac
    done <"$lib/environment"
  fi
  printf '%s' "$given"
  [ -n "$kept" ] || printf 'LEASEWATCH_STATE_DIR=%s\n' "$state"
}

# An account of its own cannot be given a folder that somebody chose.
has_account() { [ "$manager" = systemd ] && [ "$state" = "$default_state" ]; }

put_state() {
  if has_account; then
    # systemd makes these two.
    [ -e /var/lib/private ] || made=$made/var/lib/private$newline
    [ -e "$state" ] || made=$made$state$newline
    return
  fi
  [ -d "$state" ] || { make_folder "$state" && chmod 700 "$state"; }
}

put_uninstall() {
  {
    printf '#!/bin/sh\n'
    # None of them holds a quote.
    printf "lib='%s'\nstate='%s'\nlink='%s'\nmanager='%s'\nunit='%s'\n" \
      "$lib" "$state" "$link" "$manager" "$unit"
    cat <<'LEASEWATCH_END'
@UNINSTALL@
LEASEWATCH_END
  } | put "$lib/uninstall" 755
}

put_unit() {
  if has_account; then
    account="DynamicUser=yes${newline}StateDirectory=leasewatch-agent${newline}StateDirectoryMode=0700"
    account="$account${newline}ProtectHome=yes"
  else
    account="ReadWritePaths=$state${newline}ProtectHome=read-only"
  fi
  while IFS= read -r line; do
    case $line in
      @ACCOUNT@) printf '%s\n' "$account" ;;
      *@LIB@*) printf '%s\n' "${line%%@LIB@*}$lib${line#*@LIB@}" ;;
      *) printf '%s\n' "$line" ;;
    esac
  done <<'LEASEWATCH_END' | put "$unit" 644
@UNIT@
LEASEWATCH_END
}

start_agent() {
  if [ "$manager" = systemd ]; then
    systemctl daemon-reload && systemctl -q enable leasewatch-agent ||
      die 'systemd does not take the unit.' 'Look: systemctl status leasewatch-agent'
  fi
  if [ "$start" = no ]; then
    say 'leasewatch-agent is installed and not started'
    how_to_go_on
    return
  fi
  if [ "$manager" = systemd ]; then
    if [ "$changed" = yes ] || ! systemctl -q is-active leasewatch-agent; then
      systemctl restart leasewatch-agent || die 'the agent does not start.' "$(last_words)"
    fi
  else
    [ "$changed" = no ] || "$lib/respawn" stop
    "$lib/respawn" start
  fi
  await_welcome
}

await_welcome() {
  say 'waiting for the server to let this node in'
  turns=0
  until is_welcome; do
    turns=$((turns + 1))
    if [ "$turns" -ge 45 ] || is_refused || ! is_kept_running; then
      die 'the agent is installed, and the server has not let it in. Its last words:' \
        "$(last_words)" '' 'If the join string is used up or over, run this again with a new one.' \
        "What keeps it from its work: $(shown_command) doctor"
    fi
    sleep 1
  done
  # A token that let one node in is of no more use, and one of a fleet is nothing to leave around.
  [ "$keep_join" = yes ] || rm -f "$lib/join"
  node=$("$lib/leasewatch-agent" status --json --state-dir "$state" </dev/null |
    sed -n 's/^ *"node": "\([0-9a-f]*\)".*/\1/p') || true
  say "leasewatch-agent is installed, and the server knows this machine as node $node"
  how_to_go_on
}

# The agent tells how it is each ten seconds; that it was let in is written down at once.
is_welcome() {
  case $("$lib/leasewatch-agent" status --json --state-dir "$state" 2>/dev/null </dev/null) in
    *'"running": true'*) grep -q '^\[enrolled\]' "$state/state.toml" 2>/dev/null ;;
    *) return 1 ;;
  esac
}

# Older words may still stand in the log at first.
is_refused() {
  [ "$turns" -ge 8 ] || return 1
  case $(last_words) in *'not authenticated'*) return 0 ;; *) return 1 ;; esac
}

is_kept_running() {
  if [ "$manager" = systemd ]; then
    ! systemctl -q is-failed leasewatch-agent
  else
    "$lib/respawn" status >/dev/null
  fi
}

last_words() {
  if [ "$manager" = systemd ]; then
    journalctl -q --no-pager -n 5 -o cat -u leasewatch-agent 2>/dev/null || true
  else
    tail -n 5 "$lib/log" 2>/dev/null || true
  fi
}

shown_command() {
  if [ -n "$link" ] && [ "$state" = "$default_state" ]; then
    printf leasewatch-agent
  else
    printf 'LEASEWATCH_STATE_DIR=%s %s/leasewatch-agent' "$state" "$lib"
  fi
}

how_to_go_on() {
  say "how it is: $(shown_command) status"
  if [ "$manager" = systemd ]; then
    say 'its log:   journalctl -u leasewatch-agent'
  else
    say "its log:   $lib/log" "no service manager starts it after a restart of this machine: $lib/respawn start"
  fi
  say "remove it: $lib/uninstall --purge"
}

main "$@"
