# Removes the leasewatch agent that was installed here, and with --purge its state: the node's key
# and what it has not delivered. Nothing else of this machine was changed by installing it.
set -eu

newline='
'

main() {
  case ${1:-} in
    '') purge=no ;;
    --purge) purge=yes ;;
    *) printf 'usage: uninstall [--purge]\n' >&2 && exit 2 ;;
  esac
  made=$(cat "$lib/made")
  stop_agent
  [ "$purge" = no ] || remove_state
  if [ -n "$link" ] && [ "$(readlink "$link")" = "$lib/leasewatch-agent" ]; then rm -f "$link"; fi
  for name in leasewatch-agent respawn environment join log log.1 pid made uninstall; do
    # Beside a state that stays, the next installation is told what this one made.
    [ "$name$purge" = madeno ] && [ -e "$lib/state" ] || rm -f "$lib/$name"
  done
  remove_folders
  if [ "$purge" = no ] && [ -e "$state" ]; then
    printf '%s\n' "leasewatch-agent is removed; its state is left in $state"
  else
    printf '%s\n' 'leasewatch-agent is removed'
  fi
}

stop_agent() {
  if [ "$manager" = systemd ]; then
    systemctl -q disable --now leasewatch-agent || true
    rm -f "$unit"
    systemctl daemon-reload || true
    systemctl -q reset-failed leasewatch-agent 2>/dev/null || true
  else
    "$lib/respawn" stop
  fi
}

# A folder that somebody chose, and that was there before, keeps what is not the agent's.
remove_state() {
  case $newline$made$newline$lib/state$newline/var/lib/leasewatch-agent$newline in
    *"$newline$state$newline"*)
      # systemd makes a link to a folder beside it.
      if [ -L "$state" ]; then rm -rf "/var/lib/private/${state##*/}"; fi
      rm -rf "$state"
      return
      ;;
  esac
  for name in node.key server.pub server.toml state.toml session instance.toml status.json lock; do
    rm -f "$state/$name" "$state/$name.refused" "$state/$name.new"
  done
  rm -rf "$state/spool"
  for copy in "$state"/elsewhere-*; do
    if [ -d "$copy" ]; then rm -rf "$copy"; fi
  done
}

remove_folders() {
  inner_first=''
  while IFS= read -r folder; do inner_first=$folder$newline$inner_first; done <<TEXT
$made
TEXT
  printf '%s' "$inner_first" | while IFS= read -r folder; do
    [ -z "$folder" ] || rmdir "$folder" 2>/dev/null || true
  done
  rmdir "$lib" 2>/dev/null || true
}

main "$@"
